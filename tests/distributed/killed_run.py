"""A run that kills itself at a given moment, or goes on from its last checkpoint.

killed_run.py MODEL OUTPUT_DIR MOMENT [RUN]     MOMENT: "never", "resume", or one of those in `DieAt` and `Mortal`
"""

import os
import signal
import sys

import torch
from support.runs import TINY_RUN, count_reward, of_method, sums
from transformers import AutoTokenizer, TrainerCallback

from steer_trl import SteerGRPOConfig, SteerGRPOTrainer
from steer_trl.support.system import leave_group

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

    def _generate_single_turn(self, *args, **kwargs):
        written = super()._generate_single_turn(*args, **kwargs)
        if self.moment == f"rollout {self.state.global_step}":
            die()
        return written


def has_two_ones(completions, **_):
    """Most groups are all wrong at first."""
    return [float(text.count("1") > 1) for text in completions]


ADAPTIVE = {
    "advantage_shaping": ["steer", "stare"],
    "stare_adaptive": True,
    **of_method("stare", step=0.05),
}
ADAPTIVE |= {"stare_target_entropy": 1.001, "stare_target_entropy_unit": "initial"}
HELD = {"advantage_shaping": "repo_r", "hold_entropy": 10.0, "hold_entropy_unit": "nats"}
HELD |= {"hold_entropy_final": 2.0, "hold_entropy_decay_start": 0.2}
RESAMPLE = ADAPTIVE | {"dynamic_sampling": "resample", "dynamic_sampling_factor": 2}
RUNS = {"adaptive": ADAPTIVE, "resample": RESAMPLE, "held": HELD}


def main(model, output_dir, moment, name="adaptive"):
    settings = TINY_RUN | {"output_dir": output_dir, "max_steps": 10, "save_strategy": "steps", "save_steps": 1}
    settings |= {"steps_per_generation": 4, "num_iterations": 2}  # two optimizer steps, twice: a rollout lasts four
    settings |= RUNS[name]
    trainer = Mortal(
        model=model,
        reward_funcs=has_two_ones if name == "resample" else count_reward,
        args=SteerGRPOConfig(**settings),
        train_dataset=sums(),
        processing_class=AutoTokenizer.from_pretrained(model),
        callbacks=[DieAt(moment)],
    )
    trainer.moment = moment
    trainer.train(resume_from_checkpoint=moment == "resume")


if __name__ == "__main__":
    load_onto_cpu()
    main(*sys.argv[1:])
    leave_group()
