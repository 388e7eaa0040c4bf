"""One training run on Countdown, by one process or several, from the start that `make quickstart` has made.

    accelerate launch --config_file configs/accelerate/cpu_2_processes.yaml -m steer_trl.countdown.training \\
        --start runs/quickstart/start --output_dir runs/countdown --max_steps 50 --advantage_shaping clip_cov

Any field of `SteerGRPOConfig` can be set, on the command line or with a recipe (`--config`).
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from datasets import Dataset
from transformers import TrainerCallback, TrainerControl, TrainerState
from transformers.integrations.deepspeed import unset_hf_deepspeed_config

from steer_trl import SteerGRPOConfig, SteerGRPOTrainer, runlog
from steer_trl.cli.parser import RecipeParser, checkpoint_to_resume
from steer_trl.countdown.evaluation import MEASURED, SAMPLINGS, evaluate, measure_saved
from steer_trl.countdown.task import MAX_COMPLETION_TOKENS, countdown_reward, split_problems
from steer_trl.exceptions import InvalidValueError
from steer_trl.system import leave_group
from steer_trl.trainer.checks.preflight import check_model_path

SETTINGS: dict[str, Any] = {
    "per_device_train_batch_size": 64,
    "steps_per_generation": 4,
    "num_generations": 8,
    "max_completion_length": MAX_COMPLETION_TOKENS,
    "learning_rate": 2.5e-4,
    "lr_scheduler_type": "constant",
    "epsilon_high": 0.28,
    "gradient_checkpointing": False,
    "logging_steps": 1,
    "save_strategy": "no",
    "report_to": "none",
    "log_tokens": 40,
    "disable_tqdm": True,
    "use_cpu": True,
    "bf16": False,
}
"""Defaults of [`~steer_trl.SteerGRPOConfig`] that suit the task, for two processes: 128 completions per step."""


@dataclass
class CountdownArguments:
    """Where to start from, and what to judge on."""

    start: str = field(metadata={"help": "Folder of the model to start from."})
    held_out: int = field(default=400, metadata={"help": "Problems to judge on."})
    eval_every: int | None = field(
        default=None,
        metadata={"help": "Optimizer steps between two evaluations at temperature 1; by default at the end only."},
    )


class HeldOut(TrainerCallback):
    """Evaluates in every way of sampling each few steps, into the log; the last step is left to the final one.

    The start is evaluated for the run log only, at temperature 1: it has been measured, once for all methods.
    """

    def __init__(self, every: int, prompts: list[str]) -> None:
        self.every, self.prompts = every, prompts

    def on_step_begin(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Evaluate the start."""
        if state.global_step == 0 and args.run_log:
            model, tokenizer = kwargs["model"], kwargs["processing_class"]
            write_evaluation(args, 0, {"T=1": evaluate(model, tokenizer, self.prompts, *SAMPLINGS["T=1"])})

    def on_step_end(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Evaluate if it is time. What is in the state's log is in the checkpoints."""
        if state.global_step % self.every == 0 and state.global_step < state.max_steps:
            model, tokenizer = kwargs["model"], kwargs["processing_class"]
            metrics = {name: evaluate(model, tokenizer, self.prompts, *drawn) for name, drawn in SAMPLINGS.items()}
            entry: dict[str, Any] = {"step": state.global_step, "held_out": metrics}
            state.log_history.append(entry)
            write_evaluation(args, state.global_step, metrics)


def write_evaluation(args: SteerGRPOConfig, step: int, metrics: dict[str, dict[str, list[float]]]) -> None:
    """Put the means of an evaluation into the run log, where `steer-trl report` finds them."""
    if args.run_log:
        means = {f"eval_held_out_{name}": mean for name, (mean, _) in metrics["T=1"].items()}
        if "greedy" in metrics:
            means["eval_held_out_greedy_accuracy"] = metrics["greedy"]["accuracy"][0]
        runlog.append(args.output_dir, {"step": step} | means)


def train(countdown: CountdownArguments, args: SteerGRPOConfig) -> None:
    """Train the start, or resume; save the model, and on one process evaluate it and write `measured.json`.

    That has TRL's log, the seconds since the start or the resume, and the evaluations in every way of sampling:
    `held_out` over the steps, `final` at the end, and there `problems` for every single one.

    Raises:
        `ValueError`: evaluations during the training of several processes, which may each hold a part of the model.
    """
    if countdown.eval_every and args.world_size > 1:
        raise InvalidValueError(
            f"eval_every={countdown.eval_every} cannot be combined with {args.world_size} processes. Leave it out: "
            "the model is evaluated at the end."
        )
    check_model_path(countdown.start)
    held_out, prompts = split_problems(countdown.held_out)
    trainer = SteerGRPOTrainer(
        model=countdown.start,
        reward_funcs=countdown_reward,
        args=args,
        train_dataset=Dataset.from_dict({"prompt": prompts}),
        callbacks=[HeldOut(countdown.eval_every, held_out)] if countdown.eval_every else None,
    )
    trainer.train(resume_from_checkpoint=checkpoint_to_resume(args.resume_from_checkpoint))
    trainer.save_model()
    trainer.accelerator.wait_for_everyone()
    if args.process_index == 0:
        unset_hf_deepspeed_config()  # else the model to judge would be sharded over processes that do not judge
        measured = measure_saved(args.output_dir, countdown.held_out)
        history: list[dict[str, Any]] = trainer.state.log_history  # with the entries of `HeldOut`
        log = [entry for entry in history if "held_out" not in entry]
        points = [{"step": e["step"]} | e["held_out"] for e in history if "held_out" in e]
        points.append({"step": trainer.state.global_step} | measured["final"])
        write_evaluation(args, trainer.state.global_step, measured["final"])
        measured |= {"log": log, "seconds": log[-1]["train_runtime"], "held_out": points}
        Path(args.output_dir, MEASURED).write_text(json.dumps(measured, indent=1))


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse the command line over a recipe over the settings of the task, and train."""
    parser = RecipeParser((CountdownArguments, SteerGRPOConfig))
    parser.set_defaults_with_config(**SETTINGS)
    train(*parser.parse_args_and_config(arguments))
    leave_group()


if __name__ == "__main__":
    main()
