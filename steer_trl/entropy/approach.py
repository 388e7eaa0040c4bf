"""The setpoint R, which approaches the target from below.

    ln R_k = ln H* + (ln H_0 - ln H*) exp(-k / 20)      if the first entropy H_0 is below the target
    R_k = H*                                            otherwise

So training does not begin at full strength if the entropy is already below the target. The path rises towards the
target of its first rollout. It ends where it meets the present target, which may have fallen since.
"""

import math

TIME_CONSTANT = 20
"""The number of rollouts in which the distance of the setpoint from the target falls to a third (1 / e)."""


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

    def next(self, target: float, log_distance: float) -> float:
        """Return ln R - ln H* for a new rollout, at most 0.

        `target` is the present H*, in nats per token and positive. `log_distance` is ln H - ln H* of the rollout.
        """
        if not self.rollouts:
            self.gap = min(log_distance, 0.0)
            self.target = target
        below_target = self.gap * math.exp(-self.rollouts / TIME_CONSTANT) + math.log(self.target / target)
        self.rollouts += 1
        return min(below_target, 0.0)
