"""`hold_entropy` and the methods whose strength it moves."""

import json
import math

import pytest
import torch
from support.methods.batches import config, random_batch, weights
from support.old_regulator import EntropyRegulator as OldRegulator
from support.runs import ON_CPU

from steer_trl import SteerGRPOConfig
from steer_trl.entropy.hold import HoldEntropy
from steer_trl.entropy.start import StartEntropy, count_first_rollouts
from steer_trl.entropy.target import FINAL_OVER_LEVEL, RELEASE_AFTER
from steer_trl.report.card import select_settings
from steer_trl.shaping import SHAPERS, make_shapers
from steer_trl.shaping.base import Control

ABLE = {"repo_r": {}, "entropy_change": {}, "entropy_bonus": {}, "kl": {}}
ABLE |= {"stare": {"stare_gate": "none", "stare_variant": "C2"}}
LARGE = {"per_device_train_batch_size": 256, "num_generations": 8}  # 32 groups in a rollout


def held(name, **settings):
    args = config(name, **{"hold_entropy": 0.8} | LARGE | ABLE[name] | settings)
    shapers = make_shapers(args)
    return shapers[name], HoldEntropy(args, shapers, StartEntropy(count_first_rollouts(args)))


def begin(hold, *entropies, progress=0.0):
    for entropy in entropies:
        hold.start.add(entropy)
        hold.on_rollout(entropy, progress)


def state_of(hold):
    return json.loads(json.dumps([part.state_dict() for part in (hold.start, hold)], allow_nan=False))


def resume(hold, states):
    for part, state in zip((hold.start, hold), states, strict=True):
        if state:
            part.load_state_dict(state)


def of(**settings):
    return SteerGRPOConfig(output_dir="unused", **ON_CPU | settings)


class TestOneSetting:
    def test_holds_by_default_with_c2_and_without_a_warning(self, caplog):
        args = of(hold_entropy=0.5)
        assert (args.advantage_shaping, args.stare_variant, args.stare_gate) == ("stare", "C2", "none")
        assert caplog.records == []
        (stare,) = make_shapers(args).values()
        assert set(stare.operations) == {"amplify_high_positive", "attenuate_high_negative"}
        again = SteerGRPOConfig(output_dir="unused", **select_settings(args) | ON_CPU)
        assert select_settings(again) == select_settings(args)  # what the card states makes the same run

    def test_hold_entropy_leaves_a_named_method_and_set_variant(self):
        assert of(hold_entropy=0.5, stare_variant="C3").stare_variant == "C3"
        named = of(hold_entropy=0.5, advantage_shaping="repo_r")
        assert (named.advantage_shaping, named.stare_variant, named.stare_gate) == ("repo_r", None, None)
        assert of(hold_entropy=0.5, stare_variant="O1").stare_variant == "O1"
        stare = of(hold_entropy=0.5, advantage_shaping="stare")
        assert (stare.advantage_shaping, stare.stare_variant, stare.stare_gate) == ("stare", "C2", "none")
        assert of(advantage_shaping="stare").stare_variant == "O1"
        with pytest.raises(ValueError, match=r"stare_gate='batch'.*hold_entropy"):
            of(hold_entropy=0.5, stare_gate="batch")

    @pytest.mark.parametrize("names", ["f_grpo", "steer", ["f_grpo", "psr"]])
    def test_hold_adds_its_weights_beside_methods_without_a_strength(self, names, caplog):
        args = of(hold_entropy=0.5, advantage_shaping=names)
        together = [*([names] if isinstance(names, str) else names), "stare"]
        assert (args.advantage_shaping, args.stare_variant, args.stare_gate) == (together, "C2", "none")
        assert caplog.records == []
        written = of(hold_entropy=0.5, advantage_shaping=together)
        assert select_settings(written) == select_settings(args)
        with pytest.raises(ValueError, match="has a loss of its own"):
            of(hold_entropy=0.5, advantage_shaping="kl_cov")

    def test_without_hold_entropy_each_method_has_its_own_defaults(self, caplog):
        args = of()
        assert (args.advantage_shaping, args.stare_variant, args.stare_gate) == ("steer", None, None)
        stare = of(advantage_shaping="stare")
        assert (stare.stare_variant, stare.stare_gate) == ("O1", "batch")
        assert "advantage_shaping" not in caplog.text


def test_the_unit_of_a_strength_is_the_methods():
    shaper, hold = held("stare")
    shaper.control = Control(max_strength=100.0, gain=3.0)
    hold = HoldEntropy(hold.args, {"stare": shaper}, hold.start)
    begin(hold, 0.5, 0.5, 0.5, 0.5, 0.2)
    assert shaper.strength == pytest.approx(3 * 3.3 * (math.log(0.4 / 0.2) - math.log(1.02)))


def test_every_method_with_a_strength_is_listed():
    assert {name for name, method in SHAPERS.items() if method.control is not None} == ABLE.keys()


@pytest.mark.parametrize("name", ABLE)
class TestEachMethod:
    def test_hold_waits_for_its_level_then_acts(self, name):
        shaper, hold = held(name)
        begin(hold, 0.5, math.nan, 0.54, 0.46)
        assert shaper.strength == 0 and not shaper.active
        assert hold.metrics() == {"hold_entropy/strength": 0.0}
        begin(hold, 0.5)
        assert hold.metrics()["hold_entropy/target"] == pytest.approx(0.4)
        assert hold.metrics()["hold_entropy/error"] == pytest.approx(0.25)
        assert shaper.strength == 0 and not shaper.active
        begin(hold, 0.2)
        assert shaper.strength > 0 and shaper.active
        assert hold.metrics()["hold_entropy/strength"] == shaper.strength
        assert hold.metrics()["hold_entropy/target"] == pytest.approx(0.4)

    def test_above_the_level_nothing_is_changed(self, name):
        shaper, hold = held(name)
        for entropy in [*[0.5] * 40, *[0.45] * 40, *[0.7] * 40, *[0.41] * 40]:
            begin(hold, entropy)
            assert shaper.strength == 0 and not shaper.active
        assert hold.metrics()["hold_entropy/out_of_reach"] == 0

    def test_strength_raises_surprising_correct_tokens(self, name):
        shaper, _ = held(name)
        if not shaper.distinguishes_tokens:
            pytest.skip("it does not choose tokens")
        tokens = random_batch(5)
        valid = tokens.mask.bool() & tokens.logps.isfinite()
        surprise = torch.where(valid, -tokens.logps * tokens.advantages.sign(), 0.0)
        pulls = []
        for strength in (0.0, 0.3, 0.6, 1.0):
            shaper.strength = strength
            pulls.append((weights(shaper, tokens) * surprise).sum().item())
        assert pulls == sorted(pulls) and len(set(pulls)) == 4

    def test_in_nats_there_is_no_waiting(self, name):
        shaper, hold = held(name, hold_entropy=0.3, hold_entropy_unit="nats")
        begin(hold, 0.31, 0.2)
        assert hold.metrics()["hold_entropy/target"] == 0.3
        assert shaper.strength > 0

    def test_the_error_is_against_the_falling_level(self, name):
        shaper, hold = held(name, hold_entropy_final=0.2, hold_entropy_decay_start=0.5)
        begin(hold, 0.5, 0.5, 0.5, 0.5)
        for progress, target in [(0.5, 0.4), (0.75, 0.25), (0.9, 0.16), (1.0, 0.1)]:
            hold.on_rollout(1.1 * target, progress)
            assert hold.metrics()["hold_entropy/target"] == pytest.approx(target)
            assert hold.metrics()["hold_entropy/error"] == pytest.approx(0.1)
            assert shaper.strength == 0  # above the level of the moment nothing pushes it
        hold.on_rollout(0.08, 1.0)
        assert shaper.strength > 0

    def test_schedules_resume_exactly_and_changes_are_reported(self, name, caplog):
        falls = {"hold_entropy_final": 0.2, "hold_entropy_decay_start": 0.3}
        entropies = (0.5, 0.51, 0.49, 0.5, 0.38, 0.3, 0.2, 0.15, 0.12, 0.1)
        for cut in range(10):
            (one, hold), (other, twin) = held(name, **falls), held(name, **falls)
            for rollout, entropy in enumerate(entropies):
                if rollout == cut:
                    resume(twin, state_of(hold))
                    assert twin.metrics() == hold.metrics()
                for loop in (hold, twin)[: 1 + (rollout >= cut)]:
                    begin(loop, entropy, progress=rollout / 10)
            assert (other.strength, twin.state_dict()) == (one.strength, hold.state_dict())
        assert caplog.text == ""
        resume(held(name, hold_entropy_final=0.4)[1], state_of(hold))
        assert all(number in caplog.text for number in ("0.1", "30%", "0.2", "60%"))

    def test_a_checkpoint_may_be_read_in_any_order(self, name):
        shaper, hold = held(name)
        for entropy in (*[0.5] * 4, 0.3, 0.2):
            shaper.on_rollout(entropy)
            begin(hold, entropy)
        for order in (1, -1):
            parts = held(name)
            parts[1].start.load_state_dict(hold.start.state_dict())
            for part, state in list(zip(parts, (shaper.state_dict(), hold.state_dict()), strict=True))[::order]:
                part.load_state_dict(state)
            assert parts[0].strength == shaper.strength > 0

    def test_a_changed_level_starts_from_present_entropy(self, name, caplog):
        _, hold = held(name, hold_entropy=0.5)
        begin(hold, *[1.0] * 4, 0.6, 0.44)
        state = state_of(hold)
        shaper, raised = held(name)
        resume(raised, state)
        assert "0.5 nats" in caplog.text and "0.8 nats" in caplog.text
        raised.on_rollout(0.44, 0.0)
        assert raised.metrics()["hold_entropy/reference"] == pytest.approx(0.44)
        assert shaper.strength < 1
        caplog.clear()
        same, nats = held(name, hold_entropy=0.5)[1], held(name, hold_entropy=0.5, hold_entropy_unit="nats")[1]
        for twin in (same, nats):  # the same level in another unit is no other level
            resume(twin, state)
        assert caplog.text == ""


def linear(steps):
    """Learning rates that fall linearly to 0."""
    return [1 - step / steps for step in range(steps)]


class TestLettingGo:
    """One number holds and lets go; what is unset follows from the level, and a checkpoint keeps its path."""

    def path(self, **settings):
        hold = held("repo_r", **settings)[1]
        begin(hold, *[0.5] * 4)
        return hold.regulator.path

    def test_the_level_alone_sets_the_whole_path(self):
        path = self.path()
        assert path.level == pytest.approx(0.4)
        assert path.final == pytest.approx(0.4 * FINAL_OVER_LEVEL) and path.release_start == RELEASE_AFTER
        assert self.path(hold_entropy_final=0.0).at(1.0) == 0
        assert self.path(hold_entropy_final=0.2).final == pytest.approx(0.1)  # a multiple of the initial entropy
        assert not self.path(hold_entropy_until=1.0).falls and not self.path(hold_entropy_decay_start=1.0).falls

    def test_until_is_a_share_of_learning_and_its_alias_a_share_of_the_run(self):
        linear = [100 - step for step in range(100)]
        for settings, expected in [({"hold_entropy_until": 0.6}, 0.37), ({"hold_entropy_decay_start": 0.6}, 0.6)]:
            hold = held("repo_r", **settings)[1]
            hold.begin_training(linear)
            begin(hold, *[0.5] * 4)
            assert hold.regulator.path.release_start == pytest.approx(expected, abs=0.005)

    def test_a_checkpoint_of_a_constant_level_stays_constant(self, caplog):
        """The target did not fall by default when such a checkpoint was written."""
        old = OldRegulator(0.4, 1.0)
        for entropy in (0.5, 0.3, 0.35):
            old.update(entropy)
        start = {"entropies": [0.5] * 4, "is_late": False}
        hold = held("repo_r")[1]
        resume(hold, [start, json.loads(json.dumps(old.state_dict()))])
        hold.on_rollout(0.31, 0.9)
        assert hold.shaper.strength == old.update(0.31, 0.9) > 0
        assert not hold.regulator.path.falls and caplog.text == ""
        explicit = held("repo_r", hold_entropy_final=0.2)[1]
        resume(explicit, [start, json.loads(json.dumps(old.state_dict()))])
        assert explicit.regulator.path.final == pytest.approx(0.1) and "0.1" in caplog.text

    @pytest.mark.parametrize(
        ("until", "rates", "release_start"),
        [
            (0.5, linear(100), None),
            (0.5, linear(103), None),
            (0.5, linear(400), None),
            (0.5, [1.0] * 100, 0.5),
            (0.5, [], 0.5),
            (0.4, [1.0] * 100, 0.4),
        ],
        ids=["equal", "longer", "much longer", "constant", "ends by tokens", "another setting"],
    )
    def test_a_resume_keeps_its_path_or_reports_another(self, until, rates, release_start, caplog):
        """The share of the learning follows the learning rates, so another schedule is another path."""
        hold = held("repo_r", hold_entropy_until=0.5)[1]
        hold.begin_training(linear(100))
        begin(hold, *[0.5] * 4)
        twin = held("repo_r", hold_entropy_until=until)[1]
        for _ in range(2):
            twin.begin_training(rates)
            resume(twin, state_of(hold))
            hold = twin
            assert caplog.text.count("will be held") == (release_start is not None)
        written = 0.2945
        assert twin.regulator.path.release_start == pytest.approx(release_start or written, abs=1e-3)

    @pytest.mark.parametrize("is_new", [True, False])
    @pytest.mark.parametrize("batch", [32, 64, 256, 1024], ids=lambda batch: f"{batch // 8} prompts")
    @pytest.mark.parametrize(
        "settings", [{}, {"hold_entropy_unit": "nats", "hold_entropy": 0.3}], ids=["share", "nats"]
    )
    def test_the_level_is_kept_with_another_number_of_prompts(self, batch, settings, is_new, caplog):
        """With fewer prompts the initial entropy would need more rollouts, and the level was forgotten."""
        hold = held("repo_r", **settings)[1]
        begin(hold, 0.5, 0.52, 0.48, 0.5, 0.25)
        other = held("repo_r", per_device_train_batch_size=batch, **settings)[1]
        start, state = state_of(hold)
        if not is_new:
            del start["rollouts"]  # as earlier checkpoints have it
        resume(other, [start, state])
        assert other.shaper.strength == hold.shaper.strength > 0
        for loop in (hold, other):
            begin(loop, 0.24)
        assert other.regulator.path == hold.regulator.path and "will be held" not in caplog.text
        assert other.shaper.strength > 0 and (batch < 256 or other.state_dict() == hold.state_dict())
        assert settings or other.start.value == hold.start.value == pytest.approx(0.5)


def test_a_target_out_of_reach_is_counted():
    """The alarm that reads the count is provoked by a run in `tests/trainer/test_alarms.py`."""
    shaper, hold = held("repo_r")
    begin(hold, *[0.5] * 4, *[0.001] * 60)
    assert shaper.strength == 1.0 and hold.metrics()["hold_entropy/out_of_reach"] > 50


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"hold_entropy_by": "opo"}, "hold_entropy_by='opo'"),
        ({"advantage_shaping": ["repo_r", "stare"], "stare_gate": "none"}, "hold_entropy"),
        ({"hold_entropy": -1.0}, r"hold_entropy must be in \(0, inf\)"),
        ({"hold_entropy_final": 0.9}, r"hold_entropy_final must be in \[0, 0.8\], got 0.9"),
        ({"hold_entropy_final": -0.1}, r"hold_entropy_final must be in \[0, inf\)"),
        ({"hold_entropy_decay_start": 1.1}, r"decay_start must be in \[0, 1\]"),
        ({"hold_entropy_until": -0.1}, r"hold_entropy_until must be in \[0, 1\]"),
        ({"hold_entropy_until": 0.5, "hold_entropy_decay_start": 0.5}, "hold_entropy_until=0.5.*decay_start=0.5"),
        ({"hold_entropy_final": 0.3, "hold_entropy_until": 1.0}, "hold_entropy_final=0.3.*hold_entropy_until=1.0"),
        ({"hold_entropy": 50.0}, r"hold_entropy must be in \(0, 2\], got 50.0"),
    ],
)
def test_a_hold_that_cannot_work_is_refused(settings, named):
    with pytest.raises(ValueError, match=named):
        of(**{"hold_entropy": 0.8, "advantage_shaping": "repo_r"} | settings)


@pytest.mark.parametrize("prompts", [1, 4, 8, 32])
def test_the_first_strength_follows_the_mean_of_the_rollouts_before_it(prompts):
    """With few prompts a rollout, one rollout's entropy is mostly noise."""
    rollouts = max(4, 32 // prompts)
    settings = {"per_device_train_batch_size": prompts, "num_generations": 2, "steps_per_generation": 2}
    hold = held("repo_r", **settings)[1]
    assert hold.args.groups_per_rollout == prompts
    entropies = [0.5] * (rollouts - 1) + [0.1]
    begin(hold, *entropies)
    counted = entropies[-max(1, 32 // prompts) :]
    mean = sum(counted) / len(counted)
    assert hold.regulator.deviation == pytest.approx(mean / hold.regulator.target - 1)


def test_a_final_target_keeps_its_value_only_in_its_unit():
    settings = {"hold_entropy_unit": "nats", "hold_entropy": 0.4, "hold_entropy_final": 0.2}
    hold = held("repo_r", **settings)[1]
    begin(hold, *[0.5] * 4)
    state = json.loads(json.dumps(hold.state_dict()))
    start = {"entropies": [0.5] * 4, "is_late": False}
    again = held("repo_r", hold_entropy=0.8, hold_entropy_final=0.2)[1]
    resume(again, [start, state])
    assert again.regulator.path == (pytest.approx(0.4), pytest.approx(0.1), RELEASE_AFTER)


def test_a_level_written_in_another_unit_goes_on_without_a_new_approach(caplog):
    hold = held("repo_r", hold_entropy=0.7)[1]
    begin(hold, *[1 / 3] * 4)
    for entropy in (0.2, 0.21):
        hold.on_rollout(entropy, 0.1)
    state = json.loads(json.dumps(hold.state_dict()))
    other = held("repo_r", hold_entropy=0.7 / 3, hold_entropy_unit="nats")[1]
    resume(other, [{"entropies": [1 / 3] * 4, "is_late": False}, state])
    hold.on_rollout(0.2, 0.1)
    other.on_rollout(0.2, 0.1)
    assert other.shaper.strength == hold.shaper.strength and caplog.text == ""
