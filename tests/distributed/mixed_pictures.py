"""A training whose first rollout has pictures on one rank only: mixed_pictures.py true|false, for `skip_padding`."""

import sys
import tempfile

import torch
from datasets import Dataset, Features, Image, List, Value
from PIL.Image import new as new_picture
from support.pictures import tiny_llava, tiny_processor
from support.runs import TINY_RUN

from steer_trl import SteerGRPOConfig, SteerGRPOTrainer
from steer_trl.support.system import leave_group

torch.set_num_threads(1)
FEATURES = Features({"prompt": List({"role": Value("string"), "content": Value("string")}), "images": List(Image())})


def reward(completions, **_):
    return [float(i % 2) for i in range(len(completions))]


if __name__ == "__main__":
    pictures = [[new_picture("RGB", (8, 8), (i * 12,) * 3)] if i % 4 < 2 else [] for i in range(16)]
    prompts = [[{"role": "user", "content": f"{i}?"}] for i in range(16)]
    processor = tiny_processor()
    settings = TINY_RUN | {
        "advantage_shaping": "stare",
        "stare_variant": "C2",
        "stare_gate": "none",
        "stare_amplify": 1.25,
        "stare_attenuate": 0.8,
        "skip_padding": sys.argv[1] == "true",
        "per_device_train_batch_size": 4,
        "gradient_accumulation_steps": 1,
        "steps_per_generation": 2,
        "num_generations": 4,
        "max_steps": 2,
        "shuffle_dataset": False,
        "log_multimodal": False,
        "ddp_find_unused_parameters": True,
    }
    trainer = SteerGRPOTrainer(
        model=tiny_llava(processor),
        processing_class=processor,
        reward_funcs=reward,
        train_dataset=Dataset.from_dict({"prompt": prompts, "images": pictures}, features=FEATURES),
        args=SteerGRPOConfig(tempfile.mkdtemp(), **settings),
    )
    trainer.train()
    total = sum(parameter.double().sum() for parameter in trainer.model.parameters()).item()
    trainer.accelerator.print(f"parameters: {total!r} after {trainer.state.global_step} steps")
    leave_group()
