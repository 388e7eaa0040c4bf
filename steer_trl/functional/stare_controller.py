"""STARE's closed loop: a gate on the policy entropy, and the schedule that moves W and M with it."""

import math
from functools import partial
from typing import Any

from steer_trl.validation import from_state, in_interval, in_intervals, is_within, refuse

RANGES = {
    "target_entropy": "(0, inf)",
    "amplify": "[1, inf)",
    "attenuate": "(0, 1]",
    "step": "[0, inf)",
    "amplify_max": "[1, inf)",
    "attenuate_min": "(0, 1]",
}


class TargetEntropyController:
    """Open STARE's gate while the policy entropy is below a target, and adapt W and M if asked to.

    Once per rollout, before any update, with the token mean H of the rollout's entropies (arXiv 2606.19236, as in the
    released controller):

        gate = H < target                                                  (strict: equality closes)
        if adaptive:  W <- clip(W + step * sign(target - H), 1, amplify_max)
                      M <- clip(M - step * sign(target - H), attenuate_min, 1)

    The updated values are the ones used for this rollout. The paper prints W_{k+1} = clip(W_k + ...), one rollout
    later; we follow the code. A non-finite H changes nothing. The gate starts open.

    Args:
        target_entropy (`float`): nats per token, positive.
        amplify (`float`): W at the start, at least 1.
        attenuate (`float`): M at the start, in (0, 1].
        adaptive (`bool`): whether W and M move.
        step (`float`): how much they move at each update, at least 0.
        amplify_max (`float`): upper bound of W.
        attenuate_min (`float`): lower bound of M, in (0, `attenuate`].

    Attributes:
        gate (`bool`), amplify (`float`), attenuate (`float`): the values for the current rollout.

    Raises:
        `ValueError`: a setting outside its range.
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
        given = {"target_entropy": target_entropy, "amplify": amplify, "attenuate": attenuate}
        given |= {"step": step, "amplify_max": amplify_max, "attenuate_min": attenuate_min}
        refuse(in_intervals(RANGES, **given), "TargetEntropyController")
        bounds = bound_complaints(amplify, attenuate, amplify_max, attenuate_min)
        refuse(bounds if adaptive else [], "TargetEntropyController")
        self.target_entropy = target_entropy
        self.gate = True
        self.amplify = amplify
        self.attenuate = attenuate
        self.adaptive = adaptive
        self.step = step
        self.amplify_max = amplify_max
        self.attenuate_min = attenuate_min

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
        """Continue from a [`state_dict`]; of another controller, take only what moves in this one.

        Raises:
            `ValueError`: a value is missing or cannot be; nothing is taken then.
        """
        gate = from_state(state, "gate", lambda x: isinstance(x, bool), "true or false")
        if self.adaptive and {"amplify", "attenuate"} & state.keys():  # else W and M did not move, and start anew
            amplify, attenuate = (
                from_state(state, name, partial(is_within, interval=RANGES[name]), f"a number in {RANGES[name]}")
                for name in ("amplify", "attenuate")
            )
            # Bounds that were narrowed since hold at once.
            self.amplify, self.attenuate = min(amplify, self.amplify_max), max(attenuate, self.attenuate_min)
        self.gate = gate


def bound_complaints(
    amplify: float, attenuate: float, amplify_max: float, attenuate_min: float, prefix: str = ""
) -> list[str]:
    """Say which bounds of the adaptive schedule W and M already start beyond; `prefix` goes before each name."""
    return [
        *in_interval(f"{prefix}amplify_max", amplify_max, f"[{amplify}, inf)", "W starts below its upper bound"),
        *in_interval(f"{prefix}attenuate_min", attenuate_min, f"(0, {attenuate}]", "M starts above its lower bound"),
    ]
