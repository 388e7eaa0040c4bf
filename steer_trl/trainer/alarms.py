"""Alarms where they are seen: in the log, in a file beside the run, and in the tracker. They never end a training.

The file is `_logs/alarms.jsonl` in `output_dir`: one JSON object per line, with the fields of
[`~steer_trl.diagnostics.Alarm`] and `time`, seconds since 1970. What begins with `_` is left out of every push.
"""

import json
import logging
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from steer_trl.diagnostics import Alarm, Watch
from steer_trl.files import write_whole
from steer_trl.validation import listed

logger = logging.getLogger(__name__)

FILE = Path("_logs", "alarms.jsonl")


class Alarms(TrainerCallback):
    """Reads each line of the log on the main process, and says what is wrong with the run."""

    def __init__(self, watch: Watch) -> None:
        self.watch = watch

    def on_train_begin(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Drop what a killed run has said after the checkpoint that this one goes on from."""
        if state.is_world_process_zero:
            guarded(_forget_after, Path(args.output_dir or "", FILE), state.global_step)

    def on_log(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **given: Any) -> None:
        """Judge a line of the log."""
        if not state.is_world_process_zero:
            return
        for alarm in guarded(self.watch.take, state.global_step, given.get("logs") or {}) or []:
            logger.warning("%s. %s", alarm.title, alarm.text)
            guarded(_append, Path(args.output_dir or "", FILE), alarm)
            for name in TRACKERS.keys() & set(listed(args.report_to or ())):
                guarded(TRACKERS[name], alarm)


def guarded(act: Callable[..., Any], *arguments: Any) -> Any:
    """Call `act`; if it fails, say so and return `None`: an alarm must not cost a training."""
    try:
        return act(*arguments)
    except Exception:
        logger.warning("An alarm could not be judged or delivered; the training continues.", exc_info=True)
        return None


def _append(path: Path, alarm: Alarm) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        file.write(json.dumps(asdict(alarm) | {"time": time.time()}) + "\n")


def _forget_after(path: Path, step: int) -> None:
    if path.exists():
        kept = [line for line in path.read_text().splitlines() if _step_of(line) <= step]
        write_whole(path, lambda partial: partial.write_text("".join(f"{line}\n" for line in kept)))


def _step_of(line: str) -> float:
    """The step of a line; a torn one has none, and goes."""
    try:
        return float(json.loads(line)["step"])
    except (ValueError, KeyError, TypeError):
        return float("inf")


def _tell_trackio(alarm: Alarm) -> None:
    trackio = sys.modules.get("trackio")  # Transformers' callback has imported it
    if trackio is not None and trackio.context_vars.current_run.get() is not None:
        level = trackio.AlertLevel.ERROR if alarm.level == "error" else trackio.AlertLevel.WARN
        trackio.alert(title=alarm.title, text=alarm.text, level=level)


def _tell_wandb(alarm: Alarm) -> None:
    wandb = sys.modules.get("wandb")
    if wandb is not None and wandb.run is not None:
        wandb.run.alert(title=alarm.title, text=alarm.text, level="ERROR" if alarm.level == "error" else "WARN")


TRACKERS: dict[str, Callable[[Alarm], None]] = {"trackio": _tell_trackio, "wandb": _tell_wandb}
