"""A training with dynamic sampling and colocated vLLM, in a process of its own: a process is good for few engines.

sampling_run.py MODEL OUTPUT_DIR
"""

import sys

import torch
from support.runs import TINY_RUN, sums
from support.vllm_on_cpu import keep_weights
from transformers import AutoTokenizer

from steer_trl import SteerGRPOConfig, SteerGRPOTrainer

torch.set_num_threads(1)
keep_weights()


def has_a_one(completions, **_):
    """Some groups are all wrong, some have both."""
    return [float("1" in text) for text in completions]


if __name__ == "__main__":
    model, output_dir = sys.argv[1:]
    settings = TINY_RUN | {
        "output_dir": output_dir,
        "advantage_shaping": "stare",
        "use_vllm": True,
        "vllm_mode": "colocate",
        "vllm_max_model_length": 64,
        "dynamic_sampling": "resample",
        "dynamic_sampling_factor": 2,
        "dynamic_sampling_max_attempts": 50,
        "max_steps": 3,
        "save_strategy": "steps",
        "save_steps": 3,
    }
    trainer = SteerGRPOTrainer(
        model=model,
        reward_funcs=has_a_one,
        args=SteerGRPOConfig(**settings),
        train_dataset=sums(),
        processing_class=AutoTokenizer.from_pretrained(model),
    )
    trainer.train()
