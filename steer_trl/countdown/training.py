"""One training run on Countdown, by one process or by several."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer, PrinterCallback, TrainerCallback

from steer_trl import SteerGRPOConfig, SteerGRPOTrainer
from steer_trl.countdown.evaluation import evaluate_all
from steer_trl.countdown.task import MAX_COMPLETION_TOKENS, countdown_reward, split_problems
from steer_trl.recipes import checkpoint_to_resume

MEASURED = "measured.json"
SETTINGS: dict[str, Any] = {
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
    "disable_tqdm": True,
    "use_cpu": True,
    "bf16": False,
}
"""Fields of [`~steer_trl.SteerGRPOConfig`] that suit the task; the effective batch is 128 completions."""


def train(
    start: str | Path, args: SteerGRPOConfig, num_held_out: int, callbacks: Sequence[TrainerCallback] = ()
) -> dict[str, Any]:
    """Train the model of `start`, or resume, and save it to `args.output_dir`.

    Return TRL's log of the whole run, and the seconds since it was started or resumed.
    """
    trainer = SteerGRPOTrainer(
        model=str(start),
        reward_funcs=countdown_reward,
        args=args,
        train_dataset=Dataset.from_dict({"prompt": split_problems(num_held_out)[1]}),
        callbacks=list(callbacks),
    )
    trainer.remove_callback(PrinterCallback)
    trainer.train(resume_from_checkpoint=checkpoint_to_resume(args.resume_from_checkpoint))
    trainer.save_model()
    trainer.accelerator.wait_for_everyone()
    return {"log": trainer.state.log_history, "seconds": trainer.state.log_history[-1]["train_runtime"]}


def save_measured(folder: str | Path, num_held_out: int, **measured: Any) -> dict[str, Any]:
    """Evaluate the model that `folder` holds, and write and return that with what was `measured` in training."""
    model, tokenizer = AutoModelForCausalLM.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    measured["final"] = evaluate_all(model, tokenizer, split_problems(num_held_out)[0])
    Path(folder, MEASURED).write_text(json.dumps(measured, indent=1))
    return measured
