"""A training under an engine, in processes of its own: with colocated vLLM, or on the completions that it has drawn.

engine_run.py MODEL FOLDER vllm|recorded

The first writes what each rank drew to FOLDER, and both write FOLDER/vllm.json or FOLDER/recorded.json.
"""

import json
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from support.engines import let_fsdp_run_on_cpu, let_zero3_shard_small_parameters
from support.runs import TINY_RUN, Watching, sums
from transformers import AutoTokenizer, PrinterCallback

from steer_trl import SteerGRPOConfig
from steer_trl.support.system import leave_group

torch.set_num_threads(1)

# The level is above what there can be, so the weights act from the first steps; groups that wait would be an earlier
# policy's; and with two optimizer steps a rollout, TRL scores it, with vLLM and without.
HELD = {"advantage_shaping": "repo_r", "hold_entropy": 7.0, "hold_entropy_unit": "nats", "hold_entropy_until": 1.0}
HELD |= {"dynamic_sampling": "resample", "dynamic_sampling_surplus": "drop"}
HELD |= {"steps_per_generation": 4, "max_steps": 6}
# The correction is a factor of the loss that the other training does not have.
VLLM = {"use_vllm": True, "vllm_mode": "colocate", "vllm_importance_sampling_correction": False}
VLLM |= {"vllm_max_model_length": 64, "vllm_gpu_memory_utilization": 0.3}


def has_a_digit(completions, **_):
    """Most groups have both kinds."""
    return [float(any(map(str.isdigit, text))) for text in completions]


class Drawing(Watching):
    """Keeps what is drawn, or hands out what was drawn before, call by call."""

    drawn: list
    given: list | None = None

    def _generate_and_score_completions(self, inputs):
        rollout = super()._generate_and_score_completions(inputs)
        torch.manual_seed(self.state.global_step)  # TRL shuffles the rollout now, and vLLM has drawn random numbers
        return rollout

    def _generate_single_turn(self, prompt_ids, *args, **kwargs):
        if self.given is None:
            result = super()._generate_single_turn(prompt_ids, *args, **kwargs)
            self.drawn.append([prompt_ids, *result])
            return result
        expected, *result = self.given.pop(0)
        assert prompt_ids == expected
        return tuple(result)


def scored(rollout):
    """What this rank trains on, with the log-probabilities of the policy that the trainer holds."""
    names = ("prompt_ids", "completion_ids", "old_per_token_logps")
    lengths = rollout["prompt_mask"].sum(1).tolist(), rollout["completion_mask"].sum(1).tolist()
    prompts, completions, logps = (rollout[name].tolist() for name in names)
    return [
        {"prompt": prompt[len(prompt) - before :], "completion": ids[:count], "logps": lp[:count]}
        for prompt, ids, lp, before, count in zip(prompts, completions, logps, *lengths, strict=True)
    ]


def make(model, **settings):
    trainer = Drawing(
        model=model,
        reward_funcs=has_a_digit,
        args=SteerGRPOConfig(**TINY_RUN | HELD | settings),
        train_dataset=sums(),
        processing_class=AutoTokenizer.from_pretrained(model),
    )
    trainer.remove_callback(PrinterCallback)
    trainer.drawn = []
    return trainer


def run(model, folder, kind):
    trainer = make(model, output_dir=str(folder / kind), **VLLM if kind == "vllm" else {})
    own = folder / f"drawn-{trainer.accelerator.process_index}.json"
    if kind == "recorded":
        trainer.given = json.loads(own.read_text())
    trainer.train()
    if kind == "vllm":
        own.write_text(json.dumps(trainer.drawn))
    else:
        assert trainer.given == []
    plugin = trainer.accelerator.state.deepspeed_plugin
    result = {
        "engine": str(trainer.accelerator.distributed_type).split(".")[-1],
        "zero_stage": plugin.zero_stage if plugin is not None else None,
        "processes": trainer.accelerator.num_processes,
        "scored": trainer.scored,
        "log": [entry for entry in trainer.state.log_history if "loss" in entry],
        "rollouts": [scored(rollout) for rollout in trainer.written],
    }
    if trainer.accelerator.is_main_process:
        (folder / f"{kind}.json").write_text(json.dumps(result))
    if dist.is_initialized():
        dist.barrier()


if __name__ == "__main__":
    if sys.argv[3] == "vllm":
        from support.vllm_on_cpu import keep_weights

        keep_weights()
    let_fsdp_run_on_cpu()
    let_zero3_shard_small_parameters()
    run(sys.argv[1], Path(sys.argv[2]), sys.argv[3])
    leave_group()
