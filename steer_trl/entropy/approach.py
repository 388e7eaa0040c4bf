"""The setpoint R, which approaches the target from below.

    ln R_k = min(ln H*_k, ln H*_0 + gap exp(-k / 20)),   gap = min(ln H_0 - ln H*_0, 0)

k counts the rollouts since the path began, H_0 is the entropy of its first rollout and H*_0 the target at that time. A
run that begins below its target would otherwise begin at a large strength. Where the present target H*_k has fallen
to the path, the setpoint is the target.
"""

import math

TIME_CONSTANT = 20
"""The number of rollouts in which ln H* - ln R shrinks by the factor 0.37."""


class Approach:
    """The path of the setpoint to the target.

    Attributes:
        rollouts (`int`): the number of rollouts since the path began.
        target (`float`): the target when the path began, nats per token.
        gap (`float`): ln H minus ln H* when the path began, at most 0.
    """

    def __init__(self, target: float) -> None:
        self.rollouts = 0
        self.target = target
        self.gap = 0.0

    def restart(self) -> None:
        """Let the path begin anew at the next rollout."""
        self.rollouts = 0

    def next(self, target: float, entropy_offset: float) -> float:
        """Return ln R - ln H* for a new rollout, at most 0.

        `target` is the present H*, in nats per token and positive. `entropy_offset` is ln H - ln H* of the rollout.
        """
        if not self.rollouts:
            self.gap = min(entropy_offset, 0.0)
            self.target = target
        setpoint_offset = self.gap * math.exp(-self.rollouts / TIME_CONSTANT) + math.log(self.target / target)
        self.rollouts += 1
        return min(setpoint_offset, 0.0)
