"""A math run in one screen: data, reward, trainer. Copy it and change it.

    accelerate launch --config_file configs/accelerate/zero2.yaml examples/train_math.py --output_dir runs/math

`steer-trl train` does the same from a recipe, with evaluation, LoRA and quantization.
"""

from dataclasses import dataclass

from trl import TrlParser

from steer_trl import SteerGRPOConfig, SteerGRPOTrainer
from steer_trl.data import load_math_dataset
from steer_trl.rewards import MathReward


@dataclass
class Arguments:
    """What to train, and on what."""

    model: str = "Qwen/Qwen2.5-Math-1.5B"
    dataset: str = "dapo-math-17k"


if __name__ == "__main__":
    arguments, training_args = TrlParser((Arguments, SteerGRPOConfig)).parse_args_and_config()
    trainer = SteerGRPOTrainer(
        model=arguments.model,
        reward_funcs=MathReward(incorrect=-1.0),
        args=training_args,
        train_dataset=load_math_dataset(arguments.dataset),
    )
    trainer.train()
    trainer.save_model()
    trainer.accelerator.end_training()
