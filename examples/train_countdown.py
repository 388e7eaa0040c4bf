"""Train the laptop task on any number of processes, from a start that `make quickstart` or `make compare` has made.

    accelerate launch --config_file configs/accelerate/cpu_2_processes.yaml examples/train_countdown.py \\
        --start runs/quickstart/start --output_dir runs/countdown --max_steps 50 --advantage_shaping clip_cov

Any field of `SteerGRPOConfig` can be set, on the command line or with a recipe (`--config`).
"""

from dataclasses import dataclass, field

from transformers.integrations.deepspeed import unset_hf_deepspeed_config

from steer_trl import SteerGRPOConfig
from steer_trl.countdown.training import SETTINGS, save_measured, train
from steer_trl.preflight import check_model_path
from steer_trl.recipes import RecipeParser


@dataclass
class CountdownArguments:
    """Where to start from, and what to judge on."""

    start: str = field(metadata={"help": "Folder of the model to start from."})
    held_out: int = field(default=400, metadata={"help": "Problems to judge on."})


def main(countdown_args: CountdownArguments, training_args: SteerGRPOConfig) -> None:
    """Train, save, evaluate on one process."""
    check_model_path(countdown_args.start)
    measured = train(countdown_args.start, training_args, countdown_args.held_out)
    if training_args.process_index == 0:
        unset_hf_deepspeed_config()  # else the model to judge would be sharded over processes that do not judge
        save_measured(training_args.output_dir, countdown_args.held_out, **measured)


def parse(arguments: list[str] | None = None) -> tuple[CountdownArguments, SteerGRPOConfig]:
    """Parse the command line over a recipe over the settings of the task."""
    parser = RecipeParser((CountdownArguments, SteerGRPOConfig))
    parser.set_defaults_with_config(**SETTINGS, per_device_train_batch_size=64)
    return parser.parse_args_and_config(arguments)


if __name__ == "__main__":
    from torch import distributed

    main(*parse())
    if distributed.is_initialized():  # processes that leave without a word can abort each other
        distributed.barrier()
        distributed.destroy_process_group()
