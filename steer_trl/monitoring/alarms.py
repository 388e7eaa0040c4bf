"""Reports alarms on the terminal, in a file of the run, and to trackers. An alarm never stops a training run.

The file is `_logs/alarms.jsonl` in `output_dir` (`monitoring/run_files.py`). It has one line per alarm, with the
fields of [`~steer_trl.monitoring.watch.Alarm`] and the `time` in seconds since 1970.
"""

import logging
import sys
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState

from steer_trl.monitoring import run_files
from steer_trl.monitoring.watch import Alarm, AlarmWatch
from steer_trl.support.validation import as_tuple

logger = logging.getLogger(__name__)


class AlarmReporter(TrainerCallback):
    """Reads each log entry on the main process, and reports the alarms that the entry raises."""

    def __init__(self, watch: AlarmWatch) -> None:
        self.watch = watch

    def on_log(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Report the alarms that a log entry raises."""
        if not state.is_world_process_zero:
            return
        for alarm in call_safely(self.watch.read_entry, state.global_step, kwargs.get("logs") or {}) or []:
            self.report(alarm, args)

    def report(self, alarm: Alarm, args: Any) -> None:
        """Write an alarm to the terminal, the run's folder and the trackers."""
        # The text begins with a line break, because a progress bar may have left the cursor in the middle of a line.
        logger.warning("\nALARM %s, step %d: %s. %s", alarm.alarm, alarm.step, alarm.title, alarm.text)
        # Only SteerGRPOConfig has this setting.
        if getattr(args, "run_log", True):
            call_safely(run_files.append, args.output_dir, asdict(alarm), run_files.ALARMS)
        for name in TRACKERS.keys() & set(as_tuple(args.report_to)):
            call_safely(TRACKERS[name], alarm)


def call_safely(act: Callable[..., Any], *arguments: Any) -> Any:
    """Call `act`. If it fails, warn and return `None`, so that an alarm cannot stop a training run."""
    try:
        return act(*arguments)
    except Exception:
        logger.warning("An alarm could not be judged or delivered; the training continues.", exc_info=True)
        return None


def _tell_trackio(alarm: Alarm) -> None:
    # If the run reports to trackio, Transformers' callback has already imported it.
    trackio = sys.modules.get("trackio")
    if trackio is not None and trackio.context_vars.current_run.get() is not None:
        level = trackio.AlertLevel.ERROR if alarm.level == "error" else trackio.AlertLevel.WARN
        trackio.alert(title=alarm.title, text=f"Step {alarm.step}: {alarm.text}", level=level)


def _tell_wandb(alarm: Alarm) -> None:
    wandb = sys.modules.get("wandb")
    if wandb is not None and wandb.run is not None:
        level = "ERROR" if alarm.level == "error" else "WARN"
        wandb.run.alert(title=alarm.title, text=f"Step {alarm.step}: {alarm.text}", level=level)


TRACKERS: dict[str, Callable[[Alarm], None]] = {"trackio": _tell_trackio, "wandb": _tell_wandb}
