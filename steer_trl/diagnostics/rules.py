"""The alarms, a row each of `alarms.yaml`, and what they compare: of the entropy, and of a run that learns nothing.

Where one explains another, the other is silent: rewards that are all 0 because every completion is cut off are the
length's fault, not the reward's. When one is raised is in `watch.py`.
"""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import yaml

from steer_trl.diagnostics.keys import names
from steer_trl.validation import is_number

Numbers = Mapping[str, float]
"""The last known number of each key of the log; the initial entropy also if that is not logged."""
LOWEST_START = f"lowest {names.START_ENTROPY}"
"""The lowest initial entropy that was logged: an explosion within the first rollouts raises their mean itself."""
ALIKE = 1e-6
"""A standard deviation of rewards that is none: what rounding leaves of equal numbers is below."""
OF_FUNCTION = re.compile(r"rewards/(.+)/mean")
UNSCORED = "unscored "
"""Before the name of a reward function: 1 while it has returned `None` for every completion."""


@dataclass(frozen=True)
class Rule:
    """An alarm, a row of `alarms.yaml`.

    Attributes:
        fires (`float`), clears (`float`), steps (`int`): thresholds of the value, and how long it must have held.
        measure (`callable`): makes of [`Numbers`] those that the text names, the compared one under `"value"`; NaN
            where it is not known. Raises `KeyError` where the log has never had a key that it needs.
        words (`callable`): makes of [`Numbers`] the words that the text has places for.
    """

    name: str
    title: str
    fires: float
    clears: float
    steps: int
    measure: Callable[[Numbers], dict[str, float]]
    text: str
    level: str = "warning"
    compared: str = ""
    words: Callable[[Numbers], dict[str, str]] = lambda log: {}

    def holds(self, value: float) -> bool:
        """Whether the value is one to report."""
        return value >= self.fires if self.fires > self.clears else value <= self.fires

    def recovered(self, value: float) -> bool:
        """Whether the value is one that arms the alarm again."""
        return value <= self.clears if self.fires > self.clears else value >= self.clears


def targets(log: Numbers) -> list[float]:
    """The mean entropies that methods hold; none where no method has a target."""
    return [target for target in (log.get(names.STARE_TARGET), log.get(names.HELD_TARGET)) if target is not None]


def against(level: float, log: Numbers) -> dict[str, float]:
    """The entropy as a multiple of a level, nats."""
    entropy = log[names.ENTROPY]
    return {"value": entropy / level if level > 0 else math.nan, "entropy": entropy, "level": level}


def below_start(log: Numbers) -> dict[str, float]:
    """The entropy as a multiple of the initial one, or of the target where that is lower."""
    return against(min([log[names.START_ENTROPY], *targets(log)]), log)


def above_start(log: Numbers) -> dict[str, float]:
    """The entropy as a multiple of the lowest start, or of the target where that is higher and within reach."""
    start = log[LOWEST_START]
    return against(max([start, *(target for target in targets(log) if target <= 3 * start)]), log)


def change(log: Numbers) -> dict[str, float]:
    """How much the methods change the advantages; unknown while a gate is closed, and with `hold_entropy`."""
    of_loss, of_rollouts = log.get(names.RELATIVE_CHANGE), log.get(names.ROLLOUT_ADVANTAGE_CHANGE)
    known = [value for value in (of_loss, of_rollouts) if value is not None]
    may_rest = log.get(names.GATE, 1.0) < 1 or names.STRENGTH in log
    return {"value": math.nan if may_rest or not known else max(known)}


def idle_remedy(log: Numbers) -> dict[str, str]:
    """What to do about a method that does next to nothing."""
    remedy = "STEER: lower steer_lambda_min. STARE: raise stare_amplify or stare_top_fraction, or lower "
    remedy += "stare_attenuate."
    if log.get("clip_cov/dropped") == 0:
        remedy = "Clip-Cov drops no token: none has a covariance between clip_cov_lower and clip_cov_upper. Lower "
        remedy += "clip_cov_lower."
    return {"remedy": remedy}


def under_target(log: Numbers) -> dict[str, float]:
    """The entropy as a share of STARE's target while its gate is open; 1 while it is closed."""
    found = against(log[names.STARE_TARGET], log)
    return found if log[names.GATE] == 1 else found | {"value": 1.0}


def held_below(log: Numbers) -> dict[str, float]:
    """The last rollout's entropy as a share of what `hold_entropy` compares it with."""
    entropy, target = log[names.ROLLOUT_ENTROPY], log[names.HELD_REFERENCE]
    others = {"strength": log[names.STRENGTH], "rollouts": log[names.OUT_OF_REACH]}
    return {"value": entropy / target, "entropy": entropy, "target": target, **others}


def remedy(log: Numbers) -> dict[str, str]:
    """What to do about a collapse; where the entropy is held already, why it can fall all the same."""
    if names.STRENGTH not in log:
        ours = "Set hold_entropy=0.65 in SteerGRPOConfig, which holds it at 65% of its initial value"
        return {"remedy": f"{ours}; or lower learning_rate, or raise epsilon_high."}
    return {
        "remedy": f"hold_entropy does not hold it, with its strength at {log[names.STRENGTH]:.3g}. At 0 it does not "
        "know its target yet (hold_entropy_unit='nats' gives it at once); above, the method is too weak: look at "
        "frac_reward_zero_std, or lower learning_rate."
    }


def remembered(before: Numbers, line: Mapping[str, Any]) -> dict[str, float]:
    """Return which reward functions have scored nothing so far, given what was known `before` and a new `line`."""
    memory: dict[str, float] = {}
    for key, value in line.items():
        if function := OF_FUNCTION.fullmatch(key):
            scores = is_number(value) and math.isfinite(value)
            memory[UNSCORED + function[1]] = 0.0 if scores else before.get(UNSCORED + function[1], 1.0)
    return memory


def unscored(log: Numbers) -> list[str]:
    """The reward functions that have returned `None` for every completion so far."""
    return [key.removeprefix(UNSCORED) for key, value in log.items() if key.startswith(UNSCORED) and value == 1]


def unscored_functions(log: Numbers) -> dict[str, str]:
    """The names of those functions."""
    return {"functions": " and ".join(map(repr, unscored(log)))}


def count_of_unscored(log: Numbers) -> dict[str, float]:
    """Their number."""
    return {"value": float(len(unscored(log)))}


def all_cut_off(log: Numbers) -> bool:
    """Whether no completion ends by itself."""
    return log.get(names.CLIPPED_RATIO, 0.0) >= 1


def spread(log: Numbers) -> dict[str, float]:
    """The standard deviation of the rewards of a step; NaN where equal rewards have a rule of their own."""
    explained = all_cut_off(log) or unscored(log) or log.get(names.UNANSWERED, 0.0) >= 0.95
    return {"value": math.nan if explained else log[names.REWARD_STD], "reward": log.get(names.REWARD, math.nan)}


def dead_groups(log: Numbers) -> dict[str, float]:
    """The share of groups without a difference, where the rewards of a step differ: else another rule is meant."""
    return {"value": math.nan if log.get(names.REWARD_STD, 1.0) <= ALIKE else log[names.FRAC_REWARD_ZERO_STD]}


def some_dead_groups(log: Numbers) -> dict[str, float]:
    """The same while a group is left that has a difference."""
    value = dead_groups(log)["value"]
    return {"value": math.nan if value >= 1 else value}


def some_cut_off(log: Numbers) -> dict[str, float]:
    """The share of completions that are cut off, while one is left that ends."""
    return {"value": math.nan if all_cut_off(log) else log[names.CLIPPED_RATIO]}


def gradient_of_differences(log: Numbers) -> dict[str, float]:
    """The norm of the gradient, where groups with a difference must give one."""
    signal = log[names.REWARD_STD] > ALIKE and log.get(names.FRAC_REWARD_ZERO_STD, 0.0) < 0.9 and not all_cut_off(log)
    return {"value": log[names.GRAD_NORM] if signal else math.nan}


def only(key: str) -> Callable[[Numbers], dict[str, float]]:
    """The number of one key."""
    return lambda log: {"value": log[key]}


WORDS = {"collapse": remedy, "idle": idle_remedy, "unscored": unscored_functions}


def _rule(name: str, row: dict[str, Any]) -> Rule:
    key, measure = row.pop("key", None), row.pop("measure", None)
    return Rule(name, measure=only(key) if key else globals()[measure], words=WORDS.get(name, lambda log: {}), **row)


_TABLE = yaml.safe_load(files("steer_trl.diagnostics").joinpath("alarms.yaml").read_text("utf-8"))
RULES, NO_LEARNING = (tuple(_rule(*row) for row in rows.items()) for rows in _TABLE.values())
