"""Evaluate before any training, and write down how large the weights of each model are on each process.

    accelerate launch ... loaded_weights.py OUT.json [ignored]

The models are in the folders `reference` (the policy, too) and `judge`. If `ignored`, Accelerate ignores its own FSDP
configuration, as it does on a CPU, while Transformers obeys it.
"""

import json
import sys

from accelerate.utils import gather_object
from support.engines import let_fsdp_run_on_cpu
from support.runs import CHARACTERS, TINY_RUN, sums

from steer_trl import SteerGRPOConfig, SteerGRPOTrainer
from steer_trl.demo.tiny import tiny_tokenizer
from steer_trl.support.system import leave_group


def size(model):
    """The sum of the absolute values of all weights."""
    whole = [one.full_tensor() if hasattr(one, "full_tensor") else one for one in model.parameters()]
    return sum(one.detach().double().abs().sum().item() for one in whole)


if __name__ == "__main__":
    out, *ignored = sys.argv[1:]
    if not ignored:
        let_fsdp_run_on_cpu()
    trainer = SteerGRPOTrainer(
        model="reference",
        reward_funcs="judge",
        args=SteerGRPOConfig(**TINY_RUN | {"output_dir": "out", "max_completion_length": 4, "beta": 0.5}),
        train_dataset=sums(),
        eval_dataset=sums().select(range(4)),
        processing_class=tiny_tokenizer(CHARACTERS),
    )
    trainer.evaluate()
    models = {"policy": trainer.model, "reference": trainer.ref_model, "judge": trainer.reward_funcs[0]}
    sizes = gather_object([{name: size(model) for name, model in models.items()}])
    if trainer.accelerator.is_main_process:
        with open(out, "w") as file:
            json.dump({"sizes": sizes, "is_sharded": trainer.is_fsdp_enabled}, file)
    leave_group()
