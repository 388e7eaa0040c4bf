"""A run with adaptive STARE that kills itself at a given moment, or goes on from its last checkpoint.

killed_run.py MODEL OUTPUT_DIR MOMENT     MOMENT: "never", "resume", or what is passed to `die_at`
"""

import os
import signal
import sys

import torch
from support.runs import TINY_RUN, count_reward, sums
from transformers import AutoTokenizer, TrainerCallback
from transformers.trainer_utils import get_last_checkpoint

from steer_trl import SteerGRPOConfig, SteerGRPOTrainer
from steer_trl.processes import leave_group

torch.set_num_threads(1)


def load_onto_cpu():
    """On several CPU processes Transformers loads the optimizer onto `cpu:0`, a place that torch does not know."""
    load = torch.load
    torch.load = lambda *args, **kwargs: load(*args, **kwargs | {"map_location": "cpu"})


def die():
    os.kill(os.getpid(), signal.SIGKILL)


class DieAt(TrainerCallback):
    """Die after a step's update and before its checkpoint, or between two micro-batches."""

    def __init__(self, moment):
        self.moment = moment

    def on_step_end(self, args, state, control, **kwargs):
        if self.moment == f"update {state.global_step}":
            die()

    def on_substep_end(self, args, state, control, **kwargs):
        if self.moment == f"accumulation {state.global_step}":
            die()


class Mortal(SteerGRPOTrainer):
    """Dies in the middle of writing a rollout."""

    moment = ""

    def _calculate_rewards(self, *args, **kwargs):
        if self.moment == f"rollout {self.state.global_step}":
            die()
        return super()._calculate_rewards(*args, **kwargs)


def main(model, output_dir, moment):
    settings = TINY_RUN | {
        "output_dir": output_dir,
        "advantage_shaping": ["steer", "stare"],
        "stare_adaptive": True,
        "stare_step": 0.05,
        "stare_target_entropy": 1.001,
        "stare_target_entropy_unit": "initial",
        "steps_per_generation": 4,  # two optimizer steps, twice: a rollout lasts four
        "num_iterations": 2,
        "max_steps": 10,
        "save_strategy": "steps",
        "save_steps": 1,
    }
    trainer = Mortal(
        model=model,
        reward_funcs=count_reward,
        args=SteerGRPOConfig(**settings),
        train_dataset=sums(),
        processing_class=AutoTokenizer.from_pretrained(model),
        callbacks=[DieAt(moment)],
    )
    trainer.moment = moment
    trainer.train(resume_from_checkpoint=get_last_checkpoint(output_dir) if moment == "resume" else None)


if __name__ == "__main__":
    load_onto_cpu()
    main(*sys.argv[1:])
    leave_group()
