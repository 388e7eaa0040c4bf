"""The regulator on plants whose answer to a strength is known, before it meets a model."""

import json
import math
import runpy
from types import SimpleNamespace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support import ROOT
from support.old_regulator import EntropyRegulator as OldRegulator

from steer_trl.entropy.recent import RecentEntropies
from steer_trl.entropy.target import TargetPath
from steer_trl.functional import EntropyRegulator

SCRIPT = SimpleNamespace(**runpy.run_path(str(ROOT / "experiments/regulator.py")))


@pytest.mark.parametrize("dead", [0, 1])
@pytest.mark.parametrize("plant", SCRIPT.PLANTS, ids=lambda plant: "-".join(plant) or "plain")
def test_holds_all_levels_even_a_rollout_late(plant, dead):
    """Five per cent of mean error after settling, and nine rollouts of ten within ten."""
    for level in SCRIPT.LEVELS:
        assert SCRIPT.is_held(SCRIPT.distances(level, dead=dead, **plant)), level


def test_combinations_that_nothing_was_tuned_on_are_held(monkeypatch):
    """Drawn at random, the same for each dead time; the script has the whole table."""
    drawn = list(SCRIPT.random_combinations(12, 5))
    assert len({(one.level, one.plant["authority"]) for one in drawn}) == 12
    again, other = SCRIPT.random_combinations(12, 5), SCRIPT.random_combinations(12, 6)
    assert [one.level for one in again] == [one.level for one in drawn] != [one.level for one in other]
    for dead in (0, 1):
        assert list(SCRIPT.missed(dead, drawn)) == []
    monkeypatch.setattr("steer_trl.entropy.pi_law.PROPORTIONAL", 0.1)
    monkeypatch.setattr("steer_trl.entropy.pi_law.INTEGRAL", 0.0)
    assert len(list(SCRIPT.missed(0, drawn))) > 6  # else nothing could be missed


@pytest.mark.parametrize("prompts", [1, 4, 8])
def test_rollouts_of_few_prompts_are_held_within_a_tenth(monkeypatch, prompts):
    """The script has the whole table."""
    some = list(SCRIPT.combinations())[::5]
    assert list(SCRIPT.missed_of_few(prompts, some)) == []
    if prompts == 1:
        # If the regulator read each rollout by itself, it would follow the draw of the prompts.
        monkeypatch.setattr("steer_trl.entropy.recent.ENOUGH_GROUPS", 1)
        assert list(SCRIPT.missed_of_few(prompts, some)) != []


@given(st.lists(st.floats(0, 50), min_size=1, max_size=80), st.integers(1, 40), st.integers(0, 80))
def test_the_mean_is_over_the_last_32_groups(entropies, groups, cut):
    recent = RecentEntropies(groups)
    rollouts = math.ceil(32 / groups)
    for number, entropy in enumerate(entropies, 1):
        if number == cut:
            state = json.loads(json.dumps(recent.state_dict()))
            recent = RecentEntropies(groups)
            recent.load_state_dict(state)
        last = entropies[max(number - rollouts, 0) : number]
        mean = recent.add(entropy)
        assert mean == entropy if groups >= 32 else mean == pytest.approx(sum(last) / len(last))
    assert (recent.state_dict() == {}) == (groups >= 32) == (recent.pace == 1)


def test_a_low_start_rises_to_a_falling_level():
    regulator = EntropyRegulator(1.0, 1.0, final=0.2, release_start=0.0)
    references = [(regulator.update(0.4, step / 100), regulator.setpoint)[1] for step in range(101)]
    top = references.index(max(references))
    assert references[:top] == sorted(references[:top]) and references[top:] == sorted(references[top:], reverse=True)
    assert references[0] == pytest.approx(0.4) and references[-1] == pytest.approx(0.2)
    assert references[top:] == pytest.approx([1 - 0.008 * step for step in range(top, 101)], rel=0.02)


def test_a_lengthened_runs_level_rises_slowly():
    """A resume with more steps is at a smaller share of the training than its checkpoint."""
    regulator = EntropyRegulator(0.8, 1.0, final=0.2, release_start=0.5)
    for progress in (0.0, 0.6, 0.9):
        regulator.update(0.32, progress)
    assert regulator.target == pytest.approx(0.32)
    assert regulator.update(0.32, 0.5) <= 0.01 and regulator.target == pytest.approx(0.8)
    assert regulator.setpoint == pytest.approx(0.32)
    assert regulator.update(0.32, 0.51) < 1.0 and regulator.setpoint < 0.4


@pytest.mark.parametrize("drift", [0.0, 0.01, -0.002], ids=["still", "rising", "slow"])
@pytest.mark.parametrize("target", SCRIPT.TARGETS)
def test_runs_above_the_level_stay_untouched(target, drift):
    """The advertised setting once spent entropy here: at the learning rates of real models most runs are like this."""
    regulator = EntropyRegulator(target, 1.0)
    entropies = SCRIPT.hold(regulator, 100, drift=drift)  # as a strength would change them
    assert (
        entropies == pytest.approx([math.exp(drift * step) for step in range(100)]) and regulator.rollouts_at_max == 0
    )


@given(st.lists(st.floats(0, 50), max_size=60), st.floats(0.1, 10))
@example([5.0, 1.0, 0.0, 6.0, 0.0, 6.0], 5.0)  # above the level, at full strength for what is on its way down
def test_the_strength_is_never_negative(entropies, target):
    regulator = EntropyRegulator(target, 1.0)
    for entropy in entropies:
        strength = regulator.update(entropy)
        assert strength >= 0
        assert strength == 0 or regulator.rollouts_at_max == 0 or entropy < target


def test_an_entropy_that_does_not_respond_winds_nothing_up():
    """Nothing answers for 200 rollouts; when something does again, the strength leaves its bound within a few."""
    regulator = EntropyRegulator(0.8, 1.0)
    regulator.update(0.8)
    for _ in range(200):
        regulator.update(0.2)
    assert regulator.strength == 1.0 and regulator.rollouts_at_max > 150
    strengths = [regulator.update(0.9) for _ in range(30)]
    assert strengths[0] < 1.0 and strengths[-1] < 0.3 and regulator.rollouts_at_max == 0


def test_the_strength_is_proportional_and_integral_below_the_level():
    """Nothing above the level or near it; below, proportional and integral by hand, and no bound winds that up."""
    regulator = EntropyRegulator(0.4, 50.0, gain=2.0)
    assert {regulator.update(entropy) for entropy in (0.8, 0.6, 0.4, 0.4 * 0.981)} == {0.0}
    assert regulator.setpoint == 0.4
    below = -math.log(0.5) - math.log(1.02)
    assert regulator.update(0.2) == pytest.approx(2 * (3 * below + 0.3 * below), abs=1e-12)
    assert regulator.update(0.2) == pytest.approx(2 * (3 * below + 0.6 * below), abs=1e-12)
    assert regulator.update(0.4) == pytest.approx(2 * 0.6 * below, abs=1e-12)


@pytest.mark.parametrize("level", [0.3, 0.8])
def test_a_changed_level_starts_from_the_present_entropy(level):
    """A level raised from half to four fifths once made a reference of 1.45 times the first entropy."""
    before = EntropyRegulator(0.5, 1.0)
    for entropy in (1.0, 0.8, 0.6, 0.45, 0.44):
        before.update(entropy)
    assert before.strength > 0
    after = EntropyRegulator(level, 1.0)
    after.load_state_dict(json.loads(json.dumps(before.state_dict())))
    assert after.strength == before.strength  # of a rollout that is half trained on
    after.update(0.44)
    assert after.setpoint == pytest.approx(min(level, 0.44))
    references = [(after.update(0.44), after.setpoint)[1] for _ in range(100)]
    assert min([*references, level]) >= min(0.44, level) and max(references) <= max(0.44, level)
    assert references[-1] == pytest.approx(level, rel=0.01)


SEQUENCES = st.lists(
    st.tuples(st.one_of(st.floats(0, 50), st.just(math.nan), st.just(math.inf)), st.floats(0, 1)), max_size=60
)
OLD_NAMES = {
    "error": "deviation",
    "reference": "setpoint",
    "at_bound": "rollouts_at_max",
    "rollouts": "approach_rollouts",
    "origin": "approach_target",
    "gap": "approach_gap",
}


@given(
    rollouts=SEQUENCES,
    level=st.floats(0.01, 10),
    falls_to=st.floats(0.01, 1),
    release_start=st.floats(0, 0.99),
    bound=st.sampled_from([(0.2, 0.2), (1.0, 1.0), (3.0, 3.0)]),
    cut=st.integers(0, 60),
    is_sorted=st.booleans(),
)
def test_two_classes_equal_the_single_class_bit_for_bit(
    rollouts, level, falls_to, release_start, bound, cut, is_sorted
):
    """Over random entropies and progress, and from each state that the single class has saved."""
    if is_sorted:
        rollouts = [
            (entropy, progress)
            for (entropy, _), progress in zip(rollouts, sorted(p for _, p in rollouts), strict=True)
        ]
    max_strength, gain = bound
    final = level * falls_to
    oracle = OldRegulator(level, max_strength, gain, final, release_start)
    regulator = EntropyRegulator(level, max_strength, gain, final, release_start)
    for rollout, (entropy, progress) in enumerate(rollouts):
        if rollout == cut:
            regulator = EntropyRegulator(level, max_strength, gain, final, release_start)
            regulator.load_state_dict(json.loads(json.dumps(oracle.state_dict())))
        assert regulator.update(entropy, progress) == oracle.update(entropy, progress)
        expected = {OLD_NAMES.get(name, name): value for name, value in oracle.state_dict().items()}
        assert regulator.state_dict() == expected


@pytest.mark.parametrize("dead", [0, 1, 3])
def test_plants_are_held_with_the_same_strengths_as_by_the_single_class(dead):
    for plant in SCRIPT.PLANTS:
        for level, final, release_start in SCRIPT.LEVELS:
            settings = (level, 1.0, 1.0, final, release_start)
            entropies = SCRIPT.hold(EntropyRegulator(*settings), dead=dead, **plant)
            assert entropies == SCRIPT.hold(OldRegulator(*settings), dead=dead, **plant)


@given(st.lists(st.floats(0, 50), min_size=2, max_size=60), st.floats(0, 0.99))
def test_a_target_of_zero_holds_nothing(entropies, release_start):
    """At a target of 0 the old regulator divided by zero."""
    regulator = EntropyRegulator(0.7, 1.0, final=0.0, release_start=release_start)
    last = len(entropies) - 1
    for rollout, entropy in enumerate(entropies):
        strength = regulator.update(entropy, rollout / last)
    assert regulator.target == regulator.setpoint == strength == 0
    again = EntropyRegulator(0.7, 1.0, final=0.0, release_start=release_start)
    again.load_state_dict(json.loads(json.dumps(regulator.state_dict(), allow_nan=False)))
    assert again.state_dict() == regulator.state_dict()
    # A resume with more steps raises the target again, from the present entropy.
    assert again.update(0.3, release_start) == 0 and again.setpoint == pytest.approx(0.3)


def test_a_target_that_never_falls():
    regulator = EntropyRegulator(0.7, 1.0, final=0.1, release_start=1.0)
    assert {regulator.path.at(progress) for progress in (0.0, 0.5, 1.0)} == {0.7} and not regulator.path.falls


# A policy that is certain of every token has an entropy of 0, except for rounding.
POSSIBLE = st.one_of(st.floats(0, 50), st.floats(-1e-6, 0), st.just(math.nan), st.just(math.inf))


@given(st.lists(POSSIBLE, max_size=60), st.integers(0, 59), st.sampled_from([4, 32]))
def test_a_restored_regulator_continues_exactly(entropies, cut, groups):
    one = EntropyRegulator(0.7, 0.9, groups_per_rollout=groups)
    for entropy in entropies[:cut]:
        assert 0 <= one.update(entropy) <= 0.9
    other = EntropyRegulator(0.7, 0.9, groups_per_rollout=groups)
    other.load_state_dict(json.loads(json.dumps(one.state_dict(), allow_nan=False)))
    for entropy in entropies[cut:]:
        assert one.update(entropy) == other.update(entropy)
    assert one.state_dict() == other.state_dict()


@given(st.floats(0, 1e6), st.floats(0, 1e6))
def test_less_entropy_never_asks_for_less_strength(one, other):
    strengths = []
    for entropy in sorted((one, other)):
        regulator = EntropyRegulator(0.7, 1)
        regulator.update(0.6)
        strengths.append(regulator.update(entropy))
    assert strengths[0] >= strengths[1]


def test_invalid_entropies_and_states_change_nothing():
    regulator = EntropyRegulator(0.7, 1)
    regulator.update(0.5)
    before = regulator.state_dict()
    for entropy in (math.nan, math.inf):
        regulator.update(entropy)
        assert regulator.state_dict() == before
    spoilt = {"strength": "1"}, {"integral": math.nan}, {"deviation": "x"}, {"schedule": [1.0]}
    for wrong in ({}, [1], *(before | one for one in spoilt)):
        with pytest.raises(ValueError, match="must be"):
            regulator.load_state_dict(wrong)
        assert regulator.state_dict() == before


paths = st.builds(
    lambda level, share, release_start: TargetPath(level, share * level, release_start),
    st.sampled_from([1.0, 2.0]),
    st.sampled_from([0.5, 1.0]),
    st.sampled_from([0.0, 0.6, 1.0]),
)


@given(paths, paths)
def test_paths_agree_if_their_targets_are_equal_at_every_moment(path, other):
    moments = [i / 100 for i in range(101)]
    assert path.agrees_with(other) == all(path.at(moment) == other.at(moment) for moment in moments)


@given(st.lists(st.floats(0.1, 5), min_size=2, max_size=30), st.integers(1, 29))
def test_a_checkpoint_is_continued_exactly_at_another_spelling_of_a_target_that_never_falls(entropies, split):
    regulators = [EntropyRegulator(1.0, 3.0, release_start=release_start) for release_start in (0.6, 0.6, 1.0)]
    whole, before, after = regulators
    expected = [whole.update(entropy, i / 30) for i, entropy in enumerate(entropies)]
    strengths = [before.update(entropy, i / 30) for i, entropy in enumerate(entropies[:split])]
    after.load_state_dict(json.loads(json.dumps(before.state_dict())))
    strengths += [after.update(entropy, (split + i) / 30) for i, entropy in enumerate(entropies[split:])]
    assert strengths == expected
