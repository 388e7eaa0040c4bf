"""Prints one readable line per log entry.

    step 12/2400  reward 0.31  entropy 0.42 (start 0.55, target 0.44, strength 0.12)  weights 0.80..1.00, mean 0.993,
    31 % changed  truncated 4 %  same reward 22 %  14.2 s, 9:12:00 left

Trackers and `trainer_state.json` still receive every number. In a notebook, Transformers' table is shown as usual.
"""

import time
from collections.abc import Mapping, Sequence
from typing import Any

from tqdm import tqdm
from transformers import PrinterCallback, ProgressCallback, Trainer, TrainerCallback, TrainerControl, TrainerState

from steer_trl.config import SteerGRPOConfig
from steer_trl.monitoring import key_names
from steer_trl.monitoring.run_log import is_at_its_end
from steer_trl.monitoring.start import drop_empty_entropy, find_truncated, start_entropy

Logs = Mapping[str, Any]

MOST_UNANSWERED = 0.5
"""The largest share of a benchmark's samples without an answer that is not shown."""


def describe_settings(args: SteerGRPOConfig) -> str:
    """Return one line with the methods, the `hold_entropy` target, dynamic sampling and the rollout size."""
    parts = [f"advantage_shaping {', '.join(map(str, args.shaping_names)) or 'none'}"]
    if args.hold_entropy is not None:
        parts.append(f"hold_entropy {args.hold_entropy:g} ({args.hold_entropy_unit})")
    parts.append(f"dynamic_sampling {args.dynamic_sampling}")
    parts.append(f"{args.groups_per_rollout} prompts x {args.num_generations} completions per rollout")
    return "; ".join(parts)


class LogFormatter:
    """Formats log entries as terminal lines, which include the run's initial entropy and the time left."""

    def __init__(self) -> None:
        self.start_entropy: float | None = None
        self._truncated: float | None = None
        self.began = time.monotonic()
        self.first_step = 0
        self._budget: int | None = None
        self._first_tokens = 0.0

    def begin(self, args: SteerGRPOConfig, state: TrainerState) -> str:
        """Start a run and return its header: the settings and, if the run is resumed, its step."""
        self.began = time.monotonic()
        self.first_step = state.global_step
        self._budget = args.max_generated_tokens
        totals = [
            entry[key_names.GENERATED_TOKENS] for entry in state.log_history if entry.get(key_names.GENERATED_TOKENS)
        ]
        self._first_tokens = totals[-1] if totals else 0.0
        self.start_entropy = start_entropy(state.log_history)
        settings = describe_settings(args)
        if not state.global_step:
            return settings
        step = f"step {state.global_step} of {state.max_steps}"
        if is_at_its_end(state):
            return f"{settings}\nalready at {step}: there is nothing left to train"
        return f"{settings}\nresuming at {step}"

    def line(self, logs: Logs, state: TrainerState) -> str:
        """Return the line for a log entry of training, of an evaluation, or of the end of the run."""
        # TRL logs `None` for a mean over nothing.
        logs = {key: value for key, value in logs.items() if value is not None}
        if "train_runtime" in logs:
            trained = state.global_step - self.first_step
            return f"trained {trained} steps in {tqdm.format_interval(logs['train_runtime'])}"
        step = f"step {state.global_step}/{state.max_steps}"
        if any(key.startswith("eval_") for key in logs):
            return "  ".join([step, "evaluation", *_describe_evaluation(logs)])
        logs = drop_empty_entropy(logs, self._truncated)
        self._truncated = find_truncated(logs, self._truncated)
        self.start_entropy = start_entropy([logs], self.start_entropy)
        parts = [step, *_describe({"reward": logs.get(key_names.REWARD)}), self._describe_entropy(logs)]
        parts += [_describe_weights(logs), *_describe_data(logs), self._describe_times(logs, state)]
        return "  ".join(part for part in parts if part)

    def _describe_entropy(self, logs: Logs) -> str:
        entropy = _find_first(logs, key_names.ENTROPIES)
        if entropy is None:
            return ""
        about = {
            "start": self.start_entropy,
            "target": _find_first(logs, (key_names.HELD_TARGET, key_names.STARE_TARGET)),
            "strength": logs.get(key_names.STRENGTH),
            "gate": logs.get(key_names.GATE),
        }
        return f"entropy {entropy:.3g} ({', '.join(_describe(about))})"

    def _describe_times(self, logs: Logs, state: TrainerState) -> str:
        """Return the seconds per step and the time left, estimated from the pace since this process began to train.

        A run with a budget of tokens ends when its steps or its tokens are used up, whichever comes first.
        """
        parts = [f"{logs['step_time']:.1f} s"] if "step_time" in logs else []
        elapsed = time.monotonic() - self.began
        amounts = [(state.global_step - self.first_step, state.max_steps - state.global_step)]
        if self._budget is not None:
            total = logs.get(key_names.GENERATED_TOKENS, 0.0)
            amounts.append((total - self._first_tokens, self._budget - total))
        remaining = [elapsed / done * max(to_do, 0) for done, to_do in amounts if done > 0]
        if len(remaining) == len(amounts) and min(remaining) > 0:
            parts.append(f"{tqdm.format_interval(min(remaining))} left")
        return ", ".join(parts)


class _Lines(TrainerCallback):
    """Prints a line per log entry, and the dictionary of the callback that it is combined with if that is wanted."""

    def __init__(self, with_dictionary: bool = False) -> None:
        super().__init__()
        self._formatter = LogFormatter()
        self._with_dictionary = with_dictionary

    def on_train_begin(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Print the header."""
        super().on_train_begin(args, state, control, **kwargs)
        if state.is_world_process_zero:
            _print(self._formatter.begin(args, state))

    def on_log(self, args: Any, state: TrainerState, control: TrainerControl, logs: Any = None, **kwargs: Any) -> None:
        """Print the dictionary if it is wanted, and the line."""
        if self._with_dictionary:
            # Transformers' display removes `total_flos` from the dictionary, which other callbacks read.
            super().on_log(args, state, control, logs=dict(logs or {}), **kwargs)
        if logs and state.is_world_process_zero:
            _print(self._formatter.line(logs, state))


class StepLines(_Lines, PrinterCallback):
    """Lines where there is no progress bar. `remove_callback(PrinterCallback)` removes them."""


class StepProgress(_Lines, ProgressCallback):
    """Lines above Transformers' progress bar. `remove_callback(ProgressCallback)` removes both."""


def show_lines(trainer: Trainer, with_dictionary: bool = False) -> None:
    """Print lines in the place of Transformers' own callback, or beside its dictionary.

    Other callbacks stay as they are.
    """
    present_kinds = {type(callback) for callback in trainer.callback_handler.callbacks}
    for kind, lines in ((ProgressCallback, StepProgress), (PrinterCallback, StepLines)):
        if kind in present_kinds:
            trainer.remove_callback(kind)
            trainer.add_callback(lines(with_dictionary))
            return


def _print(text: str) -> None:
    with tqdm.external_write_mode():
        print(text, flush=True)  # noqa: T201


def _find_first(logs: Logs, keys: Sequence[str]) -> Any:
    return next((logs[key] for key in keys if key in logs), None)


def _describe(numbers: Mapping[str, float | None]) -> Sequence[str]:
    """Format the numbers that are known, each after its name."""
    return [f"{name} {number:.3g}" for name, number in numbers.items() if number is not None]


def _describe_weights(logs: Logs) -> str:
    if not logs.keys() >= {key_names.WEIGHT_MIN, key_names.WEIGHT_MAX, key_names.WEIGHT_MEAN, key_names.SHARE_CHANGED}:
        return ""
    ends = f"{logs[key_names.WEIGHT_MIN]:.2f}..{logs[key_names.WEIGHT_MAX]:.2f}"
    return (
        f"weights {ends}, mean {logs[key_names.WEIGHT_MEAN]:.3f}, {100 * logs[key_names.SHARE_CHANGED]:.0f} % changed"
    )


def _describe_data(logs: Logs) -> Sequence[str]:
    """Format the shares of truncated completions and of prompts whose completions have equal rewards."""
    shares = {"truncated": key_names.CLIPPED_RATIO, "same reward": key_names.FRAC_REWARD_ZERO_STD}
    return [f"{name} {100 * logs[key]:.0f} %" for name, key in shares.items() if key in logs]


def _describe_evaluation(logs: Logs) -> Sequence[str]:
    """Format the metrics of benchmarks, the reward, and the share of samples without an answer if it is large."""
    shown = [key for key in logs if "@" in key or key == "eval_reward" or key.startswith("eval_average")]
    shown += [key for key in logs if key.endswith("_unanswered") and logs[key] > MOST_UNANSWERED and key not in shown]
    return _describe({key.removeprefix("eval_"): logs[key] for key in shown})
