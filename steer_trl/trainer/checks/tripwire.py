"""Stops a training run at its first step if what the methods do does not reach the loss.

A newer or patched TRL could read the advantages too early, or compute its log-probabilities without the function that
this package overrides. A subclass could bypass a method of ours, or throw its result away. The run would then be plain
GRPO, and nobody would notice. So the first loss is given inputs that record whether their advantages are read, and the
first step must have used the loss's gradient. Later losses get a plain dictionary.

If a subclass could change the advantages of a rollout before the loss, a copy of them is stored after the methods have
acted. A difference is reported once.
"""

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from typing import Any, NoReturn

import torch
from torch import Tensor
from transformers import TrainerCallback, TrainerControl, TrainerState

from steer_trl.shaping import Reads, Shaper
from steer_trl.shaping.base import HOOKS, ROLLOUT_HOOKS
from steer_trl.support.exceptions import CannotContinueError
from steer_trl.support.system import find_versions
from steer_trl.trainer.contract import INSTALL
from steer_trl.trainer.inputs import Score, loss_mask
from steer_trl.trainer.trl import GRPOTrainer, class_of_override, find_position

logger = logging.getLogger(__name__)

FORWARD = "_get_per_token_logps_and_entropies"
FUNCTION = f"GRPOTrainer.{FORWARD}"
ROLLOUT = "_generate_and_score_completions"
BEFORE_THE_LOSS = ("_prepare_inputs", "training_step", "compute_loss", "_compute_loss")
"""The methods of a trainer that handle a rollout's micro-batches before TRL computes their loss."""
SHAPED = "advantages_of_methods"
"""Key of a rollout's advantages as the methods left them."""

RULES = (
    "A subclass must return super's loss, or one computed from it. A _compute_loss of its own must call "
    f"self.{FORWARD}(..., compute_entropy=True) on the completions, and read inputs['advantages'] after that."
)


class Tripwire(TrainerCallback):
    """Watches the first loss of a `trainer`, and what reaches it.

    `resamples` states whether dynamic sampling replaces groups of a rollout.
    """

    def __init__(self, trainer: GRPOTrainer, shapers: Mapping[str, Shaper], reads: Reads, resamples: bool) -> None:
        hooks = {hook for shaper in shapers.values() for hook in HOOKS if shaper.overrides(hook)}
        self._trainer = trainer
        self._shapers = shapers
        self._reads = reads
        self._needs_rollouts = reads.rollouts or resamples
        self._acts_in_loss = not hooks <= set(ROLLOUT_HOOKS)
        # These are true until the first loss has read the shaped advantages, and until its gradient was computed.
        self._awaits_loss = bool(hooks)
        self._awaits_gradient = self._acts_in_loss
        self._awaits_rollout = False
        self._has_compared = False

    # A rollout.

    def on_train_begin(self, args: Any, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Await a rollout, unless the run was resumed in the middle of one."""
        self._awaits_rollout = find_position(self._trainer).is_first_of_rollout

    def on_rollout(self, rollout: dict[str, Any]) -> None:
        """Store the advantages of a finished `rollout` for comparison, if a subclass could change them."""
        self._awaits_rollout = False
        if self._handlers and not self._has_compared and self._shapers:
            rollout[SHAPED] = rollout["advantages"]

    @property
    def has_handlers(self) -> bool:
        """Whether a subclass handles micro-batches before TRL computes their loss."""
        return self._handlers is not None

    @cached_property
    def _handlers(self) -> str | None:
        """The overridden method that handles micro-batches before the loss; `None` if there is none."""
        return class_of_override(self._trainer, *BEFORE_THE_LOSS)

    def refuse_rollout(self, reason: str) -> NoReturn:
        """Raise because a rollout was made without this package."""
        name = class_of_override(self._trainer, ROLLOUT, "_prepare_inputs", "training_step", "_calculate_rewards")
        raise CannotContinueError(
            f"{name or 'A patch'} bypasses what this trainer does to rollouts: {reason}. Call super's {ROLLOUT} with "
            "the rows that TRL gives, and return a rollout of the same completions."
        )

    # A loss.

    @contextmanager
    def watch(self, inputs: dict[str, Any], is_training: bool) -> Iterator[dict[str, Any]]:
        """Yield a copy of `inputs`. The first copy in training records whether its advantages are read."""
        if is_training:
            self._compare(inputs)
        if not (self._awaits_loss and is_training):
            yield dict(inputs)
            return
        watched = WatchedInputs(inputs)
        watched.is_watching = not self._acts_in_loss
        yield watched
        if not watched.is_watching:
            self._refuse(f"its loss did not call {FUNCTION}")
        if not watched.is_read:
            self._refuse("its loss did not read the advantages after its forward pass")
        self._awaits_loss = False

    def on_shaped(self, inputs: dict[str, Any]) -> None:
        """Record reads of the advantages from now on, because `inputs` now has the shaped advantages."""
        if isinstance(inputs, WatchedInputs):
            inputs.is_watching = True

    def follow(self, loss: Tensor) -> Tensor:
        """Return `loss`. In training, record whether its gradient is computed."""
        if self._awaits_gradient and self._trainer.model.training and loss.requires_grad:
            loss.register_hook(self._on_gradient)
        return loss

    def _on_gradient(self, _gradient: Tensor) -> None:
        self._awaits_gradient = False

    def on_step_end(self, args: Any, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Raise before the first save if training bypassed the methods."""
        if self._needs_rollouts and self._awaits_rollout:
            self.refuse_rollout("its first step did not use SteerGRPOTrainer._prepare_inputs")
        if not self._acts_in_loss:
            return
        if self._awaits_loss:
            self._refuse("in its first step, SteerGRPOTrainer.compute_loss did not call GRPOTrainer._compute_loss")
        if self._awaits_gradient:
            self._refuse("its first step did not use the gradient of the loss that super's compute_loss returned")

    def check_score(self, score: Score, needs_sensitivities: bool = False) -> None:
        """Raise if a forward pass lacks values that methods read."""
        if score.entropies is None:
            self._refuse(f"{FUNCTION} returned no entropies", FORWARD)
        if needs_sensitivities and score.sensitivities is None and self._reads.sensitivities:
            self._refuse(f"{FUNCTION}, which computes the exact entropy change, was not called", FORWARD)

    def refuse_own_loss(self, lacks: str) -> NoReturn:
        """Raise because a method acts by a term of TRL's loss, which a subclass replaces. `lacks` states the term."""
        self._refuse(f"its loss {lacks}")

    def _compare(self, inputs: dict[str, Any]) -> None:
        """Warn once if the advantages of a rollout are no longer those that the methods have left. Collective."""
        is_first = find_position(self._trainer).is_first_of_rollout
        if SHAPED not in inputs or not is_first or self._has_compared:
            return
        count = len(inputs["completion_ids"])
        stored = inputs[SHAPED].view(len(inputs[SHAPED]), -1)
        current = inputs["advantages"].view(len(inputs["advantages"]), -1)
        # A subclass may leave rows out, also of this column or not.
        is_comparable = len(stored) == len(current) == count
        differs = is_comparable and bool(((stored != current) & loss_mask(inputs).bool()).any())
        accelerator = self._trainer.accelerator
        if accelerator.reduce(torch.tensor(float(differs), device=accelerator.device)).item():
            self._has_compared = True
            if accelerator.is_main_process:
                logger.warning(
                    "The loss does not have the advantages that %s left: %s changes them. Change them in %s, which "
                    "the methods act after.",
                    *(", ".join(self._shapers), self._handlers, ROLLOUT),
                )

    def _refuse(self, reason: str, *hooks: str) -> NoReturn:
        name = class_of_override(self._trainer, *(hooks or BEFORE_THE_LOSS), *BEFORE_THE_LOSS, FORWARD)
        if name is not None:
            raise CannotContinueError(
                f"The token weights do not reach the loss of {name}: {reason}. This would have been a run of plain "
                f"GRPO. {RULES}"
            )
        versions = ", ".join(f"{name} {version}" for name, version in find_versions(("trl", "unsloth")).items())
        raise CannotContinueError(
            f"The token weights do not reach TRL's loss: {reason}. This would have been a run of plain GRPO. "
            f"Installed: {versions}. Use a TRL that steer_trl was tested with, {INSTALL}, and nothing that patches "
            "GRPOTrainer (Unsloth does). AlarmsCallback works with a patched trainer, too."
        )


class WatchedInputs(dict[str, Any]):
    """A dictionary of a loss's inputs that records whether `advantages` is read while `is_watching` is true."""

    def __init__(self, inputs: dict[str, Any]) -> None:
        super().__init__(inputs)
        self.is_watching = self.is_read = False

    def __getitem__(self, name: str) -> Any:
        self.is_read = self.is_read or (name == "advantages" and self.is_watching)
        return super().__getitem__(name)

    def get(self, name: str, default: Any = None) -> Any:
        """Return the value of `name`, or `default`, and remember if it is the advantages."""
        return self[name] if name in self.keys() else default

    def __iter__(self) -> Iterator[str]:
        # Without this method, Python copies a dictionary without reading its values one by one.
        return super().__iter__()

    def copy(self) -> dict[str, Any]:
        """Return a copy. All values are read."""
        return {name: self[name] for name in self}
