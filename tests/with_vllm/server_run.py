"""A training of several processes whose completions a vLLM server writes, until that is ended.

server_run.py MODEL FOLDER URL GROUP_PORT PID

After the checkpoint of its last rollout but one the server, the process group PID, is ended. FOLDER/server-RANK.json
is what each process has trained on until then.
"""

import json
import os
import signal
import sys
from pathlib import Path

import torch
from engine_run import make, scored
from support.vllm_over_tcp import let_trainer_send_over_tcp
from transformers import TrainerCallback

from steer_trl.cli.errors import mark_crashes, report_errors

torch.set_num_threads(1)

SETTINGS = {"advantage_shaping": "stare", "stare_variant": "C2", "stare_gate": "none"}
SETTINGS |= {"use_vllm": True, "vllm_mode": "server", "vllm_importance_sampling_correction": False}
SETTINGS |= {"save_strategy": "steps", "save_steps": 6, "max_steps": 8}


class EndServer(TrainerCallback):
    """Ends the server once the checkpoint is written."""

    def __init__(self, trainer, folder, pid):
        self.trainer, self.folder, self.pid = trainer, folder, pid

    def on_save(self, args, state, control, **_):
        trainer = self.trainer
        own = {
            "processes": trainer.accelerator.num_processes,
            "scored": trainer.scored,
            "drawn": trainer.drawn,
            "rollouts": [scored(rollout) for rollout in trainer.written],
            "log": [entry for entry in state.log_history if "loss" in entry],
        }
        (self.folder / f"server-{trainer.accelerator.process_index}.json").write_text(json.dumps(own))
        trainer.accelerator.wait_for_everyone()
        if state.is_world_process_zero:
            os.killpg(self.pid, signal.SIGKILL)
            adapter = trainer.vllm_generation.vllm_client.session.get_adapter("http://")
            adapter.max_retries.backoff_factor = 0  # else it asks for a minute


def run(model, folder, url, port, pid):
    addresses = {"vllm_server_base_url": url, "vllm_group_port": int(port), "output_dir": str(folder / "out")}
    trainer = make(model, **SETTINGS, **addresses)
    trainer.add_callback(EndServer(trainer, folder, int(pid)))
    with mark_crashes():
        trainer.train()


if __name__ == "__main__":
    let_trainer_send_over_tcp()
    with report_errors("server_run.py"):
        run(sys.argv[1], Path(sys.argv[2]), *sys.argv[3:])
