"""The reward `MathReward`, which scores final answers.

It scores them in worker processes, so that no completion can stop training.
"""

from steer_trl.rewards.math_reward import MathReward, Verdict

__all__ = ["MathReward", "Verdict"]
