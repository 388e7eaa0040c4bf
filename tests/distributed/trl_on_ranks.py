"""Train TRL's trainer and ours on two ranks, on the same completions, and write down how they differ.

    accelerate launch ... trl_on_ranks.py OUT.json

`OUT.json` gets for each case the relative difference of our update, with completions in TRL's order (`in_order`) and
in ours (`ordered`), the log of TRL and ours in its order, and whether any completion changed its rank.
"""

import json
import os
import random
import sys
import tempfile

import torch
from datasets import Dataset
from support.runs import CHARACTERS, TINY_RUN
from torch.nn.utils import parameters_to_vector
from transformers import PrinterCallback
from trl import GRPOConfig, GRPOTrainer

from steer_trl import SteerGRPOConfig, SteerGRPOTrainer
from steer_trl.demo.tiny import tiny_qwen2, tiny_tokenizer
from steer_trl.support.system import leave_group
from steer_trl.trainer.forward import ordering

torch.set_num_threads(1)
TOKENIZER = tiny_tokenizer(CHARACTERS)
RUN = TINY_RUN | {"optim": "sgd", "learning_rate": 0.5, "max_grad_norm": 1e9, "lr_scheduler_type": "constant"}
RUN |= {"max_steps": 2, "gradient_accumulation_steps": 2, "steps_per_generation": 4, "max_completion_length": 24}


class Plain:
    pass


class OwnLoss:
    """A mean over the rows of a micro-batch, which does not know of the order of a step."""

    def _compute_loss(self, model, inputs):
        ids = torch.cat([inputs["prompt_ids"], inputs["completion_ids"]], 1)
        own = inputs["completion_mask"]
        mask = torch.cat([inputs["prompt_mask"], own], 1)
        logps, *_ = self._get_per_token_logps_and_entropies(model, ids, mask, own.size(1))
        rows = (inputs["advantages"].view(len(own), -1) * logps * own).sum(1) / own.sum(1)
        return -rows.mean() / self.current_gradient_accumulation_steps


class HolesInMask:
    """From the second rollout on, every third token is hidden."""

    def _generate_and_score_completions(self, inputs):
        rollout = super()._generate_and_score_completions(inputs)
        if self.state.global_step:
            rollout["completion_mask"] = rollout["completion_mask"].clone()
            rollout["completion_mask"][:, 1::3] = 0
        return rollout


CASES = {
    "vespo": (Plain, {"loss_type": "vespo", "vllm_importance_sampling_mode": "token_truncate"}),
    "sequence": (Plain, {"loss_type": "grpo", "importance_sampling_level": "sequence"}),
    "own_loss": (OwnLoss, {}),
    "holes": (HolesInMask, {"steps_per_generation": 2}),
    "split_batches": (Plain, {"accelerator_config": {"split_batches": True}}),
}


def count_odd_digits(completions, **_):
    return [float(sum(map(text.count, "13579"))) for text in completions]


def train(parent, mixin, settings):
    """Return the update and the log of a training in which the second rank's completions are short."""
    config = SteerGRPOConfig if parent is SteerGRPOTrainer else GRPOConfig
    trainer = type("Subclass", (mixin, parent), {})(
        model=tiny_qwen2(TOKENIZER),
        args=config(tempfile.mkdtemp(), **RUN | settings),
        processing_class=TOKENIZER,
        reward_funcs=count_odd_digits,
        train_dataset=Dataset.from_dict({"prompt": [f"{i}+{j}=" for i in range(6) for j in range(3)]}),
    )
    trainer.remove_callback(PrinterCallback)
    rank = trainer.accelerator.process_index
    dice = random.Random(rank)

    def write(prompt_ids, *_, **__):
        longest = 6 if rank else 24
        ids = [[dice.randrange(4, 14) for _ in range(dice.randrange(2, longest))] for _ in prompt_ids]
        logps = [[-2.77 + 0.05 * (dice.random() - 0.5) for _ in range(len(row) + 1)] for row in ids]
        return [[*row, TOKENIZER.eos_token_id] for row in ids], logps

    trainer._generate_single_turn = write
    # TRL then corrects for the difference of vLLM's log-probabilities, which `write` returns.
    trainer.use_vllm = settings.get("loss_type") == "vespo"
    trainer.vllm_importance_sampling_correction = trainer.use_vllm
    before = parameters_to_vector(trainer.model.parameters()).detach().double()
    trainer.train()
    update = parameters_to_vector(trainer.model.parameters()).detach().double() - before
    return update, trainer.state.log_history


def compare(name):
    """Compare the three trainings of a case."""
    mixin, settings = CASES[name]
    ours = settings | {"advantage_shaping": "none", "skip_padding": True, "alarms": False, "run_log": False}
    ours |= {"diagnostics": False}
    sent = []
    send_rows = ordering.send_rows

    def watch(columns, widths, wanted, rank):
        sent.append(wanted)
        return send_rows(columns, widths, wanted, rank)

    expected, log = train(GRPOTrainer, mixin, settings)
    ordering.send_rows = watch
    ordered, _ = train(SteerGRPOTrainer, mixin, ours)
    ordering.send_rows = send_rows
    is_on, ordering.Ordering.is_on = ordering.Ordering.is_on, False
    in_order, log_in_order = train(SteerGRPOTrainer, mixin, ours)
    ordering.Ordering.is_on = is_on
    found = {"in_order": in_order, "ordered": ordered}
    differences = {key: ((x - expected).norm() / expected.norm()).item() for key, x in found.items()}
    return differences | {"size": expected.norm().item(), "logs": [log, log_in_order], "travelled": len(sent)}


if __name__ == "__main__":
    results = {name: compare(name) for name in CASES}
    if int(os.environ.get("RANK", 0)) == 0:
        with open(sys.argv[1], "w") as file:
            json.dump(results, file)
    leave_group()
