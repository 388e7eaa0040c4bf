"""The alarms of a run that learns nothing, from the keys that every GRPO trainer logs: "loss 0, reward flat".

Each cause has one rule. Where one explains another, the other is silent: rewards that are all 0 because every
completion is cut off are the length's fault, not the reward's. Thresholds are ours, as in `rules.py`.
"""

import math
import re
from collections.abc import Callable, Mapping
from typing import Any

from steer_trl.diagnostics.keys import names
from steer_trl.diagnostics.rules import Numbers, Rule, only
from steer_trl.validation import is_number

SMALLEST_STEP = "smallest_step"
"""Name of the learning rate below which half of the weights register no step, where a callback has looked at them."""
SMALLEST_STEP_OF_FLOAT32 = 1e-9
ALIKE = 1e-6
"""A standard deviation of rewards that is none: what rounding leaves of equal numbers is below."""

OF_FUNCTION = re.compile(r"rewards/(.+)/(mean|std)")
UNSCORED = "unscored "


def highest(key: str) -> str:
    """The name under which the largest number of a key is remembered."""
    return f"highest {key}"


def remembered(before: Numbers, line: Mapping[str, Any]) -> dict[str, float]:
    """Return what these rules have to remember of a line of the log.

    Args:
        before (`Mapping`): what is known so far.
        line (`Mapping`): the new line.
    """
    memory: dict[str, float] = {}
    for key, value in line.items():
        of_function = OF_FUNCTION.fullmatch(key)
        if is_number(value) and math.isfinite(value):
            if key in (names.REWARD_STD, names.LEARNING_RATE) or (of_function and of_function[2] == "std"):
                memory[highest(key)] = max(float(value), before.get(highest(key), -math.inf))
            if of_function and of_function[2] == "mean":
                memory[UNSCORED + of_function[1]] = 0.0
        elif of_function and of_function[2] == "mean":
            memory[UNSCORED + of_function[1]] = before.get(UNSCORED + of_function[1], 1.0)
    return memory


# What the rules compare.


def unscored(log: Numbers) -> list[str]:
    """The reward functions that have returned `None` for every completion so far."""
    return [key.removeprefix(UNSCORED) for key, value in log.items() if key.startswith(UNSCORED) and value == 1]


def constant(log: Numbers) -> list[str]:
    """The reward functions that have given all completions of each step the same so far, if others have not."""
    if log.get(highest(names.REWARD_STD), 0.0) <= ALIKE:
        return []
    stds = {key.removeprefix("highest "): value for key, value in log.items() if key.startswith("highest rewards/")}
    return [match[1] for key, value in stds.items() if value <= ALIKE and (match := OF_FUNCTION.fullmatch(key))]


def named(functions: Callable[[Numbers], list[str]]) -> Callable[[Numbers], dict[str, str]]:
    """The names of the functions that a rule found, for its text."""
    return lambda log: {"functions": " and ".join(repr(name) for name in functions(log))}


def counted(functions: Callable[[Numbers], list[str]]) -> Callable[[Numbers], dict[str, float]]:
    """How many functions a rule found."""
    return lambda log: {"value": float(len(functions(log)))}


def all_cut_off(log: Numbers) -> bool:
    """Whether no completion ends by itself."""
    return log.get(names.CLIPPED_RATIO, 0.0) >= 1


def explained(log: Numbers) -> bool:
    """Whether equal rewards have a cause that a rule of its own names."""
    return all_cut_off(log) or bool(unscored(log)) or log.get(names.UNANSWERED, 0.0) >= 0.95


def spread_from_the_start(log: Numbers) -> dict[str, float]:
    """The largest standard deviation of the rewards of a step so far."""
    value = math.nan if explained(log) else log[highest(names.REWARD_STD)]
    return {"value": value, "reward": log.get(names.REWARD, math.nan)}


def spread_now(log: Numbers) -> dict[str, float]:
    """The standard deviation of the rewards of a step, where it has been above none before."""
    varied = log[highest(names.REWARD_STD)] > ALIKE
    value = log[names.REWARD_STD] if varied and not explained(log) else math.nan
    return {"value": value, "reward": log.get(names.REWARD, math.nan)}


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


def step_of_weights(log: Numbers) -> dict[str, float]:
    """The largest learning rate so far, over the one below which half of the weights register no step."""
    smallest = log.get(SMALLEST_STEP) or SMALLEST_STEP_OF_FLOAT32
    rate = log[highest(names.LEARNING_RATE)]
    return {"value": rate / smallest, "rate": rate, "smallest": smallest}


NO_LEARNING = (
    Rule(
        "unscored",
        "A reward function scores nothing",
        *(1.0, 0.0, 10),
        counted(unscored),
        "{functions} has returned None for every completion so far, so it teaches nothing. A reward function returns "
        "None where it cannot judge: TRL's accuracy_reward where it cannot parse the reference solution. Print one "
        "row of the data set, and call the function on a completion that you write yourself.",
        names=named(unscored),
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
        "every completion is cut off at max_completion_length before its end, so its answer is missing and counts as "
        "incorrect; with mask_truncated_completions=True the loss is 0. Raise max_completion_length. If they ramble "
        "on after the answer, the model does not use its end token: a base model without its chat template, or an "
        "eos_token of the tokenizer that is not the one the model was trained to write.",
        compared=f"`{names.CLIPPED_RATIO}`",
    ),
    Rule(
        "one_reward",
        "All completions have the same reward",
        *(ALIKE, 2 * ALIKE, 10),
        spread_from_the_start,
        "since the first step all completions of a step have had the same reward (now {reward:.4g}). Advantages are "
        "differences within a group, so they are 0, and so are loss and gradient. If it is the lowest reward: the "
        "task is too hard for this model, or the reward cannot find the answer in the text; call it on an answer that"
        " you write yourself, and read some completions (log_completions=True). If it is the highest: the task is "
        "solved already.",
        compared=f"largest `{names.REWARD_STD}` since the start",
    ),
    Rule(
        "one_reward_now",
        "All completions have the same reward by now",
        *(ALIKE, 2 * ALIKE, 20),
        spread_now,
        "the rewards differed, and now all completions of a step have the same ({reward:.4g}), so nothing is learned "
        "any more. If it is the highest, the task is solved: stop, or take harder problems. If not, the policy has "
        "collapsed: look at the entropy and read some completions; go back to an earlier checkpoint, with a lower "
        "learning_rate.",
        compared=f"`{names.REWARD_STD}`, once it has been above",
    ),
    Rule(
        "constant_reward",
        "A reward function does not distinguish completions",
        *(1.0, 0.0, 20),
        counted(constant),
        "{functions} has given all completions of each step the same since the first one, so it adds a constant and "
        "teaches nothing. If that is its lowest value, call it on a completion that deserves more; if its highest, "
        "leave the function out.",
        names=named(constant),
        compared="functions whose `rewards/<function>/std` has been 0 since the start, while others differ",
    ),
    Rule(
        "no_advantage",
        "All advantages are 0",
        *(1.0, 0.9, 10),
        dead_groups_among_others,
        "the rewards of prompts differ, but within every group all completions have the same reward, so all "
        "advantages, the loss and the gradient are 0. Each prompt is always solved or never: take problems of medium "
        "difficulty, raise num_generations or temperature, or leave such groups out (dynamic sampling). If the "
        "completions of a prompt are equal word by word, generation is not sampling.",
        compared=f"`{names.FRAC_REWARD_ZERO_STD}`, where `{names.REWARD_STD}` is above 0",
    ),
    Rule(
        "truncation",
        "Completions are cut off",
        *(0.5, 0.35, 10),
        some_cut_off,
        "{value:.0%} of the completions are cut off at max_completion_length. A cut answer counts as incorrect, so "
        "the model is taught to be short, or not to end. Raise max_completion_length, look for repetition in the "
        "completions (log_completions=True), or set mask_truncated_completions=True.",
        compared=f"`{names.CLIPPED_RATIO}` below 1",
    ),
    Rule(
        "dead_groups",
        "Nearly all groups teach nothing",
        *(0.9, 0.75, 10),
        some_dead_groups,
        "in {value:.0%} of the groups all completions have the same reward. Their advantages are 0, and no weight "
        "changes that: there is next to nothing to learn from. Take harder or easier problems, raise num_generations, "
        "set dynamic_sampling='resample', and check whether the reward distinguishes answers at all.",
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
        "the entropy is {value:.2g} nats at the first step: the model writes the same completion each time, so rewards"
        " cannot differ. It was fine-tuned for too long, or the temperature is too low. With a patched trainer the 0 "
        "may mean that no entropies are computed: look whether the completions of a prompt differ "
        "(log_completions=True).",
        compared=f"`{names.START_ENTROPY}`, or `{names.ENTROPY}` of the first line, nats",
    ),
    Rule(
        "no_step",
        "The learning rate moves nothing",
        *(1.0, 2.0, 20),
        step_of_weights,
        "the learning rate has been at most {rate:.2g}, and below {smallest:.2g} half of the weights cannot register "
        "a step (with LoRA: all steps of this run together, merged): it is lost in rounding. Raise learning_rate (full"
        " training 1e-6, LoRA 1e-5 and above), look whether the scheduler warms up for longer than the run; if the "
        "weights are in bfloat16, train them in float32 with bf16=True (model_init_kwargs={{'dtype': 'float32'}}).",
        compared=(
            f"largest `{names.LEARNING_RATE}` so far, over the one below which half of the weights register no step "
            "(1e-9 where that is not known)"
        ),
    ),
)
