"""Rules and the watch over them: each fires where it should, once per episode."""

import math
import re
from dataclasses import fields
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st
from trl import GRPOConfig

from steer_trl import SteerGRPOConfig
from steer_trl.cli.recipe_files import load_recipe
from steer_trl.monitoring.entropy_rules import ENTROPY_RULES
from steer_trl.monitoring.learning_rules import IS_TRUNCATED, LEARNING_RULES, ON_ROLLOUTS
from steer_trl.monitoring.rules import Rule, read_key
from steer_trl.monitoring.watch import RULES, AlarmWatch

BY_NAME = {rule.name: rule for rule in RULES}
LEVEL = load_recipe("recommended_qwen2.5_math_7b")["hold_entropy"]
HEALTHY = {"entropy": 0.5, "rollout_entropy": 0.49, "loss": 0.01, "grad_norm": 0.2, "shaping/relative_change": 0.05}
HEALTHY |= {"stare/gate": 1.0, "stare/target_entropy": 0.45, "stare/saturated": 0.0, "sanity/out_of_bounds": 0.0}
HEALTHY |= {"sanity/not_finite": 0.0}
HEALTHY |= {"hold_entropy/target": 0.5, "hold_entropy/reference": 0.5, "hold_entropy/out_of_reach": 0.0}
HEALTHY |= {"completions/clipped_ratio": 0.1, "frac_reward_zero_std": 0.3, "math_reward/unanswered": 0.1}
HEALTHY |= {"reward": 0.4, "reward_std": 0.5, "rewards/right/mean": 0.3, "rewards/right/std": 0.4}
HEALTHY |= {"sampled_as_scored": 0.005, "sampled_as_scored/error": 0.003}
HEALTHY |= {"rewards/form/mean": 0.1, "rewards/form/std": 0.1}
SICK = {
    "collapse": {"entropy": 0.2},
    "explosion": {"entropy": 1.1},
    "idle": {"shaping/relative_change": 0.0007},
    "weak_gate": {"entropy": 0.3},
    "saturated": {"stare/saturated": 1.0},
    "below_target": {"rollout_entropy": 0.44, "hold_entropy/strength": 0.2},
    "truncation": {"completions/clipped_ratio": 0.6},
    "dead_groups": {"frac_reward_zero_std": 0.95},
    "out_of_bounds": {"sanity/out_of_bounds": 0.01},
    "not_finite": {"sanity/not_finite": 1.0},
    "unreadable": {"math_reward/unanswered": 0.97},
    "never_ends": {"completions/clipped_ratio": 1.0},
    "one_reward": {"reward_std": 1e-8, "frac_reward_zero_std": 1.0},
    "no_advantage": {"frac_reward_zero_std": 1.0},
    "no_gradient": {"grad_norm": 0.0},
    "infinite_reward": {"rewards/form/mean": math.inf, "rewards/form/std": math.nan},
    "sampled_otherwise": {"sampled_as_scored": -0.05},
}
FROM_THE_START = {
    "unscored": {"rewards/form/mean": None, "rewards/form/std": None},
    "no_entropy": {"entropy": 1e-4, "rollout_entropy": 1e-4, "stare/gate": 0.0, "hold_entropy/reference": 1e-4},
}
"""Faults that a run has from its first line, or does not have."""


def said(watch, lines, first=1, every=1):
    """(step, name) of what is said of lines that come every so many steps."""
    alarms = [watch.read_entry(first + number * every, line) for number, line in enumerate(lines)]
    return [(alarm.step, alarm.alarm) for of_line in alarms for alarm in of_line]


def names(lines):
    return [alarm for _, alarm in said(AlarmWatch(), lines)]


def test_a_healthy_run_raises_no_rule():
    assert names([HEALTHY] * 200) == []
    assert SICK.keys() | FROM_THE_START.keys() == BY_NAME.keys()


@pytest.mark.parametrize("name", SICK)
def test_an_alarm_is_raised_once_and_again_after_recovery(name):
    rule = BY_NAME[name]
    episode = [HEALTHY | SICK[name]] * (rule.steps + 100)
    watch, wanted = AlarmWatch(), 1 + rule.steps
    found = [step for step, alarm in said(watch, [HEALTHY, *episode]) if alarm == name]
    assert found == [1 + wanted]
    assert name not in [alarm for _, alarm in said(watch, episode, first=500)]
    found = [step for step, alarm in said(watch, [HEALTHY, *episode], first=1000) if alarm == name]
    assert found == [1000 + wanted]


@pytest.mark.parametrize("name", FROM_THE_START)
def test_early_faults_are_reported_once(name):
    sick = HEALTHY | FROM_THE_START[name]
    wanted = 1 + BY_NAME[name].steps
    assert said(AlarmWatch(), [sick] * (wanted + 100)) == [(wanted, name)]
    assert name not in names([HEALTHY, *[sick] * (wanted + 100)])


@pytest.mark.parametrize(
    "cause", [{"completions/clipped_ratio": 1.0}, {"math_reward/unanswered": 1.0}, {"rewards/right/mean": None}]
)
def test_explained_equal_rewards_raise_the_explanation(cause):
    alike = {"reward": 0.0, "reward_std": 0.0, "frac_reward_zero_std": 1.0, "grad_norm": 0.0, "loss": 0.0}
    line = {"entropy": 0.5, "rewards/right/mean": 0.0, "rewards/right/std": 0.0, **alike, **cause}
    (alarm,) = names([line] * 100)
    assert alarm in ("never_ends", "unreadable", "unscored")


def test_an_infinite_spread_is_an_infinite_reward():
    line = HEALTHY | {"rewards/form/mean": 5e29, "rewards/form/std": math.inf, "reward_std": math.inf}
    assert names([HEALTHY, line]) == ["infinite_reward"]


def test_an_alarm_stands_after_those_that_explain_it():
    names_before = set()
    for rule in RULES:
        assert names_before.issuperset(rule.explained_by), rule.name
        names_before.add(rule.name)


CAUSES = [(rule.name, cause) for rule in RULES for cause in rule.explained_by]


@pytest.mark.parametrize(("name", "cause"), CAUSES)
def test_an_alarm_waits_while_its_cause_holds_and_comes_after_it(name, cause):
    """Also before the cause itself has held for long enough."""
    alone = HEALTHY | SICK[name]
    both = alone | (SICK | FROM_THE_START)[cause]
    rule = BY_NAME[name]
    watch = AlarmWatch([BY_NAME[cause], rule])
    assert [alarm for _, alarm in said(watch, [both] * 100)] == [cause]
    assert watch.find_holding() == {cause, name}
    assert said(watch, [alone] * (1 + rule.steps), first=101) == [(101 + rule.steps, name)]


def test_a_cause_that_comes_and_goes_hides_no_consequence():
    """Neither `never_ends` holds for long enough here, nor one of its consequences without a break."""
    alike = HEALTHY | {"reward_std": 0.0, "frac_reward_zero_std": 1.0, "grad_norm": 0.0}
    lines = [alike | {"completions/clipped_ratio": share} for share in (1.0, 0.95)] * 50
    assert sorted(names(lines)) == ["one_reward", "truncation"]
    assert sorted(name for _, name in said(AlarmWatch(), lines, every=10)) == ["one_reward", "truncation"]


def test_entropy_alarms_have_no_explanation():
    """A collapse is reported whatever else is wrong."""
    assert not [rule.name for rule in ENTROPY_RULES if rule.explained_by]
    alike = HEALTHY | SICK["one_reward"] | SICK["never_ends"] | SICK["collapse"]
    assert {"collapse", "never_ends"} <= set(names([HEALTHY, *[alike] * 40]))


def test_a_reward_without_numbers_yet_is_fine():
    """A function for one kind of row has nothing to judge in a step without such rows."""
    none = HEALTHY | FROM_THE_START["unscored"]
    assert names([*[none] * 9, HEALTHY, *[none] * 100]) == []


@pytest.mark.parametrize("every", [1, 10, 100])
def test_a_short_dip_raises_no_alarm(every):
    sick = HEALTHY | SICK["collapse"]
    assert said(AlarmWatch(), [HEALTHY, sick, HEALTHY] * 20, every=every) == []
    assert said(AlarmWatch(), [HEALTHY, sick, sick], every=10) == [(21, "collapse")]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_the_text_has_numbers_and_remedy(rule):
    watch = AlarmWatch([rule])
    start = HEALTHY if rule.name in SICK else HEALTHY | FROM_THE_START[rule.name]
    lines = [start, *[start | SICK.get(rule.name, {})] * (rule.steps + 1)]
    (alarm,) = [alarm for step, line in enumerate(lines) for alarm in watch.read_entry(step, line)]
    assert "{" not in alarm.text.replace("\\boxed{}", "") and ("'form'" in alarm.text) == (
        rule.name in ("unscored", "infinite_reward")
    )
    assert all(isinstance(value, float) and math.isfinite(value) for value in alarm.numbers.values())
    assert len(alarm.title) < 64  # as Weights & Biases wants it


def test_a_difference_within_five_errors_is_chance():
    for gap, error, facts, alarms in [
        (-0.03, 0.0061, {}, []),
        (-0.03, 0.0059, {}, ["sampled_otherwise"]),
        (0.03, 0.0059, {}, ["sampled_otherwise"]),
        (0.019, 0.001, {}, []),
        (-0.9, 0.001, {IS_TRUNCATED: 1.0}, []),
    ]:
        line = {"sampled_as_scored": gap, "sampled_as_scored/error": error}
        assert [name for _, name in said(AlarmWatch(facts=facts), [line])] == alarms


def test_no_gradient_names_methods_that_removed_advantages():
    line = HEALTHY | {"grad_norm": 0.0, "rollout_advantage_change": 0.8}
    for left, is_named in ((0.0, True), (0.3, False)):
        watch = AlarmWatch([BY_NAME["no_gradient"]], {ON_ROLLOUTS + "f_grpo": 1.0})
        lines = [line | {"rollout_advantage_left": left}] * 20
        (alarm,) = [alarm for step, entry in enumerate(lines) for alarm in watch.read_entry(step, entry)]
        assert ("'f_grpo'" in alarm.text) == is_named


@given(st.floats(0.01, 0.89), st.integers(2, 50))
def test_the_gradient_of_a_last_step_says_nothing_about_a_window_with_dead_groups(share, every):
    """The last step may have had only groups without a signal, as happens in healthy runs."""
    watch = AlarmWatch([BY_NAME["no_gradient"]])
    line = HEALTHY | {"grad_norm": 0.0, "frac_reward_zero_std": share}
    assert said(watch, [line] * 20, every, every) == []
    assert said(watch, [line | {"frac_reward_zero_std": 0.0}] * 20, 21 * every, every) != []


def test_a_target_is_what_the_run_should_hold():
    """Held at half of where it began, or at thrice of it, an entropy is where it was asked to be."""
    for target, entropy, alarms in ((0.5, 0.48, []), (3.0, 2.9, []), (100.0, 2.9, ["explosion"])):
        start = HEALTHY | {"entropy": 1.0, "rollout_entropy": 1.0, "stare/gate": 0.0, "stare/target_entropy": target}
        assert names([start, *[start | {"entropy": entropy}] * 100]) == alarms


def test_early_explosions_are_reported():
    """It raises that mean: 32 rollouts of one prompt, in which the entropy rises to ten times its first value."""
    entropies = [0.5 + 4.5 * step / 31 for step in range(32)]
    lines = [{"entropy": h, "rollout_entropy/start": fmean(entropies[: i + 1])} for i, h in enumerate(entropies)]
    assert 2 * lines[-1]["rollout_entropy/start"] > 5.0
    assert names(lines + lines[-1:] * 20) == ["explosion"]
    falls = [{"entropy": h, "rollout_entropy/start": h} for h in (0.9, 0.6, 0.5)]
    assert names(falls + falls[:1] * 40) == []  # below twice the lowest


def test_only_falls_below_an_annealed_level_collapse():
    levels = [0.5, *[0.5 - 0.004 * step for step in range(100)]]
    held = [{"entropy": 1.03 * level, "hold_entropy/target": level} for level in levels]
    assert names([{"entropy": 1.0, "hold_entropy/target": 0.5}, *held]) == []
    lost = [line | {"entropy": 0.4 * line["hold_entropy/target"]} for line in held[50:]]
    assert names(held[:50] + lost) == ["collapse"]


def test_a_held_collapse_gets_another_remedy():
    start = {"entropy": 1.0, "hold_entropy/target": 0.5}
    lost = {"entropy": 0.2, "hold_entropy/target": 0.5}
    for strength, remedy in (({}, "in SteerGRPOConfig"), ({"hold_entropy/strength": 0.25}, "strength at 0.25")):
        watch = AlarmWatch([BY_NAME["collapse"]])
        (alarm,) = [a for step in range(20) for a in watch.read_entry(step, (lost if step else start) | strength)]
        assert remedy in alarm.text and (f"hold_entropy={LEVEL}" in alarm.text) == (not strength)


@pytest.mark.parametrize("rule", [BY_NAME["collapse"], *LEARNING_RULES], ids=lambda rule: rule.name)
def test_a_remedy_names_its_package(rule):
    own = {field.name for field in fields(SteerGRPOConfig)} - {field.name for field in fields(GRPOConfig)}
    text = rule.text + "".join(rule.find_words({}).values())
    assert not own & set(re.findall(r"\w+", text)) or "SteerGRPOConfig" in text


def test_steps_without_tokens_start_and_collapse_nothing():
    hidden = {"entropy": 0.0, "completions/clipped_ratio": 1.0}
    assert names([hidden, {"entropy": 1.0, "completions/clipped_ratio": 0.1}, *[{"entropy": 0.2}] * 20]) == [
        "collapse"
    ]


@pytest.mark.parametrize("steps", [2, 3, 7])
def test_every_step_of_truncated_rollouts_lacks_tokens(steps):
    """TRL logs the share of truncated completions with the first step of a rollout only."""
    hidden = [{"entropy": 0.0, "completions/clipped_ratio": 1.0}, *[{"entropy": 0.0}] * (steps - 1)]
    well = [{"entropy": 1.0, "completions/clipped_ratio": 0.25}, *[{"entropy": 1.1}] * 20]
    assert "no_entropy" not in names(hidden + well + hidden + well)
    assert "no_entropy" in names([{"entropy": 0.0, "completions/clipped_ratio": 0.25}, *[{"entropy": 0.0}] * 20])


def test_idle_clip_cov_names_its_bounds():
    idle = {"entropy": 0.5, "shaping/relative_change": 0.0}
    for dropped, named in ((0.0, "Clip-Cov"), (1e-6, "steer_lambda_min"), (None, "steer_lambda_min")):
        watch = AlarmWatch()
        lines = [idle | {"clip_cov/dropped": dropped}] * 30
        texts = [alarm.text for step, line in enumerate(lines) for alarm in watch.read_entry(step, line)]
        assert len(texts) == 1 and named in texts[0]


def test_a_method_that_rests_is_not_idle():
    line = {"entropy": 0.5, "shaping/relative_change": 0.0}
    for why in ({"stare/gate": 0.0}, {"hold_entropy/strength": 0.0}, {"rollout_advantage_change": 0.1}):
        assert names([line | why, *[line] * 100]) == []  # logged once per rollout


def test_evaluation_lines_and_invalid_numbers_are_ignored():
    watch = AlarmWatch()
    for line in ({"eval_entropy": 0.1}, {"train_runtime": 3.0}, {"entropy": math.nan}, {"entropy": None}, {}):
        assert watch.read_entry(1, line) == []
    assert watch.state_dict() == {}


VALUES = st.lists(st.sampled_from([0.0, 0.3, 0.5, 0.7, 0.9, 1.0, math.nan]), max_size=60)


@given(VALUES, st.integers(0, 4), st.sampled_from([(0.9, 0.5), (0.3, 0.7)]))
def test_never_twice_in_an_episode(values, steps, thresholds):
    """Between two alarms the value was back; and it held for long enough before each."""
    rule = Rule("a", "A", *thresholds, steps, read_key("entropy"), "{value}", "")
    watch, back, held = AlarmWatch([rule]), True, 0
    last = math.nan
    for step, value in enumerate(values):
        last = value if math.isfinite(value) else last
        fired = bool(watch.read_entry(step, {"entropy": value}))
        back = back or rule.has_recovered(last)
        held = held + 1 if rule.holds(last) else 0
        assert fired == (back and held > steps)
        back = back and not fired


@given(VALUES, st.integers(0, 60))
def test_a_resumed_watch_reports_like_an_unbroken_one(values, cut):
    rule = Rule("a", "A", 0.9, 0.5, 3, read_key("entropy"), "{value}", "")
    whole, before, after = AlarmWatch([rule]), AlarmWatch([rule]), AlarmWatch([rule])
    lines = [{"entropy": value} for value in values]
    expected = said(whole, lines)
    found = said(before, lines[:cut])
    if state := before.state_dict():
        after.load_state_dict(state)
    assert found + said(after, lines[cut:], first=1 + len(lines[:cut])) == expected
    assert after.state_dict() == whole.state_dict()


def test_an_impossible_state_is_refused():
    with pytest.raises(ValueError, match="numbers is missing"):
        AlarmWatch().load_state_dict({"since": {}})
    for name, value in (("numbers", {"entropy": "much"}), ("since", []), ("raised", "collapse")):
        with pytest.raises(ValueError, match=f"{name} must be (numbers by name|a list of names)"):
            AlarmWatch().load_state_dict({"numbers": {}, "since": {}, "raised": []} | {name: value})


START = {"rollout_entropy/start": 0.5, "lowest rollout_entropy/start": 0.5}
HAS = {"dynamic_sampling/informative": 0.05, "hold_entropy/strength": 0.2} | START
"""The log of a run with dynamic sampling and hold_entropy."""


def advice(name, log):
    rule = BY_NAME[name]
    return rule.text.format(**rule.read(log) | rule.find_words(log))


@pytest.mark.parametrize("name", sorted(SICK.keys() - {"weak_gate", "idle"}))  # without hold_entropy
def test_no_alarm_advises_what_the_run_has_or_cannot_set(name):
    text = advice(name, HEALTHY | HAS | SICK[name])
    assert not [word for word in ("dynamic_sampling=", "hold_entropy=0", "stare_amplify") if word in text]
    plain = HEALTHY | START | {"hold_entropy/strength": 0.2} | SICK[name]
    assert ("dynamic_sampling=" in advice(name, plain)) == (name in ("dead_groups", "below_target"))
