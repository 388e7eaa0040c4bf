"""The settings of dynamic sampling: train only on groups whose completions are not all equally correct.

Dynamic sampling is DAPO's (arXiv 2503.14476, section 3.2). STARE's released scripts have it on, with 3 times as many
prompts as are trained on, at most 10 attempts, and the surplus dropped.
"""

from dataclasses import dataclass

from steer_trl.options.base import ShapingConfig, choice, option

RESAMPLE = {"dynamic_sampling": "resample"}


@dataclass
class SamplingOptions(ShapingConfig):
    """Dynamic sampling: which of the groups that were written are trained on."""

    dynamic_sampling: str = choice(
        "none",
        ("none", "mask", "resample"),
        "What happens to a group whose completions are all equally correct: 'none' trains on it, as TRL does; 'mask' "
        "takes it out of the loss and of every statistic; 'resample' replaces it by the group of another prompt.",
    )
    dynamic_sampling_reward: str | None = option(
        None,
        "Name of the reward function that decides whether a completion is correct; by default the only one there is.",
        needs={"dynamic_sampling": ("mask", "resample")},
    )
    dynamic_sampling_factor: int = option(
        1, "Prompts of an attempt, as a multiple of the prompts of a rollout.", "[1, inf)", needs=RESAMPLE
    )
    dynamic_sampling_max_attempts: int = option(10, "The most attempts for a rollout.", "[1, inf)", needs=RESAMPLE)
    dynamic_sampling_surplus: str = choice(
        "keep",
        ("keep", "drop"),
        "What happens to informative groups that are left over: 'keep' trains on them in the next rollout, when the "
        "policy is a few updates older; 'drop' leaves them out, as the authors of STARE do.",
        needs=RESAMPLE,
    )
