"""The alarms about the policy's entropy and about the methods that act on it."""

import math

from steer_trl.monitoring import key_names
from steer_trl.monitoring.rules import Numbers, Rule, RuleReading, read_key

LOWEST_START = f"lowest {key_names.START_ENTROPY}"
"""The name under which `watch.py` stores the lowest initial entropy so far.

The logged initial entropy is a running mean over the first rollouts, so an early explosion would raise it.
"""


def find_targets(log: Numbers) -> list[float]:
    """Return the target entropies of STARE and `hold_entropy` that were logged, in nats per token."""
    keys = (key_names.STARE_TARGET, key_names.HELD_TARGET)
    return [log[key] for key in keys if key in log]


def compare_entropy(log: Numbers, level: float) -> RuleReading:
    """Return the entropy divided by `level`. Both are in nats per token."""
    entropy = log[key_names.ENTROPY]
    return {"value": entropy / level if level > 0 else math.nan, "entropy": entropy, "level": level}


def compare_with_start(log: Numbers) -> RuleReading:
    """Return the entropy divided by its initial value, or by a method's target if that is lower."""
    return compare_entropy(log, min([log[key_names.START_ENTROPY], *find_targets(log)]))


def compare_with_lowest_start(log: Numbers) -> RuleReading:
    """Return the entropy divided by its lowest initial value, or by a method's target if that is higher.

    Targets above three times the lowest initial value are ignored.
    """
    start = log[LOWEST_START]
    targets = [target for target in find_targets(log) if target <= 3 * start]
    return compare_entropy(log, max([start, *targets]))


def read_change(log: Numbers) -> RuleReading:
    """Return how much the methods change the advantages.

    The value is NaN if STARE's gate is closed or `hold_entropy` is on, because the methods may then have no effect on
    purpose.
    """
    keys = (key_names.RELATIVE_CHANGE, key_names.ROLLOUT_ADVANTAGE_CHANGE)
    changes = [log[key] for key in keys if key in log]
    may_rest = log.get(key_names.GATE, 1.0) < 1 or key_names.STRENGTH in log
    return {"value": math.nan if may_rest or not changes else max(changes)}


def find_remedy_of_idle(log: Numbers) -> dict[str, str]:
    """Return the remedy for a method that hardly changes the advantages."""
    if log.get("clip_cov/dropped") == 0:
        none = "Clip-Cov drops no token, because no covariance lies between its bounds, lower and upper."
        return {"remedy": f"{none} Lower `lower` in shaping_options."}
    stare = "With STARE, raise stare_amplify or stare_top_fraction, or lower stare_attenuate."
    return {"remedy": f"With STEER, lower steer_lambda_min. {stare}"}


def compare_with_stare_target(log: Numbers) -> RuleReading:
    """Return the entropy divided by STARE's target. The value is 1 while STARE's gate is closed."""
    reading = compare_entropy(log, log[key_names.STARE_TARGET])
    return reading if log[key_names.GATE] == 1 else reading | {"value": 1.0}


def compare_with_held_target(log: Numbers) -> RuleReading:
    """Return the last rollout's entropy divided by `hold_entropy/reference`, the current target.

    The value is NaN at a target of 0, at which nothing is held.
    """
    entropy = log[key_names.ROLLOUT_ENTROPY]
    target = log[key_names.HELD_REFERENCE]
    return {
        "value": entropy / target if target > 0 else math.nan,
        "entropy": entropy,
        "target": target,
        "strength": log[key_names.STRENGTH],
        "rollouts": log[key_names.OUT_OF_REACH],
    }


def find_remedy(log: Numbers) -> dict[str, str]:
    """Return the remedy for a collapse of the entropy.

    If `hold_entropy` is already on, the remedy explains why the entropy can still fall.
    """
    if key_names.STRENGTH not in log:
        ours = "Set hold_entropy=0.65 in SteerGRPOConfig, which holds the entropy at 65% of its initial value"
        return {"remedy": f"{ours}. Or lower learning_rate, or raise epsilon_high."}
    return {
        "remedy": f"hold_entropy is on, with its strength at {log[key_names.STRENGTH]:.3g}. If the strength is 0, the "
        "target is not known yet (hold_entropy_unit='nats' sets it at once). Otherwise the method is too weak: look "
        "at frac_reward_zero_std, or lower learning_rate."
    }


def find_cause_of_explosion(log: Numbers) -> dict[str, str]:
    """Return what may raise the entropy. With `hold_entropy`, the factors of STARE are no settings."""
    return {"causes": "an entropy bonus" if key_names.STRENGTH in log else "an entropy bonus or stare_amplify"}


def find_remedy_of_weights(log: Numbers) -> dict[str, str]:
    """Return the remedy for weights that have no effect because no group has a signal."""
    groups = "take harder or easier problems, or raise num_generations"
    return {"remedy": groups if key_names.INFORMATIVE in log else "set dynamic_sampling='resample'"}


ENTROPY_RULES = (
    Rule(
        name="collapse",
        title="The entropy collapses",
        fires=0.5,
        clears=0.65,
        steps=10,
        read=compare_with_start,
        find_words=find_remedy,
        compared="`entropy`, over `rollout_entropy/start` or a target of the method below it",
        text="the policy entropy is {entropy:.3g} nats, {value:.0%} of {level:.3g}, its initial value or a lower "
        "target. Completions become alike: the reward may rise while pass@k falls. {remedy}",
    ),
    Rule(
        name="explosion",
        title="The entropy explodes",
        fires=2.0,
        clears=1.5,
        steps=10,
        read=compare_with_lowest_start,
        compared="`entropy`, over the lowest `rollout_entropy/start` so far or a target of the method above it, up "
        "to three times",
        find_words=find_cause_of_explosion,
        text="the policy entropy is {entropy:.3g} nats, {value:.1f} times {level:.3g}, its initial value or a higher "
        "target. The policy becomes random, and its reward falls. Lower learning_rate or "
        "{causes}.",
    ),
    Rule(
        name="idle",
        title="The method does next to nothing",
        fires=0.001,
        clears=0.002,
        steps=20,
        read=read_change,
        find_words=find_remedy_of_idle,
        compared="the larger of `shaping/relative_change` and `rollout_advantage_change`; not while a gate is "
        "closed, nor with `hold_entropy`",
        text="the methods change the advantages by {value:.2%} on average, so the run is almost plain GRPO. {remedy}",
    ),
    Rule(
        name="weak_gate",
        title="The gate is open, and the entropy stays below its target",
        fires=0.8,
        clears=0.9,
        steps=50,
        read=compare_with_stare_target,
        compared="`entropy` over `stare/target_entropy`, while the gate is open",
        text="the entropy is {entropy:.3g} nats, {value:.0%} of its target {level:.3g}, although the gate is open all "
        "the time. The weights are too weak: use a larger stare_amplify and a smaller stare_attenuate, "
        "or stare_variant='C2' or stare_adaptive=True if the run has another. Or lower stare_target_entropy.",
    ),
    Rule(
        name="saturated",
        title="STARE's schedule is at its bound",
        fires=1.0,
        clears=0.5,
        steps=50,
        read=read_key("stare/saturated"),
        compared="`stare/saturated`",
        text="STARE's factors are at their bounds, so they no longer respond to the entropy. Raise amplify_max "
        "in shaping_options, or lower attenuate_min or stare_target_entropy.",
    ),
    Rule(
        name="below_target",
        title="The entropy stays below the target of hold_entropy",
        fires=0.9,
        clears=0.95,
        steps=30,
        read=compare_with_held_target,
        compared="`rollout_entropy` over `hold_entropy/reference`",
        find_words=find_remedy_of_weights,
        text="the entropy is {entropy:.3g} nats, {value:.0%} of the target {target:.3g}. The strength is "
        "{strength:.3g}, and has been at its upper bound for {rollouts:.0f} rollouts. Weights have no "
        "effect on advantages of 0: if frac_reward_zero_std is near 1, {remedy}. Otherwise "
        "set a lower hold_entropy or learning_rate, or use another method.",
    ),
    Rule(
        name="out_of_bounds",
        title="Impossible log-probabilities or entropies",
        fires=1e-12,
        clears=0.0,
        steps=0,
        read=read_key("sanity/out_of_bounds"),
        level="error",
        compared="`sanity/out_of_bounds`",
        text="{value:.3%} of the tokens have a log-probability above 0, or an entropy below 0 or above the logarithm "
        "of the vocabulary size. The kernel or the precision is at fault. Stop the run, and try it without "
        "use_liger_kernel or in another precision.",
    ),
    Rule(
        name="not_finite",
        title="Log-probabilities or entropies are NaN",
        fires=1e-12,
        clears=0.0,
        steps=0,
        read=read_key("sanity/not_finite"),
        level="error",
        compared="`sanity/not_finite`",
        text="{value:.3%} of the tokens have a log-probability or an entropy that is NaN or infinite. If a masked "
        "part of the vocabulary has logits of -inf, the entropy of every token is NaN, and neither methods nor "
        "hold_entropy can read it: mask with a large negative number such as -1e4. Otherwise the weights or "
        "the precision are at fault: lower learning_rate, or use another precision.",
    ),
)
