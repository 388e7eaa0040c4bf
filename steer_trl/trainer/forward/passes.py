"""Reads the forward passes of a trainer: those that TRL makes in its loss and over a rollout, and those made for us.

A pass is read where TRL calls it (`trl.intercept`), so its log-probabilities and entropies are those that TRL gets,
with everything that a subclass makes of them. Padding is removed, and sensitivities are computed, below all
subclasses, around TRL's own pass (`trl.intercept_trl`). `Passes` returns those sensitivities to the caller.
"""

from collections.abc import Callable
from typing import Any

from torch import Tensor

from steer_trl.trainer.inputs import Score
from steer_trl.trainer.trl import FORWARD_ARGUMENTS


class Passes:
    """The forward pass that is being read.

    Attributes:
        wants_sensitivities (`bool`): whether the pass that runs now must compute exact entropy sensitivities.
        sensitivities (`torch.Tensor`, *optional*): the sensitivities `[B, T]` of the last pass.
    """

    def __init__(self) -> None:
        self.wants_sensitivities = False
        self.sensitivities: Tensor | None = None

    def read(
        self, forward_pass: Callable[..., Any], wants_sensitivities: bool, *args: Any, **kwargs: Any
    ) -> tuple[Any, Score]:
        """Run `forward_pass`. Return its outputs, and the [`Score`] of the tokens.

        `args` and `kwargs` are those of TRL's forward pass, the model first.
        """
        self.wants_sensitivities = wants_sensitivities
        self.sensitivities = None
        try:
            outputs = forward_pass(*args, **kwargs)
            return outputs, Score(outputs[0], outputs[1], self.sensitivities)
        finally:
            self.wants_sensitivities = False
            self.sensitivities = None


def name_arguments(args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a forward pass of TRL, the model first, by their names."""
    return dict(zip(("model", *FORWARD_ARGUMENTS), args, strict=False)) | kwargs


def ask_entropies(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments of a forward pass of TRL, the model first, changed so that it returns entropies.

    TRL's head for the policy always computes entropies, so requesting them adds no work.
    """
    place = 1 + FORWARD_ARGUMENTS.index("compute_entropy")
    if len(args) > place:
        return (*args[:place], True, *args[place + 1 :]), kwargs
    return args, kwargs | {"compute_entropy": True}
