"""The alarms of a run that learns nothing, from the keys that every GRPO trainer logs: "loss 0, reward flat".

Each cause has one rule. Where one explains another, the other is silent: rewards that are all 0 because every
completion is cut off are the length's fault, not the reward's. Thresholds are ours, as in `rules.py`.
"""

import math
import re
from collections.abc import Mapping
from typing import Any

from steer_trl.diagnostics.keys import names
from steer_trl.diagnostics.rules import Numbers, Rule, only
from steer_trl.validation import is_number

ALIKE = 1e-6
"""A standard deviation of rewards that is none: what rounding leaves of equal numbers is below."""

OF_FUNCTION = re.compile(r"rewards/(.+)/mean")
UNSCORED = "unscored "
"""Before the name of a reward function: 1 while it has returned `None` for every completion."""


def remembered(before: Numbers, line: Mapping[str, Any]) -> dict[str, float]:
    """Return which reward functions have scored nothing so far.

    Args:
        before (`Mapping`): what is known so far.
        line (`Mapping`): a new line of the log.
    """
    memory: dict[str, float] = {}
    for key, value in line.items():
        if function := OF_FUNCTION.fullmatch(key):
            scores = is_number(value) and math.isfinite(value)
            memory[UNSCORED + function[1]] = 0.0 if scores else before.get(UNSCORED + function[1], 1.0)
    return memory


def unscored(log: Numbers) -> list[str]:
    """The reward functions that have returned `None` for every completion so far."""
    return [key.removeprefix(UNSCORED) for key, value in log.items() if key.startswith(UNSCORED) and value == 1]


def all_cut_off(log: Numbers) -> bool:
    """Whether no completion ends by itself."""
    return log.get(names.CLIPPED_RATIO, 0.0) >= 1


def spread(log: Numbers) -> dict[str, float]:
    """The standard deviation of the rewards of a step; NaN where equal rewards have a rule of their own."""
    explained = all_cut_off(log) or unscored(log) or log.get(names.UNANSWERED, 0.0) >= 0.95
    return {"value": math.nan if explained else log[names.REWARD_STD], "reward": log.get(names.REWARD, math.nan)}


def dead_groups_among_others(log: Numbers) -> dict[str, float]:
    """The share of groups without a difference, where the rewards of a step differ: else another rule is meant."""
    return {"value": math.nan if log.get(names.REWARD_STD, 1.0) <= ALIKE else log[names.FRAC_REWARD_ZERO_STD]}


def some_dead_groups(log: Numbers) -> dict[str, float]:
    """The same while a group is left that has a difference."""
    value = dead_groups_among_others(log)["value"]
    return {"value": math.nan if value >= 1 else value}


def some_cut_off(log: Numbers) -> dict[str, float]:
    """The share of completions that are cut off, while one is left that ends."""
    return {"value": math.nan if all_cut_off(log) else log[names.CLIPPED_RATIO]}


def gradient_of_differences(log: Numbers) -> dict[str, float]:
    """The norm of the gradient, where groups with a difference must give one."""
    signal = log[names.REWARD_STD] > ALIKE and log.get(names.FRAC_REWARD_ZERO_STD, 0.0) < 0.9 and not all_cut_off(log)
    return {"value": log[names.GRAD_NORM] if signal else math.nan}


NO_LEARNING = (
    Rule(
        "unscored",
        "A reward function scores nothing",
        *(1.0, 0.0, 10),
        lambda log: {"value": float(len(unscored(log)))},
        "{functions} has returned None for every completion so far, so it teaches nothing. A reward function returns "
        "None where it cannot judge: TRL's accuracy_reward where it cannot parse the reference solution. Print one "
        "row of the data set, and call the function on a completion that you write yourself.",
        names=lambda log: {"functions": " and ".join(map(repr, unscored(log)))},
        compared="functions that have returned `None` only",
    ),
    Rule(
        "unreadable",
        "Answers cannot be parsed",
        *(0.95, 0.8, 10),
        only(names.UNANSWERED),
        "in {value:.0%} of the completions the reward finds no answer that it can parse, so right ones count as wrong."
        " Prompt and reward disagree about the form: ask for \\boxed{{}} in the prompt, or change what the reward "
        "looks for; a base model may need a chat template or an example. Read some (log_completions=True).",
        compared=f"`{names.UNANSWERED}`",
    ),
    Rule(
        "never_ends",
        "No completion ends",
        *(1.0, 0.9, 5),
        only(names.CLIPPED_RATIO),
        "every completion is cut off at max_completion_length before its end. Most rewards count that as incorrect; "
        "with mask_truncated_completions=True the loss is 0. Raise max_completion_length. If they ramble on after the "
        "answer, the model does not use its end token: a base model without its chat template, or a tokenizer whose "
        "eos_token is not the one the model was trained to write.",
        compared=f"`{names.CLIPPED_RATIO}`",
    ),
    Rule(
        "one_reward",
        "All completions have the same reward",
        *(ALIKE, 2 * ALIKE, 15),
        spread,
        "all completions of a step have the same reward ({reward:.4g}). Advantages are differences within a group, so "
        "they are 0, and so are loss and gradient. If it is the highest reward, the task is solved: take harder "
        "problems. If it never differed, the task is too hard, or the reward cannot find the answer: call it on an "
        "answer that you write yourself. If it did, look at the entropy for a collapse. Read some completions "
        "(log_completions=True).",
        compared=f"`{names.REWARD_STD}`",
    ),
    Rule(
        "no_advantage",
        "All advantages are 0",
        *(1.0, 0.9, 10),
        dead_groups_among_others,
        "the rewards of prompts differ, but within every group all completions have the same reward, so all "
        "advantages, the loss and the gradient are 0. Each prompt is always solved or never: take problems of medium "
        "difficulty, or raise num_generations or temperature. If the completions of a prompt are equal word by word, "
        "generation is not sampling.",
        compared=f"`{names.FRAC_REWARD_ZERO_STD}`, where `{names.REWARD_STD}` is above 0",
    ),
    Rule(
        "truncation",
        "Completions are cut off",
        *(0.5, 0.35, 10),
        some_cut_off,
        "{value:.0%} of the completions are cut off at max_completion_length. Most rewards count a cut answer as "
        "incorrect, so the model is taught to be short, or not to end. Raise max_completion_length, look for "
        "repetition in the completions (log_completions=True), or set mask_truncated_completions=True.",
        compared=f"`{names.CLIPPED_RATIO}` below 1",
    ),
    Rule(
        "dead_groups",
        "Nearly all groups teach nothing",
        *(0.9, 0.75, 10),
        some_dead_groups,
        "in {value:.0%} of the groups all completions have the same reward. Their advantages are 0, and no weight "
        "changes that. Take harder or easier problems, raise num_generations, use dynamic sampling "
        "(dynamic_sampling='resample', a setting of SteerGRPOConfig), and check whether the reward distinguishes "
        "answers at all.",
        compared="the value of `no_advantage`, below 1",
    ),
    Rule(
        "no_gradient",
        "There are advantages, and no gradient",
        *(0.0, 1e-12, 10),
        gradient_of_differences,
        "rewards differ within groups, and the norm of the gradient is 0. Nothing that is trained takes part in the "
        "loss: parameters that are frozen (an adapter that is not trainable), completions that are masked out, or "
        "gradients that underflow in half precision.",
        compared=f"`{names.GRAD_NORM}`, where at least a tenth of the groups differ",
    ),
    Rule(
        "no_entropy",
        "The policy is certain at the first step",
        *(1e-3, 2e-3, 0),
        only(names.START_ENTROPY),
        "the entropy is {value:.2g} nats at the first step: the model writes the same completion each time, so "
        "rewards cannot differ. It was fine-tuned for too long, or the temperature is too low. With a patched trainer "
        "the 0 may mean that no entropies are computed: look whether the completions of a prompt differ "
        "(log_completions=True).",
        compared=f"`{names.START_ENTROPY}`, or `{names.ENTROPY}` of the first line, nats",
    ),
)
