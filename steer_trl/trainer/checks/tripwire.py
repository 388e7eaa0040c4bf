"""Stops a training run at its first step if the shaped advantages do not reach TRL's loss.

A newer or patched TRL could read the advantages too early, or compute its log-probabilities without the function that
this package overrides. The run would then be plain GRPO, and nobody would notice. So the first loss is given inputs
that record whether their advantages are read. Later losses get a plain dictionary. A subclass or a patch could also
bypass `SteerGRPOTrainer.compute_loss`, so this module checks that the first optimizer step has called it.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NoReturn

from transformers import TrainerCallback, TrainerControl, TrainerState

from steer_trl.exceptions import CannotContinueError
from steer_trl.shaping import Shaper
from steer_trl.shaping.base import HOOKS, ROLLOUT_HOOKS
from steer_trl.system import find_versions
from steer_trl.trainer.contract import INSTALL

FUNCTION = "GRPOTrainer._get_per_token_logps_and_entropies"


class Tripwire(TrainerCallback):
    """Watches the first loss of a trainer."""

    def __init__(self, shapers: Mapping[str, Shaper]) -> None:
        hooks = {hook for shaper in shapers.values() for hook in HOOKS if shaper.overrides(hook)}
        # This is true until the first loss has read the shaped advantages.
        self._awaits_loss = not hooks <= set(ROLLOUT_HOOKS)

    @contextmanager
    def watch(self, inputs: dict[str, Any], is_training: bool) -> Iterator[dict[str, Any]]:
        """Yield a copy of `inputs`. The first copy in training records whether its advantages are read."""
        if not (self._awaits_loss and is_training):
            yield dict(inputs)
            return
        watched = WatchedInputs(inputs)
        yield watched
        watched.check()
        self._awaits_loss = False

    def on_shaped(self, inputs: dict[str, Any]) -> None:
        """Record reads of the advantages from now on, because `inputs` now has the shaped advantages."""
        if isinstance(inputs, WatchedInputs):
            inputs.is_watching = True

    def on_step_end(self, args: Any, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Raise before the first save if training bypassed `compute_loss`."""
        if self._awaits_loss:
            _refuse(
                "its first step did not use SteerGRPOTrainer.compute_loss (a subclass that overrides it must return "
                "super's)"
            )


class WatchedInputs(dict[str, Any]):
    """A dictionary of a loss's inputs that records whether `advantages` is read while `is_watching` is true."""

    def __init__(self, inputs: dict[str, Any]) -> None:
        super().__init__(inputs)
        self.is_watching = self._is_read = False

    def __getitem__(self, name: str) -> Any:
        self._is_read = self._is_read or (name == "advantages" and self.is_watching)
        return super().__getitem__(name)

    def get(self, name: str, default: Any = None) -> Any:
        """Return the value of `name`, or `default`. A read of the advantages is recorded."""
        return self[name] if name in self.keys() else default

    def check(self) -> None:
        """Raise if the loss was computed without reading the shaped advantages."""
        if not self.is_watching:
            _refuse(f"its loss did not call {FUNCTION}")
        if not self._is_read:
            _refuse("its loss did not read the advantages after its forward pass")


def check_score(entropies: Any) -> None:
    """Raise if a forward pass has returned no entropies although methods read them."""
    if entropies is None:
        _refuse(f"{FUNCTION} returned no entropies")


def _refuse(what: str) -> NoReturn:
    versions = ", ".join(f"{name} {version}" for name, version in find_versions(("trl", "unsloth")).items())
    raise CannotContinueError(
        f"The token weights do not reach TRL's loss: {what}. This would have been a run of plain GRPO. Installed: "
        f"{versions}. Use a TRL that steer_trl was tested with, {INSTALL}, and nothing that patches GRPOTrainer "
        "(Unsloth does). AlarmsCallback works with a patched trainer, too."
    )
