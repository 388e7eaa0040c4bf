"""Correctness: one reward function and one threshold decide, for methods, dynamic sampling and the log.

    correct_i = (reward of completion i by the function correct_reward) > correct_threshold

Dynamic sampling needs no threshold. It replaces a group whose rewards by this function are all equal.

Without `correct_reward`, the only reward function decides. If there are several, a method that needs to know which
completions are correct is refused. Dynamic sampling then compares TRL's weighted sum of rewards, because a group whose
sums are equal has advantages of 0.
"""

import logging
import re
from collections.abc import Iterable, Mapping, Sequence

import torch
from torch import Tensor

from steer_trl.config import SteerGRPOConfig
from steer_trl.shaping import Shaper
from steer_trl.shaping.methods import find_shaper
from steer_trl.support.validation import check_correct_reward
from steer_trl.trainer.trl import GRPOTrainer

logger = logging.getLogger(__name__)

JUDGES = re.compile(r"(?i)accura|correct|(^|_)right")
"""Matches the names of reward functions that probably decide whether a completion is correct."""

SAME = 1e-6
"""Rewards count as equal if they differ by at most this."""


def total_reward(trainer: GRPOTrainer, rewards_per_function: Tensor) -> Tensor:
    """Return TRL's weighted sum of rewards for each of N completions.

    The sum is NaN if no function could score a completion.
    """
    weights = trainer.reward_weights.to(rewards_per_function.device)
    total = (rewards_per_function * weights).nansum(dim=1)
    return torch.where(rewards_per_function.isnan().all(dim=1), torch.nan, total)


def deciding_function(trainer: GRPOTrainer) -> str | None:
    """Return the name of the reward function that decides which completions are correct; `None` if none does."""
    # TRL's own trainer has no such setting.
    correct_reward: str | None = getattr(trainer.args, "correct_reward", None)
    names = trainer.reward_func_names
    return names[0] if correct_reward is None and len(names) == 1 else correct_reward


def is_decided(trainer: GRPOTrainer) -> bool:
    """Return whether one reward function decides which completions are correct."""
    return deciding_function(trainer) is not None


def deciding_reward(trainer: GRPOTrainer, rewards_per_function: Tensor) -> Tensor:
    """Return the rewards `[N]` that decide whether a completion is correct, from rewards `[N, functions]`.

    They are NaN for a completion without such a reward. If no function decides, they are the weighted sums.
    """
    name = deciding_function(trainer)
    if name is None:
        return total_reward(trainer, rewards_per_function)
    return rewards_per_function[:, trainer.reward_func_names.index(name)]


def find_judges(names: Iterable[str]) -> list[str]:
    """Return the `names` of reward functions that probably decide whether a completion is correct."""
    return [name for name in names if JUDGES.search(name)]


def correctness_complaints(names: Sequence[str], args: SteerGRPOConfig) -> list[str]:
    """Return a complaint if it is unclear which of the reward functions called `names` decides for a method."""
    reward = args.correct_reward
    if reward is not None:
        return check_correct_reward(reward, names)
    methods = [name for name in args.shaping_names if "correctness" in find_shaper(name).reads]
    if len(names) == 1 or not methods:
        return []
    judges = find_judges(names)
    advice = f"For instance, set correct_reward={judges[0]!r}." if judges else "Set correct_reward to its name."
    names_of_methods = " and ".join(map(repr, methods))
    if args.hold_entropy is not None:
        advice += f" If none of them decides it, leave {names_of_methods} out: hold_entropy works without it."
    return [
        f"correct_reward must name the reward function that decides whether a completion is correct, because "
        f"{names_of_methods} depends on it and there are several: {list(names)}. By their sum, an "
        f"incorrect answer in the right format would count as correct. {advice}"
    ]


class CorrectnessRemarks:
    """Warnings, once a run, about what counts as correct for the methods in `shapers`."""

    def __init__(self, trainer: GRPOTrainer, shapers: Mapping[str, Shaper]) -> None:
        self._trainer = trainer
        self._readers = {name: shaper for name, shaper in shapers.items() if "correctness" in shaper.reads}
        # On each side of the threshold, the smallest and the largest reward so far.
        self._ends: dict[bool, tuple[float, float]] = {}
        self._is_done = not self._readers

    def remark_ignored(self) -> None:
        """Warn about reward functions that a method leaves out, because it replaces the advantages."""
        deciding = self._trainer.args.correct_reward
        ignored = [name for name in self._trainer.reward_func_names if name != deciding]
        for name, shaper in self._readers.items():
            if deciding is not None and ignored and "rewards" not in shaper.reads:
                logger.warning(
                    "%s makes the advantages from the correctness by %r alone, so nothing is learned from %s.",
                    *(name, deciding, " and ".join(map(repr, ignored))),
                )

    def read(self, rewards_per_function: Tensor) -> None:
        """Warn if different rewards of a rollout's completions count as equally correct.

        `rewards_per_function` `[N, functions]` are those of all ranks.
        """
        if self._is_done:
            return
        rewards = deciding_reward(self._trainer, rewards_per_function)
        threshold = self._trainer.args.correct_threshold
        scored = [reward for reward in rewards.tolist() if reward == reward]
        for reward in scored:
            low, high = self._ends.get(reward > threshold, (reward, reward))
            self._ends[reward > threshold] = (min(low, reward), max(high, reward))
        if all(high - low <= SAME for low, high in self._ends.values()):
            return
        self._is_done = True
        if not self._trainer.accelerator.is_main_process:
            return
        share = sum(reward > threshold for reward in scored) / max(len(scored), 1)
        logger.warning(
            "%s: the rewards have more than two values (from %g to %g). Those above correct_threshold=%g count as "
            "correct: %.0f %% of this rollout's completions. Set correct_threshold so that only correct answers are "
            "above it. If no reward decides what is correct, leave %s out.",
            *(", ".join(self._readers), min(low for low, _ in self._ends.values())),
            *(max(high for _, high in self._ends.values()), threshold, 100 * share),
            ", ".join(self._readers),
        )
