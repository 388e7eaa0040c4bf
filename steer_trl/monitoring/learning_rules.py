"""The alarms about a run that learns nothing, from cause to consequence. They work with any trainer of GRPO's keys.

If one alarm explains another, only the first is raised (`explained_by`). For example, if every reward is 0 because
every completion is truncated, the alarm is about the truncation and not about the reward.
"""

import math
import re
from collections.abc import Mapping
from typing import Any

from steer_trl.monitoring import key_names
from steer_trl.monitoring.rules import WINDOW, Numbers, Rule, RuleReading, read_key
from steer_trl.support.validation import is_number

ALIKE = 1e-6
"""Rewards count as equal up to this standard deviation. Rounding can make it differ from 0 for equal rewards."""
FUNCTION_KEY = re.compile(r"rewards/(.+)/(mean|std)")
UNSCORED = "unscored "
"""Prefix of the name under which `watch.py` stores a flag for each reward function.

The flag is 1 until the function scores a completion, and 0 afterwards.
"""
INFINITE = "infinite "
"""Prefix of the name under which `watch.py` stores whether a reward function's last statistics were infinite.

The flag is 1 or 0. TRL computes in float32, where the square of a finite reward beyond 1e19 is infinite.
"""

ON_ROLLOUTS = "acts on rollouts: "
"""Prefix of the facts that name the methods that change the advantages of whole rollouts."""
IS_TRUNCATED = "sampling is truncated"
"""The fact that the user has set `top_p`, `top_k` or `min_p`, so that the policies differ on purpose."""


def remember_functions(before: Numbers, line: Mapping[str, Any]) -> dict[str, float]:
    """Return two flags for each reward function in a `line` of the log.

    The flag whose name begins with `UNSCORED` is 1 if the function has not scored any completion so far, and 0
    otherwise. The flag whose name begins with `INFINITE` is 1 if the mean or standard deviation of its rewards is
    infinite. `before` holds the numbers from earlier lines.
    """
    memory: dict[str, float] = {}
    for key, value in line.items():
        function = FUNCTION_KEY.fullmatch(key)
        if function is None:
            continue
        name, statistic = function.groups()
        is_known = is_number(value) and not math.isnan(value)
        if statistic == "mean":
            memory[UNSCORED + name] = 0.0 if is_known else before.get(UNSCORED + name, 1.0)
        is_infinite = float(is_known and math.isinf(value))
        memory[INFINITE + name] = max(memory.get(INFINITE + name, 0.0), is_infinite)
    return memory


def find_flagged(log: Numbers, prefix: str) -> list[str]:
    """Return the reward functions whose flag with this prefix is 1."""
    return [key.removeprefix(prefix) for key, value in log.items() if key.startswith(prefix) and value == 1]


def find_unscored(log: Numbers) -> list[str]:
    """Return the reward functions that have returned `None` for every completion so far."""
    return find_flagged(log, UNSCORED)


def count_infinite(log: Numbers) -> RuleReading:
    """Return the number of reward functions whose rewards have an infinite mean or standard deviation."""
    return {"value": float(len(find_flagged(log, INFINITE)))}


def name_infinite(log: Numbers) -> dict[str, str]:
    """Return the names of the reward functions whose rewards have an infinite mean or standard deviation."""
    return {"functions": " and ".join(map(repr, find_flagged(log, INFINITE)))}


def count_unscored(log: Numbers) -> RuleReading:
    """Return the number of reward functions that have not scored any completion."""
    return {"value": float(len(find_unscored(log)))}


def name_unscored(log: Numbers) -> dict[str, str]:
    """Return the names of the reward functions that have not scored any completion."""
    return {"functions": " and ".join(map(repr, find_unscored(log)))}


def read_reward_spread(log: Numbers) -> RuleReading:
    """Return the standard deviation of a step's rewards, and their mean for the text."""
    return {"value": log[key_names.REWARD_STD], "reward": log.get(key_names.REWARD, math.nan)}


def read_gradient(log: Numbers) -> RuleReading:
    """Return the norm of the gradient. A norm of 0 is NaN if the log does not show whether rewards differ in its step.

    The norm is that of the last step of an entry, and the share of groups without a signal is a mean over its steps.
    """
    norm = log[key_names.GRAD_NORM]
    is_of_one_step = log.get(WINDOW, 1.0) <= 1 or log.get(key_names.FRAC_REWARD_ZERO_STD, 0.0) == 0
    is_known = key_names.REWARD_STD in log and (norm > 0 or is_of_one_step)
    return {"value": norm if is_known else math.nan}


def find_cause(log: Numbers) -> dict[str, str]:
    """Return the probable cause of a gradient of 0: a method that has set all advantages to 0, or the model."""
    methods = [name.removeprefix(ON_ROLLOUTS) for name in log if name.startswith(ON_ROLLOUTS)]
    is_removed = (
        log.get(key_names.ROLLOUT_ADVANTAGE_LEFT, 1.0) == 0 and log.get(key_names.ROLLOUT_ADVANTAGE_CHANGE, 0.0) > 0
    )
    if methods and is_removed:
        cause = f"{' and '.join(map(repr, methods))} has set all advantages to 0 (rollout_advantage_change)"
        why = "A method that goes by correctness does so if every completion counts as correct, or none"
        remedy = "check correct_reward and correct_threshold, or leave it out if no reward decides what is correct"
        return {"cause": f"{cause}. {why}: {remedy}."}
    return {
        "cause": "The parameters may be frozen (an adapter that is not trainable), the completions masked out, or the "
        "gradients too small for half precision."
    }


def read_sampling(log: Numbers) -> RuleReading:
    """Return how far the surprisal of the sampled tokens is from the entropy, in nats; 0 within five errors.

    The value is NaN if the user has truncated sampling, which a note at the start of the run explains.
    """
    gap = log[key_names.SAMPLED_AS_SCORED]
    error = log[key_names.SAMPLED_ERROR]
    value = abs(gap) if abs(gap) > ERRORS * error else 0.0
    return {"value": math.nan if log.get(IS_TRUNCATED, 0.0) == 1 else value, "gap": gap, "error": error}


def describe_sampling(log: Numbers) -> dict[str, str]:
    """Return whether the policy that samples is sharper or flatter than the one that is scored."""
    is_sharper = log.get(key_names.SAMPLED_AS_SCORED, 0.0) < 0
    return {"direction": "below" if is_sharper else "above", "shape": "less" if is_sharper else "more"}


ERRORS = 5
"""The number of standard errors up to which a difference counts as chance."""


def find_remedy_of_groups(log: Numbers) -> dict[str, str]:
    """Return the remedy for groups without a signal. A run with dynamic sampling replaces them already."""
    if key_names.INFORMATIVE in log:
        replaced = "Dynamic sampling replaces them, so most of what is generated is thrown away."
        return {"remedy": f"{replaced} Take harder or easier problems, or raise num_generations."}
    ours = "set dynamic_sampling='resample' (a setting of SteerGRPOConfig)"
    return {"remedy": f"Take harder or easier problems, raise num_generations, or {ours}."}


LEARNING_RULES = (
    Rule(
        name="unscored",
        title="A reward function scores nothing",
        fires=1.0,
        clears=0.0,
        steps=10,
        read=count_unscored,
        find_words=name_unscored,
        compared="functions that have returned `None` only",
        text="{functions} has returned None for every completion so far, so the model learns nothing from it. None "
        "means that a completion cannot be judged. TRL's accuracy_reward returns None if it cannot parse the "
        "reference solution. Print one row of the data set, and call the function on a completion that you write "
        "yourself.",
    ),
    Rule(
        name="infinite_reward",
        title="A reward is infinite or too large",
        fires=1.0,
        clears=0.0,
        steps=0,
        read=count_infinite,
        find_words=name_infinite,
        compared="functions whose rewards have an infinite mean or standard deviation",
        text="{functions} has returned an infinite reward, or one beyond 1e19, whose square is infinite in float32. "
        "So its group has no finite mean or standard deviation. TRL then trains on advantages of 0, and with "
        "scale_rewards='none' on advantages that destroy the model. Give the reward finite bounds, and look for a "
        "division by 0 or a logarithm of 0 in it.",
        level="error",
    ),
    Rule(
        name="never_ends",
        title="No completion ends",
        fires=1.0,
        clears=0.9,
        steps=5,
        read=read_key(key_names.CLIPPED_RATIO),
        compared="`completions/clipped_ratio`",
        text="every completion is cut off at max_completion_length. Most rewards count that as incorrect; with "
        "mask_truncated_completions=True the loss is 0. Raise max_completion_length. If completions ramble on after "
        "the answer, the model does not write its end token. It may be a base model without a chat template, or have "
        "been trained with an end token other than the tokenizer's eos_token.",
    ),
    Rule(
        name="unreadable",
        title="Answers cannot be parsed",
        fires=0.95,
        clears=0.8,
        steps=10,
        read=read_key(key_names.UNANSWERED),
        compared="`math_reward/unanswered`",
        explained_by=("never_ends",),
        text="in {value:.0%} of the completions the reward finds no answer that it can parse, so even a correct "
        "answer counts as incorrect. Ask in the prompt for the form that the reward reads, such as \\boxed{{}}, or "
        "change what it looks for. A base model may need a chat template or an example. Read some completions "
        "(log_completions=True).",
    ),
    Rule(
        name="one_reward",
        title="All completions have the same reward",
        fires=ALIKE,
        clears=2 * ALIKE,
        steps=15,
        read=read_reward_spread,
        compared="`reward_std`",
        explained_by=("unscored", "infinite_reward", "never_ends", "unreadable"),
        text="all completions of a step have the same reward ({reward:.4g}), so advantages, loss and gradient are 0. "
        "If this is the highest reward, the task is solved: take harder problems. If rewards have never differed, the "
        "task is too hard, or the reward cannot find the answer: call it on an answer that you write yourself. "
        "If they differed before, the entropy may have collapsed. Read some completions (log_completions=True).",
    ),
    Rule(
        name="no_advantage",
        title="All advantages are 0",
        fires=1.0,
        clears=0.9,
        steps=10,
        read=read_key(key_names.FRAC_REWARD_ZERO_STD),
        compared="`frac_reward_zero_std`",
        explained_by=("one_reward",),
        text="within every group all completions have the same reward, so all advantages, the loss and the gradient "
        "are 0. Each prompt is solved always or never: take problems of medium difficulty, or raise "
        "num_generations or temperature. If the completions of a prompt are identical, generation does not "
        "sample.",
    ),
    Rule(
        name="truncation",
        title="Completions are cut off",
        fires=0.5,
        clears=0.35,
        steps=10,
        read=read_key(key_names.CLIPPED_RATIO),
        compared="`completions/clipped_ratio`",
        explained_by=("never_ends",),
        text="{value:.0%} of the completions are cut off at max_completion_length, and most rewards count them as "
        "incorrect. Raise max_completion_length, look for repetition in the completions (log_completions=True), or "
        "leave them out of the loss (mask_truncated_completions=True, if that is not set).",
    ),
    Rule(
        name="dead_groups",
        title="Nearly all groups teach nothing",
        fires=0.9,
        clears=0.75,
        steps=10,
        read=read_key(key_names.FRAC_REWARD_ZERO_STD),
        compared="`frac_reward_zero_std`",
        explained_by=("one_reward", "no_advantage"),
        find_words=find_remedy_of_groups,
        text="in {value:.0%} of the groups all completions have the same reward, so nothing is learned from them. "
        "{remedy} Check whether the reward distinguishes answers at all.",
    ),
    Rule(
        name="no_gradient",
        title="There are advantages but no gradient",
        fires=0.0,
        clears=1e-12,
        steps=10,
        read=read_gradient,
        compared="`grad_norm`, if `reward_std` is logged; with `logging_steps` above 1, if every group has a signal",
        explained_by=("never_ends", "one_reward", "no_advantage", "dead_groups"),
        find_words=find_cause,
        text="rewards differ within groups, but the norm of the gradient is 0. {cause}",
    ),
    Rule(
        name="sampled_otherwise",
        title="The policy that samples is not the policy that is scored",
        fires=0.02,
        clears=0.01,
        steps=0,
        read=read_sampling,
        find_words=describe_sampling,
        compared="size of `sampled_as_scored` if it is beyond five `sampled_as_scored/error`, nats; not if `top_p`, "
        "`top_k` or `min_p` is set in the configuration",
        text="the surprisal of the sampled tokens is {value:.3g} nats {direction} the policy's entropy (standard "
        "error {error:.2g}), so completions are {shape} random than the log says, and ratios and gradients are of "
        "another policy. Look at generation_kwargs, at the model's generation_config (Transformers takes every value "
        "from it that TRL leaves unset), at repetition_penalty and dropout, at a chat template or prompt that differs "
        "between sampling and scoring, and at an engine whose weights or precision differ.",
    ),
    Rule(
        name="no_entropy",
        title="The policy is certain at the first step",
        fires=0.001,
        clears=0.002,
        steps=0,
        read=read_key(key_names.START_ENTROPY),
        compared="`rollout_entropy/start`, or `entropy` of the first line, nats",
        text="the entropy is {value:.2g} nats at the first step, so the model writes the same completion each time. "
        "It was fine-tuned for too long, or the temperature is too low. With a patched trainer, a 0 may mean that "
        "entropies are not computed: check whether the completions of a prompt differ (log_completions=True).",
    ),
)
