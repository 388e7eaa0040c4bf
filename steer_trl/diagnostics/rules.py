"""The alarms of an entropy that is to be held: which number is compared with what, what it means, what to change.

Those of a run that learns nothing, under whatever trainer, are in `no_learning.py`.

A rule compares one value. It fires at `fires`, once that has held for `steps` optimizer steps, and is armed again
when the value is back at `clears`; in between nothing is said twice (`watch.py`). Fires above clears means that large
values are bad, fires below clears that small ones are.

Thresholds are ours, far from what a healthy run has. A text is true under any trainer: where a cure needs a setting of
ours, it says so.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from steer_trl.diagnostics.keys import names

Numbers = Mapping[str, float]
"""The last known number of each key of the log; the initial entropy also if that is not logged."""

LOWEST_START = f"lowest {names.START_ENTROPY}"
"""The lowest initial entropy that was logged: an explosion within the first rollouts raises their mean itself."""


@dataclass(frozen=True)
class Rule:
    """An alarm.

    Attributes:
        name (`str`): what files call it.
        title (`str`): for people, below 64 characters.
        fires (`float`), clears (`float`): thresholds of the value.
        steps (`int`): optimizer steps for which it must have held.
        measure (`callable`): makes of [`Numbers`] those that the text names, the compared one under `"value"`; NaN
            where it is not known. Raises `KeyError` where the log has never had a key that it needs.
        text (`str`): what it means and what to change, with the numbers' places.
        level (`str`): `"warning"` or `"error"`.
        compared (`str`): what the value is, for `docs/metrics.md`.
        names (`callable`, *optional*): makes of [`Numbers`] the words that the text has places for.
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
    names: Callable[[Numbers], dict[str, str]] = lambda log: {}

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


def remedy(log: Numbers) -> dict[str, str]:
    """What to do about a collapse; where the entropy is held already, why it can fall all the same."""
    if names.STRENGTH not in log:
        return {
            "remedy": "Lower learning_rate, raise epsilon_high, or hold the entropy: hold_entropy=0.5, a setting of "
            "SteerGRPOConfig for SteerGRPOTrainer."
        }
    return {
        "remedy": f"hold_entropy does not hold it, with its strength at {log[names.STRENGTH]:.3g}. At 0 it does not "
        "know its target yet, which is relative to the first rollouts (hold_entropy_unit='nats' gives it at once); "
        "above, the method is too weak: look at frac_reward_zero_std, or lower learning_rate."
    }


def change(log: Numbers) -> dict[str, float]:
    """How much the methods change the advantages, in the loss or on whole rollouts.

    Unknown where there may be nothing to change: while a gate is closed, and with `hold_entropy`.
    """
    of_loss, of_rollouts = log.get(names.RELATIVE_CHANGE), log.get(names.ROLLOUT_ADVANTAGE_CHANGE)
    known = [value for value in (of_loss, of_rollouts) if value is not None]
    may_rest = log.get(names.GATE, 1.0) < 1 or names.STRENGTH in log
    return {"value": math.nan if may_rest or not known else max(known)}


def under_target(log: Numbers) -> dict[str, float]:
    """The entropy as a share of STARE's target while its gate is open; 1 while it is closed."""
    found = against(log[names.STARE_TARGET], log)
    return found if log[names.GATE] == 1 else found | {"value": 1.0}


def held_below(log: Numbers) -> dict[str, float]:
    """The last rollout's entropy as a share of what `hold_entropy` compares it with."""
    entropy, target = log[names.ROLLOUT_ENTROPY], log[names.HELD_REFERENCE]
    others = {"strength": log[names.STRENGTH], "rollouts": log[names.OUT_OF_REACH]}
    return {"value": entropy / target, "entropy": entropy, "target": target, **others}


def only(key: str) -> Callable[[Numbers], dict[str, float]]:
    """The number of one key."""
    return lambda log: {"value": log[key]}


RULES = (
    Rule(
        "collapse",
        "The entropy collapses",
        *(0.5, 0.65, 10),
        below_start,
        "the policy entropy is {entropy:.3g} nats, {value:.0%} of {level:.3g}, its initial value or a lower target. "
        "Completions become alike: the reward may rise while pass@k falls. {remedy}",
        names=remedy,
        compared=f"`{names.ENTROPY}`, over `{names.START_ENTROPY}` or a target of the method below it",
    ),
    Rule(
        "explosion",
        "The entropy explodes",
        *(2.0, 1.5, 10),
        above_start,
        "the policy entropy is {entropy:.3g} nats, {value:.1f} times {level:.3g}, its initial value or a higher "
        "target. The policy becomes random, and the reward falls with it. Lower learning_rate or an entropy bonus; "
        "with STARE lower stare_amplify, and use stare_gate='none' only with hold_entropy.",
        compared=(
            f"`{names.ENTROPY}`, over the lowest `{names.START_ENTROPY}` so far or a target of the method above it, "
            "up to three times"
        ),
    ),
    Rule(
        "idle",
        "The method does next to nothing",
        *(0.001, 0.002, 20),
        change,
        "the methods change the advantages by {value:.2%} in the mean, so this is a run of plain GRPO. STEER: one "
        "token may own the largest entropy change; lower steer_lambda_min. STARE: raise stare_amplify, lower "
        "stare_attenuate or raise stare_top_fraction.",
        compared=(
            f"the larger of `{names.RELATIVE_CHANGE}` and `{names.ROLLOUT_ADVANTAGE_CHANGE}`; not while a gate is "
            "closed, nor with `hold_entropy`"
        ),
    ),
    Rule(
        "weak_gate",
        "The gate is open, and the entropy stays below its target",
        *(0.8, 0.9, 50),
        under_target,
        "the entropy is {entropy:.3g} nats, {value:.0%} of its target {level:.3g}, with the gate open all the time: "
        "the weights are too weak to raise it, or the target is out of reach. Use stare_variant='C2', a larger "
        "stare_amplify and smaller stare_attenuate, or stare_adaptive=True; or lower stare_target_entropy.",
        compared=f"`{names.ENTROPY}` over `{names.STARE_TARGET}`, while the gate is open",
    ),
    Rule(
        "saturated",
        "STARE's schedule is at its bound",
        *(1.0, 0.5, 50),
        only(names.SATURATED),
        "W and M have been at their bounds for long, so they no longer answer to the entropy. Raise "
        "stare_amplify_max, lower stare_attenuate_min, or lower stare_target_entropy.",
        compared=f"`{names.SATURATED}`",
    ),
    Rule(
        "below_target",
        "The entropy stays below the target of hold_entropy",
        *(0.9, 0.95, 30),
        held_below,
        "the entropy is {entropy:.3g} nats, {value:.0%} of the target {target:.3g}, and has been more than a tenth "
        "below it for long. The strength is {strength:.3g}, and has been at its upper bound for {rollouts:.0f} "
        "rollouts. Weights act through advantages: look at frac_reward_zero_std, and set dynamic_sampling='resample'. "
        "Or choose a lower hold_entropy, another method, or a lower learning_rate.",
        compared=f"`{names.ROLLOUT_ENTROPY}` over `{names.HELD_REFERENCE}`",
    ),
    Rule(
        "out_of_bounds",
        "Impossible log-probabilities or entropies",
        *(1e-12, 0.0, 0),
        only(names.OUT_OF_BOUNDS),
        "{value:.3%} of the tokens have a log-probability above 0, or an entropy below 0 or above the logarithm of "
        "the vocabulary. That is a fault of the kernel or of the precision, and all that is made of them is wrong. "
        "Stop the run; try without use_liger_kernel, or in another precision.",
        level="error",
        compared=f"`{names.OUT_OF_BOUNDS}`",
    ),
)
