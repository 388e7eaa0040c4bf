"""Prints one readable line per log entry, and a progress bar with entropy and reward.

    step 12/2400  reward 0.31  entropy 0.42 (start 0.55, target 0.44, strength +0.12)  weights 0.80..1.00, mean 0.993,
    31 % changed  truncated 4 %  same reward 22 %  14.2 s, 9:12:00 left

Trackers and `trainer_state.json` still receive every number. In a notebook, Transformers' table is shown as usual.
"""

import time
from collections.abc import Mapping, Sequence
from typing import Any

from tqdm import tqdm
from transformers import PrinterCallback, ProgressCallback, Trainer, TrainerControl, TrainerState

from steer_trl.callbacks.run_log import is_at_its_end
from steer_trl.config import SteerGRPOConfig
from steer_trl.diagnostics.keys import names
from steer_trl.diagnostics.start import drop_empty_entropy, find_truncated, start_entropy

Logs = Mapping[str, Any]


def acting(args: SteerGRPOConfig) -> str:
    """Return one line with the methods, the `hold_entropy` target, dynamic sampling and the rollout size."""
    parts = [f"advantage_shaping {', '.join(map(str, args.shaping_names)) or 'none'}"]
    if args.hold_entropy is not None:
        unit = " of the initial one" if args.hold_entropy_unit == "initial" else " nats"
        end = "" if args.hold_entropy_final is None else f", falling to {args.hold_entropy_final:g}"
        parts.append(f"entropy held near {args.hold_entropy:g}{unit}{end}")
    parts.append(f"dynamic sampling {args.dynamic_sampling}")
    steps = -(-args.steps_per_generation // args.gradient_accumulation_steps) * args.num_iterations
    rollout = f"a rollout of {args.groups_per_rollout} prompts x {args.num_generations} completions for {steps} step"
    return "; ".join([*parts, rollout + "s" * (steps != 1)])


class LogFormatter:
    """Formats log entries as terminal lines, which include the run's initial entropy and the time left."""

    def __init__(self) -> None:
        self.start_entropy: float | None = None
        self._truncated: float | None = None
        self.began = time.monotonic()
        self.first_step = 0
        self.token_budget: int | None = None
        self.first_tokens = 0.0

    def begin(self, args: SteerGRPOConfig, state: TrainerState) -> list[str]:
        """Start a run and return its header lines: the methods in use and, if the run is resumed, its step."""
        self.began = time.monotonic()
        self.first_step = state.global_step
        self.token_budget = args.max_generated_tokens
        self.first_tokens = _last_number(state.log_history, names.GENERATED_TOKENS)
        self.start_entropy = start_entropy(state.log_history)
        if state.global_step == 0:
            return [acting(args)]
        if is_at_its_end(state):
            end = f"already at step {state.global_step} of {state.max_steps}: there is nothing left to train"
        else:
            end = f"resuming from checkpoint-{state.global_step} at step {state.global_step} of {state.max_steps}"
        return [acting(args), end]

    def line(self, logs: Logs, state: TrainerState) -> str:
        """Return the line for a log entry of training, of an evaluation, or of the end of the run."""
        if "train_runtime" in logs:
            trained = state.global_step - self.first_step
            return f"trained {trained} step{'s' * (trained != 1)} in {tqdm.format_interval(logs['train_runtime'])}"
        if any(key.startswith("eval_") for key in logs):
            return "  ".join([f"step {state.global_step}/{state.max_steps}  evaluation", *_describe_measured(logs)])
        logs = drop_empty_entropy(logs, self._truncated)
        self._truncated = find_truncated(logs, self._truncated)
        self.start_entropy = start_entropy([logs], self.start_entropy)
        reward = [f"reward {logs[names.REWARD]:.3g}"] if logs.get(names.REWARD) is not None else []
        parts = [f"step {state.global_step}/{state.max_steps}", *reward, self._entropy_part(logs)]
        parts += [_weights(logs), *_losses_of_data(logs), self._times(logs, state)]
        return "  ".join(part for part in parts if part)

    def _entropy_part(self, logs: Logs) -> str:
        entropy = _first(logs, names.ENTROPIES)
        if entropy is None:
            return ""
        about = [f"start {self.start_entropy:.3g}"] if self.start_entropy is not None else []
        target = _first(logs, (names.HELD_TARGET, names.STARE_TARGET))
        about += [f"target {target:.3g}"] if target is not None else []
        strength = logs.get(names.STRENGTH)
        if strength is not None:
            about.append(f"strength {strength:+.2f}" if strength else "strength 0")
        gate = logs.get(names.GATE)
        # The logged gate is a mean over several steps, so it may lie between 0 (closed) and 1 (open).
        if gate is not None:
            about.append({1.0: "gate open", 0.0: "gate closed"}.get(float(gate), f"gate {gate:.2f}"))
        return f"entropy {entropy:.3g} ({', '.join(about)})"

    def _times(self, logs: Logs, state: TrainerState) -> str:
        """Return the seconds per step and the time left.

        Both are estimated from the pace since this process began to train.
        """
        parts = [f"{logs['step_time']:.1f} s"] if logs.get("step_time") is not None else []
        done = self._share_done(logs, state)
        if 0 < done < 1:
            elapsed = time.monotonic() - self.began
            parts.append(f"{tqdm.format_interval(elapsed / done * (1 - done))} left")
        return ", ".join(parts)

    def _share_done(self, logs: Logs, state: TrainerState) -> float:
        """Return the share of the run that is done, from 0 to 1, counted from its start or last resume.

        This is the share of the optimizer steps or the share of the token budget, whichever is larger.
        """
        of_steps = _share(state.global_step, self.first_step, state.max_steps)
        tokens = logs.get(names.GENERATED_TOKENS)
        if self.token_budget is None or tokens is None:
            return of_steps
        return max(of_steps, _share(tokens, self.first_tokens, self.token_budget))


class StepLines(PrinterCallback):
    """Prints a line per log entry, without a progress bar."""

    def __init__(self) -> None:
        self.formatter = LogFormatter()

    def on_train_begin(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Print the header lines."""
        if state.is_world_process_zero:
            print(*self.formatter.begin(args, state), sep="\n", flush=True)  # noqa: T201

    def on_log(self, args: Any, state: TrainerState, control: TrainerControl, logs: Any = None, **kwargs: Any) -> None:
        """Print the line of a log entry."""
        if logs and state.is_world_process_zero:
            print(self.formatter.line(logs, state), flush=True)  # noqa: T201


class StepProgress(ProgressCallback):
    """Writes a line per log entry above the progress bar, which shows the last entropy and reward."""

    def __init__(self) -> None:
        super().__init__()
        self.formatter = LogFormatter()

    def on_train_begin(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Draw the progress bar, and write the header lines."""
        super().on_train_begin(args, state, control, **kwargs)
        if self.training_bar is not None:
            self.training_bar.write("\n".join(self.formatter.begin(args, state)))

    def on_log(self, args: Any, state: TrainerState, control: TrainerControl, logs: Any = None, **kwargs: Any) -> None:
        """Write the line of a log entry, and show its entropy and reward beside the progress bar."""
        if not logs or not state.is_world_process_zero or self.training_bar is None:
            return
        self.training_bar.write(self.formatter.line(logs, state))
        shown = {"entropy": _first(logs, names.ENTROPIES), "reward": logs.get(names.REWARD)}
        if shown := {name: f"{value:.3g}" for name, value in shown.items() if value is not None}:
            self.training_bar.set_postfix(shown)


def show_lines(trainer: Trainer) -> None:
    """Replace Transformers' terminal callbacks with `StepLines` and `StepProgress`.

    Other callbacks stay as they are.
    """
    kinds = [type(callback) for callback in trainer.callback_handler.callbacks]
    for theirs, ours in ((PrinterCallback, StepLines), (ProgressCallback, StepProgress)):
        if theirs in kinds:
            trainer.remove_callback(theirs)
            trainer.add_callback(ours)


def _share(now: float, first: float, last: float) -> float:
    return (now - first) / (last - first) if last > first else 0.0


def _last_number(history: Sequence[Logs], key: str) -> float:
    """Return the last value of `key` in a log; 0 if no entry has the key."""
    return next((entry[key] for entry in reversed(history) if entry.get(key) is not None), 0.0)


def _first(logs: Logs, keys: Sequence[str]) -> Any:
    return next((logs[key] for key in keys if logs.get(key) is not None), None)


def _weights(logs: Logs) -> str:
    low, high, mean = map(logs.get, (names.WEIGHT_MIN, names.WEIGHT_MAX, names.WEIGHT_MEAN))
    if low is None or high is None or mean is None:
        return ""
    changed = logs.get(names.SHARE_CHANGED)
    share = "" if changed is None else f", {100 * changed:.0f} % changed"
    return f"weights {low:.2f}..{high:.2f}, mean {mean:.3f}{share}"


def _losses_of_data(logs: Logs) -> Sequence[str]:
    """Format the shares of truncated completions and of prompts whose completions have equal rewards."""
    found = {"truncated": names.CLIPPED_RATIO, "same reward": names.FRAC_REWARD_ZERO_STD}
    return [f"{name} {100 * logs[key]:.0f} %" for name, key in found.items() if logs.get(key) is not None]


def _describe_measured(logs: Logs) -> Sequence[str]:
    """Format benchmark metrics, the evaluation's reward, and shares of unanswered problems above one half."""
    wanted = [key for key in logs if "@" in key or key == "eval_reward" or key.startswith("eval_average")]
    wanted += [key for key in logs if key.endswith("_unanswered") and key not in wanted and logs[key] > 0.5]
    return [f"{key.removeprefix('eval_')} {logs[key]:.3g}" for key in wanted if isinstance(logs[key], (int, float))]
