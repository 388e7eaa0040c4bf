"""The rules of a dry run: those of the alarms (`monitoring/watch.py`), and some about numbers that no log entry has.

An alarm waits until its rule has held for several steps. Here, one rollout decides: the mark is *bad* beyond the
threshold at which the alarm fires, and *look* between that and the one at which it clears.
"""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from steer_trl.monitoring import key_names
from steer_trl.monitoring.learning_rules import find_flagged
from steer_trl.monitoring.rules import Numbers, Rule, RuleReading, find_holding, read_key
from steer_trl.monitoring.watch import RULES
from steer_trl.trainer.dry_run.number_names import (
    CHANGE,
    DECIDES,
    EMPTY,
    GROUP_SIZE,
    HOLD_ROLLOUTS,
    LEARNING,
    LENGTH,
    MAY_DECIDE,
    MEMORY,
    OWN_TEMPERATURE,
    PAID,
    PRECISION,
    STEP_SIZE,
    TEMPLATE,
    UNFINISHED,
    UNPAID_JUDGE,
    WITHOUT_ANY_JUDGE,
    WITHOUT_JUDGE,
)

OK = "ok"
LOOK = "look"
BAD = "bad"

CAUSES = ("unscored", "infinite_reward", "never_ends", "truncation", "empty", "unfinished", "unreadable", "one_reward")
"""The rules that explain why a reward for correctness pays nothing."""
MOST = 0.5
"""A share above this is most of the completions."""

OF_WHOLE_RUNS = {"collapse", "explosion", "weak_gate", "saturated", "below_target"}
"""The alarms about a development that one rollout does not show."""


def read_template(log: Numbers) -> RuleReading:
    """Return how much the chat template surprises the model; NaN if the model answers in this format.

    The surprise alone shows nothing: a model that was trained on completions only never learnt these tokens.
    """
    without_answer = log.get(key_names.CLIPPED_RATIO, 0.0) + log.get(EMPTY, 0.0)
    answers = without_answer <= MOST and log.get(PAID, 1.0) > 0
    return {"value": math.nan if answers else log[TEMPLATE]}


def count_unpaid_judges(log: Numbers) -> RuleReading:
    """Return the number of reward functions for correctness that have paid nothing."""
    return {"value": float(len(find_flagged(log, UNPAID_JUDGE)))}


def name_unpaid_judges(log: Numbers) -> dict[str, str]:
    """Return the names of the reward functions for correctness that have paid nothing."""
    return {"functions": " and ".join(map(repr, find_flagged(log, UNPAID_JUDGE)))}


def find_remedy_without_judge(log: Numbers) -> dict[str, str]:
    """Return the names of the reward functions for correctness, and the setting that makes the run go by them."""
    decides = find_flagged(log, DECIDES)
    judges = decides or find_flagged(log, MAY_DECIDE)
    setting = f"correct_reward={judges[0]!r}" if judges else "correct_reward"
    remedy = f"Set dynamic_sampling='resample' and {setting} (of SteerGRPOConfig), which replaces these groups"
    if decides:
        remedy = "Set dynamic_sampling='resample', which replaces these groups"
    elif key_names.ATTEMPTS in log:
        remedy = f"Set {setting}, by which dynamic_sampling then chooses"
    return {"judges": " and ".join(map(repr, judges)), "remedy": remedy}


def read_step(log: Numbers) -> RuleReading:
    """Return how much a step can change a matrix, and its size compared with a weight for the text."""
    return {"value": log[CHANGE], "size": log[STEP_SIZE]}


def read_rounded_step(log: Numbers) -> RuleReading:
    """Return the size of a step in halves of the weights' spacing, and compared with a weight for the text."""
    return {"value": log[PRECISION], "size": log[STEP_SIZE]}


def read_own_temperature(log: Numbers) -> RuleReading:
    """Return 1 if `generation_kwargs` has a temperature of its own, and this temperature for the text."""
    return {"value": 1.0, "own": log[OWN_TEMPERATURE]}


DRY_RULES = (
    Rule(
        name="empty",
        title="Completions are empty",
        fires=0.2,
        clears=0.02,
        steps=0,
        read=read_key(EMPTY),
        compared=f"`{EMPTY}`",
        text="{value:.0%} of the completions have no text: the model ends them at once. Look at the end of a prompt: "
        "it may already have the end token or an empty answer. Check eos_token, and the chat template.",
    ),
    Rule(
        name="unfinished",
        title="Thoughts are not finished",
        fires=0.3,
        clears=0.1,
        steps=0,
        read=read_key(UNFINISHED),
        compared=f"`{UNFINISHED}`",
        text="{value:.0%} of the completions end inside a thought, so they have no answer. Raise "
        "max_completion_length, or switch thinking off (chat_template_kwargs).",
    ),
    Rule(
        name="unpaid_judge",
        title="The reward for correct answers pays nothing",
        fires=1.0,
        clears=0.0,
        steps=0,
        read=count_unpaid_judges,
        find_words=name_unpaid_judges,
        compared="reward functions for correctness that pay nothing to any completion",
        explained_by=CAUSES,
        text="{functions} pays nothing to any completion, so only the other functions teach something. The problems "
        "are too hard, or the prompt does not ask for the format, or the function cannot find the answer: call it on "
        "an answer that you write yourself.",
    ),
    Rule(
        name="without_judge",
        title="The reward pays something else than correct answers",
        fires=0.5,
        clears=0.25,
        steps=0,
        read=read_key(WITHOUT_JUDGE),
        compared=f"`{WITHOUT_JUDGE}`",
        explained_by=(*CAUSES, "unpaid_judge"),
        find_words=find_remedy_without_judge,
        text="in {value:.0%} of the groups with a signal, {judges} is the same for all completions, so only the other "
        "functions teach something there, such as format or length. {remedy}, take problems that are solved "
        "sometimes, or lower the other functions in reward_weights.",
    ),
    Rule(
        name="without_any_judge",
        title="No reward function is known to decide what is correct",
        # One rollout of a reward that has no right answer may well be sound, so the row is never bad.
        fires=math.inf,
        clears=0.0,
        steps=0,
        read=read_key(WITHOUT_ANY_JUDGE),
        compared=f"`{WITHOUT_ANY_JUDGE}`",
        text="no reward function is known to decide what is correct. If one does, set correct_reward to its name (a "
        "setting of SteerGRPOConfig). If they all pay for format or length, add one.",
    ),
    Rule(
        name="own_temperature",
        title="generation_kwargs has a temperature of its own",
        fires=1.0,
        clears=0.0,
        steps=0,
        read=read_own_temperature,
        compared="whether `generation_kwargs` has a temperature that differs from `temperature`",
        text="the setting generation_kwargs has temperature={own:g}, which differs from temperature, by which tokens "
        "are scored. So the policy that samples is not the one that is trained. Remove it from generation_kwargs, and "
        "set temperature.",
    ),
    Rule(
        name="too_long",
        title="Sequences are longer than the model's positions",
        fires=1.0 + 1e-9,
        clears=1.0,
        steps=0,
        read=read_key(LENGTH),
        compared=f"`{LENGTH}`",
        text="the longest prompt and max_completion_length together are {value:.2f} times max_position_embeddings. "
        "Lower max_completion_length, or leave out long prompts.",
    ),
    Rule(
        name="template",
        title="The model does not answer in this chat template",
        fires=1.2,
        clears=1.2 - 1e-9,
        steps=0,
        read=read_template,
        compared=f"`{TEMPLATE}`, if most completions are cut off or empty, or no reward function pays anything",
        text="the tokens with which the template opens an answer surprise the model {value:.1f} times as much as a "
        "uniform choice would, and it does not answer in this format. Compare the chat template with the one that the "
        "model was trained with; for a base model use prompts as plain text.",
    ),
    Rule(
        name="hold_too_short",
        title="The run is too short for hold_entropy",
        fires=1.0 - 1e-9,
        clears=1.0,
        steps=0,
        read=read_key(HOLD_ROLLOUTS),
        compared=f"`{HOLD_ROLLOUTS}`",
        text="before its level falls, the run has {value:.0%} of the rollouts that the initial entropy is measured "
        "in, so the level is never held. Train for longer, or set the level in nats (hold_entropy_unit='nats').",
    ),
    Rule(
        name="no_learning",
        title="The learning rate stays low",
        fires=0.5,
        clears=0.99,
        steps=0,
        read=read_key(LEARNING),
        compared=f"`{LEARNING}`",
        text="the highest rate of the run is {value:.0%} of learning_rate. Set learning_rate above 0, and fewer "
        "warmup_steps than the run has steps.",
    ),
    Rule(
        name="too_large_steps",
        title="The learning rate is far too high",
        fires=1.0,
        clears=1.0 - 1e-9,
        steps=0,
        read=read_step,
        compared=f"`{CHANGE}`",
        text="a step moves a weight by {size:.2g} of its size, which destroys the model. Set learning_rate to about "
        "1e-6 (full training) or 1e-5 (LoRA).",
    ),
    Rule(
        name="rounded_steps",
        title="The precision of the weights rounds the updates away",
        fires=1.0 - 1e-9,
        clears=1.0,
        steps=0,
        read=read_rounded_step,
        compared=f"`{PRECISION}`",
        text="a step moves a weight by {size:.2g} of its size, which is less than half the distance to the next "
        "number in 16 bits, so most updates are rounded away. Keep float32 weights "
        "(model_init_kwargs={{'dtype': 'float32'}}) and use bf16=True.",
    ),
    Rule(
        name="memory",
        title="The memory is nearly full",
        fires=0.97,
        clears=0.9,
        steps=0,
        read=read_key(MEMORY),
        compared=f"`{MEMORY}`",
        text="the step took {value:.0%} of the device's memory, and later completions may be longer. Lower "
        "per_device_train_batch_size or max_completion_length, and check that gradient_checkpointing is on.",
    ),
)

ROWS: dict[str, tuple[str, ...]] = {
    "reward": ("unscored", "infinite_reward", "one_reward", "unpaid_judge", "without_judge", "without_any_judge"),
    "groups": ("no_advantage", "dead_groups"),
    "methods": ("idle", "no_gradient"),
    "entropy": ("no_entropy", "hold_too_short"),
    "sampler": ("own_temperature", "sampled_otherwise"),
    "endings": ("never_ends", "truncation", "empty", "unfinished", "unreadable"),
    "lengths": ("too_long",),
    "template": ("template",),
    "values": ("out_of_bounds", "not_finite"),
    "update": ("too_large_steps", "rounded_steps"),
    "run": ("no_learning",),
    "memory": ("memory",),
}
"""The rules that give each row of the table its mark."""

FOLLOWS = {"groups": {"one_reward"}, "methods": {"one_reward", "no_advantage"}}
"""Rules of earlier rows that explain what a row shows. The row is then bad without a remedy of its own."""
EXPLAINS = {"groups": {"unpaid_judge"}}
"""Rules of earlier rows that explain why a row is bad, if it is. It then has no remedy of its own."""
FEW = 2
"""The number of completions of a prompt with which few tokens differ in what a method makes of them."""

OF_FIRST_ROLLOUT = {
    "one_reward": "all completions have the same reward ({reward:.4g}), so there is nothing to learn from. If it is "
    "the highest one, take harder problems. If not, the problems are too hard, or the prompt does not ask for the "
    "format, or the reward cannot find the answer: call it on an answer that you write yourself.",
}
"""Texts in place of those of alarms that look back at earlier steps."""

OF_SMALL_GROUPS = {
    "idle": "the methods change the advantages by {value:.2%} on average, so the run is almost plain GRPO. "
    "num_generations=2 compares only two completions of a prompt. Raise it first, for instance to 8, and then look at "
    "the settings of the method.",
}
"""Texts in place of those that blame a setting of a method, for groups of two."""

WITH_RESAMPLING = {
    "dead_groups": "in {value:.0%} of the groups all completions have the same reward, so most of what is generated "
    "is thrown away. Take harder or easier problems, or raise num_generations. Check whether the reward distinguishes "
    "answers at all.",
}
"""Texts in place of those that advise dynamic sampling, for a run that has it."""

BY_NAME: Mapping[str, Rule] = {rule.name: rule for rule in (*RULES, *DRY_RULES)}


@dataclass(frozen=True)
class Finding:
    """The `mark` that a rule gives, the rule's name, and its text, which is empty if the mark is ok."""

    mark: str
    rule: str = ""
    text: str = ""


def check_row(row: str, numbers: Numbers, unjudged: Collection[str] = ()) -> list[Finding]:
    """Return the findings of the rules of a `row` that are not *ok*, the bad ones first.

    Rules whose names are `unjudged` are left out, and so are those that another rule explains.
    """
    holding = find_holding(BY_NAME.values(), numbers)
    rules = [BY_NAME[name] for name in ROWS.get(row, ()) if name not in unjudged]
    findings = [check_rule(rule, numbers) for rule in rules if not rule.is_explained(holding)]
    return [finding for mark in (BAD, LOOK) for finding in findings if finding.mark == mark]


def check_rule(rule: Rule, numbers: Numbers) -> Finding:
    """Return the finding of a `rule`. A number that is unknown is not judged."""
    reading = rule.try_to_read(numbers)
    if reading is None:
        return Finding(OK)
    value = reading["value"]
    if math.isnan(value) or rule.has_recovered(value):
        return Finding(OK)
    texts = (
        OF_FIRST_ROLLOUT
        | (OF_SMALL_GROUPS if numbers.get(GROUP_SIZE) == FEW else {})
        | (WITH_RESAMPLING if key_names.ATTEMPTS in numbers else {})
    )
    text = texts.get(rule.name, rule.text).format(**reading, **rule.find_words(numbers))
    return Finding(BAD if rule.holds(value) else LOOK, rule.name, text[0].upper() + text[1:])
