"""Trains a model on math problems, in one short script with data, reward and trainer. Copy it and change it.

    accelerate launch --config_file configs/accelerate/zero2.yaml examples/train_math.py --output_dir runs/math

The run holds the entropy, gives hard problems more weight, and resamples prompts. Every field of `SteerGRPOConfig` is
a flag. `steer-trl train --config recommended_qwen2.5_math_1.5b` starts it from a recipe, with vLLM, weights in
bfloat16, a limit for prompts, and evaluations. That command also offers LoRA and quantization.
"""

from dataclasses import dataclass

from trl import TrlParser

from steer_trl import SteerGRPOConfig, SteerGRPOTrainer
from steer_trl.data import load_math_dataset
from steer_trl.rewards import MathReward

RECOMMENDED = {
    "hold_entropy": 0.65,  # hold the entropy at this share of its initial value, and let it go after 60 % of the run
    "advantage_shaping": "f_grpo",  # give hard problems more weight
    "dynamic_sampling": "resample",  # replace prompts whose completions are all correct or all incorrect
    "epsilon_high": 0.28,
    "lr_scheduler_type": "constant",
    "max_steps": 600,
    "max_completion_length": 3072,
    # On 8 GPUs, a rollout has 512 completions of 64 prompts and is trained on in four steps of 128.
    "per_device_train_batch_size": 8,
    "gradient_accumulation_steps": 2,
    "steps_per_generation": 8,
}


@dataclass
class Arguments:
    """The model and the data set."""

    model: str = "Qwen/Qwen2.5-Math-1.5B"
    dataset: str = "dapo-math-17k"


if __name__ == "__main__":
    parser = TrlParser((Arguments, SteerGRPOConfig))
    parser.set_defaults(**RECOMMENDED)
    arguments, training_args = parser.parse_args_and_config()
    trainer = SteerGRPOTrainer(
        model=arguments.model,
        reward_funcs=MathReward(incorrect=-1.0),
        args=training_args,
        train_dataset=load_math_dataset(arguments.dataset),
    )
    trainer.train()
    trainer.save_model()
    trainer.accelerator.end_training()
