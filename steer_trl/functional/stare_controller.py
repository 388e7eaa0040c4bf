"""STARE's closed loop: a gate on the policy entropy, and the schedule that moves W and M with it."""

import math
from functools import partial
from typing import Any

from steer_trl.validation import from_state, is_within


class TargetEntropyController:
    """Open STARE's gate while the policy entropy is below a target, and adapt W and M if asked to.

    Once per rollout, before any update, with the token mean H of the rollout's entropies (arXiv 2606.19236, as in the
    released controller):

        gate = H < target                                                  (strict: equality closes)
        if adaptive:  W <- clip(W + step * sign(target - H), 1, amplify_max)
                      M <- clip(M - step * sign(target - H), attenuate_min, 1)

    The updated values are the ones used for this rollout, as in the code; the paper prints W_{k+1} = clip(W_k + ...),
    one rollout later. A non-finite H changes nothing. The gate starts open.

    Args:
        target_entropy (`float`): nats per token, positive.
        amplify (`float`), attenuate (`float`): W, at least 1, and M, in (0, 1]: at the start and as they are now.
        adaptive (`bool`): whether W and M move.
        step (`float`): how much they move at each update, at least 0.
        amplify_max (`float`), attenuate_min (`float`): upper bound of W; lower bound of M, in (0, `attenuate`].
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
        self.target_entropy, self.gate = target_entropy, True
        self.amplify, self.attenuate = amplify, attenuate
        self.adaptive, self.step = adaptive, step
        self.amplify_max, self.attenuate_min = amplify_max, attenuate_min

    def update(self, entropy: float) -> None:
        """Take the entropy of a new rollout, in nats per token."""
        if not math.isfinite(entropy):
            return
        self.gate = entropy < self.target_entropy
        if self.adaptive:
            direction = (entropy < self.target_entropy) - (entropy > self.target_entropy)
            self.amplify = min(max(self.amplify + self.step * direction, 1.0), self.amplify_max)
            self.attenuate = min(max(self.attenuate - self.step * direction, self.attenuate_min), 1.0)

    def state_dict(self) -> dict[str, Any]:
        """Return what moves during training, as plain numbers for a JSON file; W and M only if they move."""
        names = ("gate", "amplify", "attenuate") if self.adaptive else ("gate",)
        return {name: getattr(self, name) for name in names}

    def load_state_dict(self, state: Any) -> None:
        """Continue from a [`state_dict`], with what moves here; `ValueError` where a value is missing or cannot be."""
        gate = from_state(state, "gate", lambda x: isinstance(x, bool), "true or false")
        if self.adaptive and {"amplify", "attenuate"} & state.keys():  # else W and M did not move, and start anew
            amplify, attenuate = (
                from_state(state, name, partial(is_within, interval=within), f"a number in {within}")
                for name, within in (("amplify", "[1, inf)"), ("attenuate", "(0, 1]"))
            )
            # Bounds that were narrowed since hold at once.
            self.amplify, self.attenuate = min(amplify, self.amplify_max), max(attenuate, self.attenuate_min)
        self.gate = gate
