"""STARE's controller, which opens a gate while the entropy is low, and can adapt the factors W and M."""

import math
from functools import partial
from typing import Any

from steer_trl.support.validation import is_within, read_from_state


class TargetEntropyController:
    """A controller that opens STARE's gate while the entropy is below a target.

    It can also adapt the amplifying factor W and the attenuating factor M. H is the mean of the rollout's token
    entropies. The controller is updated once per rollout, before any optimizer step, as in the released code
    of arXiv 2606.19236:

        gate = H < target                                                  (strict: equality closes)
        if adaptive:  W <- clip(W + step * sign(target - H), 1, amplify_max)
                      M <- clip(M - step * sign(target - H), attenuate_min, 1)

    The updated values apply to this rollout, as in the released code. The paper prints W_{k+1} = clip(W_k + ...), one
    rollout later. An H that is not finite changes nothing. The trainer leaves tokens whose entropy is not finite out
    of H, where the authors' code skips the update. The gate starts open.

    Args:
        target_entropy (`float`): the target, nats per token, positive.
        amplify (`float`), attenuate (`float`): the initial W, at least 1, and the initial M, in (0, 1]. The
            attributes hold the current values.
        adaptive (`bool`): whether W and M change.
        step (`float`): how much W and M change at each update, at least 0.
        amplify_max (`float`), attenuate_min (`float`): the upper bound of W, and the lower bound of M, in
            (0, `attenuate`].
    """

    def __init__(
        self,
        target_entropy: float,
        amplify: float,
        attenuate: float,
        adaptive: bool = False,
        step: float = 0.01,
        amplify_max: float = 1.5,
        attenuate_min: float = 0.5,
    ) -> None:
        self.target_entropy = target_entropy
        self.gate = True
        self.amplify = amplify
        self.attenuate = attenuate
        self.adaptive = adaptive
        self.step = step
        self.amplify_max = amplify_max
        self.attenuate_min = attenuate_min

    def update(self, entropy: float) -> None:
        """Process the entropy of a new rollout, in nats per token."""
        if not math.isfinite(entropy):
            return
        self.gate = entropy < self.target_entropy
        if self.adaptive:
            direction = (entropy < self.target_entropy) - (entropy > self.target_entropy)
            self.amplify = min(max(self.amplify + self.step * direction, 1.0), self.amplify_max)
            self.attenuate = min(max(self.attenuate - self.step * direction, self.attenuate_min), 1.0)

    def state_dict(self) -> dict[str, Any]:
        """Return the state that changes during training, as plain numbers.

        It includes W and M if they are adaptive.
        """
        names = ("gate", "amplify", "attenuate") if self.adaptive else ("gate",)
        return {name: getattr(self, name) for name in names}

    def load_state_dict(self, state: Any) -> None:
        """Restore the gate from a [`state_dict`], and W and M if they are adaptive.

        Raises `ValueError` if a value is missing or invalid.
        """
        gate = read_from_state(state, "gate", lambda x: isinstance(x, bool), "true or false")
        # A state without W and M comes from a run in which they were constant. They start from their settings.
        if self.adaptive and {"amplify", "attenuate"} & state.keys():
            amplify, attenuate = (
                read_from_state(state, name, partial(is_within, interval=within), f"a number in {within}")
                for name, within in (("amplify", "[1, inf)"), ("attenuate", "(0, 1]"))
            )
            # The bounds may have been narrowed since the state was saved.
            self.amplify = min(amplify, self.amplify_max)
            self.attenuate = max(attenuate, self.attenuate_min)
        self.gate = gate
