"""A subclass of our trainer trains what the same subclass of TRL's would, and methods read what it makes of each hook.

`STEER_TRL_DRAWS` sets how many random settings each mixin is trained with.
"""

import gc
import os
import random
import weakref

import pytest
import torch
from support.methods.cases import CASES
from support.runs import OPEN_STARE, of_method
from support.subclasses import (
    CHANGING,
    NEUTRAL,
    InHalves,
    OwnAdvantages,
    OwnLoader,
    below,
    differ,
    make,
    pass_over,
    update_of,
)
from trl import GRPOTrainer

from steer_trl import SteerGRPOTrainer
from steer_trl.monitoring import run_files
from steer_trl.support.exceptions import CannotContinueError, InvalidValueError

DRAWS = int(os.environ.get("STEER_TRL_DRAWS", "1"))
OFF = [{"advantage_shaping": "none"}, {"advantage_shaping": "f_grpo", **of_method("f_grpo", gamma=0.0)}]
RESAMPLE = {"dynamic_sampling": "resample"}
ACTIVE = {
    "steer": {"steer_lambda_min": 0.3},
    "held": {"advantage_shaping": "stare", "hold_entropy": 4.0, "hold_entropy_unit": "nats"},
    "rollouts": {"advantage_shaping": ["gtpo"], "num_iterations": 2},
    "resampled": OPEN_STARE | RESAMPLE,
}


def settings_of(seed):
    """Settings of TRL, drawn at random; the first draw is the default."""
    draw = random.Random(seed)
    if not seed:
        return {}
    return {
        "loss_type": draw.choice(["grpo", "dapo", "dr_grpo", "bnpo", "cispo", "sapo"]),
        "epsilon_high": 5.0,
        "importance_sampling_level": draw.choice(["token", "sequence"]),
        "gradient_accumulation_steps": draw.choice([1, 2, 4]),
        "steps_per_generation": draw.choice([2, 4]),
        "num_iterations": draw.choice([1, 2]),
        "scale_rewards": draw.choice(["group", "batch", "none"]),
        "mask_truncated_completions": draw.random() < 0.3,
    }


def has_one(completions, **_):
    return [float(text.count("1") > 0) for text in completions]


@pytest.mark.parametrize("seed", range(DRAWS))
@pytest.mark.parametrize("name", [*CHANGING, *NEUTRAL])
def test_without_a_method_a_subclass_is_the_subclass_of_trls_trainer(tmp_path, name, seed):
    mixin = (CHANGING | NEUTRAL)[name]
    trls = update_of(make(tmp_path, GRPOTrainer, mixin, **settings_of(seed)))
    for off in OFF:
        for classes in ({"mixins": [mixin]}, {"under": [below(mixin)]}):
            ours = make(tmp_path, SteerGRPOTrainer, **classes, **settings_of(seed), **off)
            assert torch.equal(trls, update_of(ours)), (off, classes)


@pytest.mark.parametrize("active", ACTIVE)
def test_a_neutral_subclass_leaves_the_update_of_a_method(tmp_path, active):
    settings = ACTIVE[active] | {"reward": has_one}
    plain = make(tmp_path, SteerGRPOTrainer, **settings)
    expected = update_of(plain)
    assert not torch.equal(expected, update_of(make(tmp_path, GRPOTrainer, reward=has_one)))
    above = [(mixin, {"mixins": [mixin]}) for mixin in NEUTRAL.values()]
    for mixin, classes in [*above, *((mixin, {"under": [below(mixin)]}) for mixin in NEUTRAL.values())]:
        name = (mixin.__name__, *classes)
        trainer = make(tmp_path, SteerGRPOTrainer, **classes, **settings)
        assert torch.equal(expected, update_of(trainer)), name
        for key in ("rollout_entropy", "shaping/weight_mean", "rollout_advantage_change", "dynamic_sampling/accuracy"):
            logged = [[entry.get(key) for entry in one.state.log_history] for one in (plain, trainer)]
            assert logged[0] == logged[1], (name, key)


@pytest.mark.parametrize("settings", [{"advantage_shaping": "opo"}, {"advantage_shaping": "w_reinforce"}, RESAMPLE])
def test_methods_and_sampling_read_the_rewards_of_a_subclass(tmp_path, settings):
    def has_none(**given):
        return [1 - reward for reward in has_one(**given)]

    expected = make(tmp_path, SteerGRPOTrainer, reward=has_none, **settings)
    inverted = update_of(expected)
    overridden = make(tmp_path, SteerGRPOTrainer, CHANGING["OtherRewards"], reward=has_one, **settings)
    assert torch.equal(update_of(overridden), inverted)
    assert overridden.state.log_history[0]["reward"] == expected.state.log_history[0]["reward"]


def test_sampling_judges_the_completions_that_a_subclass_makes(tmp_path):
    """A reward that only long completions earn, and completions that a subclass cuts."""

    def long(completion_ids, **_):
        return [float(len(ids) > 6) + 0.5 * (ids[0] % 2) for ids in completion_ids]

    trainer = make(tmp_path, SteerGRPOTrainer, CHANGING["CutCompletions"], reward=long, **RESAMPLE)
    trainer.train()
    assert max(len(row) for one in trainer._buffered_inputs for row in one["completion_ids"]) == 3
    log = [entry for entry in trainer.state.log_history if "reward" in entry]
    assert log and all(entry["reward"] <= 0.5 for entry in log)
    assert log[-1]["generated_tokens"] % 3 == 0


def test_sampling_reads_prompts_in_the_order_of_a_subclass(tmp_path):
    """Every group is informative, so the first rollouts are those without resampling."""

    def alternating(completions, **_):
        return [float(i % 2) for i in range(len(completions))]

    def prompts_of(**settings):
        seen = []

        class Notes:
            def _generate_and_score_completions(self, inputs):
                rollout = super()._generate_and_score_completions(inputs)
                seen.append(rollout["prompt_ids"].tolist())
                return rollout

        make(tmp_path, SteerGRPOTrainer, Notes, CHANGING["OwnSampler"], reward=alternating, **settings).train()
        return seen

    assert prompts_of() == prompts_of(**RESAMPLE)


def test_sampling_needs_the_sampler_of_the_data_loader(tmp_path):
    with pytest.raises(InvalidValueError, match=r"dynamic_sampling='resample'.*OwnLoader\.get_train_dataloader"):
        make(tmp_path, SteerGRPOTrainer, OwnLoader, **RESAMPLE).train()


def test_rows_that_a_subclass_edits_are_reported_under_resampling(tmp_path, caplog):
    class OtherPrompts:
        def _generate_and_score_completions(self, inputs):
            return super()._generate_and_score_completions([row | {"prompt": "1+1="} for row in inputs])

    make(tmp_path, SteerGRPOTrainer, OtherPrompts, reward=has_one, **RESAMPLE).train()
    assert caplog.text.count("OtherPrompts._generate_and_score_completions changes them") == 1
    caplog.clear()
    make(tmp_path, SteerGRPOTrainer, reward=has_one, **RESAMPLE).train()
    assert "changes them" not in caplog.text


def test_the_entropy_that_holds_is_the_subclasss(tmp_path):
    for per_rollout in (1, 2):
        settings = ACTIVE["held"] | {"num_iterations": per_rollout, "max_steps": 1}
        trainer = make(tmp_path, SteerGRPOTrainer, CHANGING["OwnPass"], **settings)
        trainer.train()
        log = trainer.state.log_history[0]
        assert log["rollout_entropy"] == pytest.approx(log["entropy"], abs=0.02) and log["entropy"] > 3


class TestAdvantages:
    def test_advantages_of_a_subclass_reach_methods_on_rollouts(self, tmp_path):
        """f_grpo multiplies them; it has one factor for a group."""
        scaled = update_of(make(tmp_path, SteerGRPOTrainer, OwnAdvantages, reward=has_one, advantage_shaping="f_grpo"))
        plain = update_of(make(tmp_path, SteerGRPOTrainer, OwnAdvantages, reward=has_one, advantage_shaping="none"))
        of_trl = update_of(make(tmp_path, SteerGRPOTrainer, reward=has_one, advantage_shaping="f_grpo"))
        assert differ(scaled, plain) > 1e-3 and differ(scaled, of_trl) > 1e-3

    def test_replaced_advantages_are_reported_once(self, tmp_path, caplog):
        for mixin, count in ((OwnAdvantages, 1), (NEUTRAL["Idle"], 0)):
            for classes in ({"mixins": [mixin]}, {"under": [below(mixin)]}):
                caplog.clear()
                make(tmp_path, SteerGRPOTrainer, **classes, reward=has_one, advantage_shaping="opo").train()
                assert caplog.text.count("opo replaces the advantages that ") == count

    @pytest.mark.parametrize("hook", ["_prepare_inputs", "compute_loss"])
    def test_changes_of_advantages_after_a_method_are_reported_once(self, tmp_path, caplog, hook):
        def changed(self, *args, **kwargs):
            *first, inputs = args
            own = super(type(self), self)
            if hook == "_prepare_inputs":
                inputs = own._prepare_inputs(inputs)
                return inputs | {"advantages": torch.ones(len(inputs["completion_ids"]))}
            return own.compute_loss(
                *first, inputs | {"advantages": torch.ones(len(inputs["completion_ids"]))}, **kwargs
            )

        class Changes(SteerGRPOTrainer):
            pass

        setattr(Changes, hook, changed)
        trainer = make(tmp_path, Changes, reward=has_one, advantage_shaping="opo")
        trainer.__class__ = Changes
        trainer.train()
        assert caplog.text.count(f"Changes.{hook} changes them") == 1

    def test_advantages_may_have_a_value_for_each_token(self, tmp_path):
        class PerToken:
            def _generate_and_score_completions(self, inputs):
                rollout = super()._generate_and_score_completions(inputs)
                shape = rollout["completion_ids"].shape
                rollout["advantages"] = rollout["advantages"].unsqueeze(1).expand(shape).contiguous()
                return rollout

        for settings in ({"advantage_shaping": "f_grpo"}, {"advantage_shaping": ["gtpo", "steer"]}):
            flat, per_token = (
                update_of(make(tmp_path, SteerGRPOTrainer, *mixins, reward=has_one, **settings))
                for mixins in ((), (PerToken,))
            )
            assert differ(per_token, flat) < 1e-5


class TestRefusals:
    """What a subclass does so that a method could not act ends the first step, and the error names the class."""

    class ThrowsAway:
        def compute_loss(self, model, inputs, *args, **kwargs):
            super().compute_loss(model, inputs, *args, **kwargs)
            return next(iter(model.parameters())).sum() * 0

    class Replaces:
        def compute_loss(self, model, inputs, *args, **kwargs):
            return -pass_over(self, model, inputs)[0].mean()

    class ReadsEarly:
        def _compute_loss(self, model, inputs):
            advantages = inputs["advantages"].view(-1, 1)
            return -(advantages * pass_over(self, model, inputs)[0]).mean()

    class NoEntropies:
        def _get_per_token_logps_and_entropies(self, *args, **kwargs):
            logps, _, other = super()._get_per_token_logps_and_entropies(*args, **kwargs)
            return logps, None, other

        def _compute_loss(self, model, inputs):
            return -(pass_over(self, model, inputs)[0] * inputs["advantages"].view(-1, 1)).mean()

    @pytest.mark.parametrize("method", ["steer", "repo_r"])
    @pytest.mark.parametrize("mixin", [ThrowsAway, Replaces, ReadsEarly, NoEntropies], ids=lambda one: one.__name__)
    def test_a_loss_without_the_weights_is_refused(self, tmp_path, mixin, method):
        trainer = make(tmp_path, SteerGRPOTrainer, mixin, advantage_shaping=method)
        with pytest.raises(CannotContinueError, match=rf"{mixin.__name__}\..*compute_entropy") as refused:
            trainer.train()
        assert "pip install" not in str(refused.value)
        assert trainer.state.global_step <= 1

    def test_an_entropy_bonus_that_a_loss_leaves_out_is_refused(self, tmp_path):
        trainer = make(tmp_path, SteerGRPOTrainer, CHANGING["OwnLoss"], advantage_shaping="entropy_bonus")
        with pytest.raises(CannotContinueError, match="entropy_bonus"):
            trainer.train()

    class OwnRollout:
        def _generate_and_score_completions(self, inputs):
            return GRPOTrainer._generate_and_score_completions(self, inputs)

    class OwnInputs:
        def _prepare_inputs(self, inputs):
            return GRPOTrainer._prepare_inputs(self, inputs)

    @pytest.mark.parametrize(
        ("mixin", "settings"),
        [
            (OwnRollout, RESAMPLE),
            (OwnRollout, {"max_generated_tokens": 10_000}),
            (OwnRollout, {"advantage_shaping": "opo"}),
            (OwnRollout, {"advantage_shaping": "nsr"}),
            (OwnInputs, {"advantage_shaping": "opo"}),
            (OwnInputs, ACTIVE["held"]),
        ],
        ids=str,
    )
    def test_a_rollout_made_past_the_methods_is_refused(self, tmp_path, mixin, settings):
        with pytest.raises(CannotContinueError, match=rf"{mixin.__name__}\._\w+ bypasses"):
            make(tmp_path, SteerGRPOTrainer, mixin, **settings).train()

    def test_an_own_rollout_is_accepted_if_only_the_loss_acts(self, tmp_path):
        plain = update_of(make(tmp_path, SteerGRPOTrainer, **ACTIVE["steer"]))
        for mixin in (self.OwnRollout, self.OwnInputs):
            assert torch.equal(plain, update_of(make(tmp_path, SteerGRPOTrainer, mixin, **ACTIVE["steer"])))


def test_a_loss_that_calls_trls_may_leave_out_ours(tmp_path):
    """TRL's `compute_loss` calls `_compute_loss`, in which methods act."""

    class Bypasses:
        def compute_loss(self, model, inputs, *args, **kwargs):
            return self._compute_loss(model, inputs)

    plain = update_of(make(tmp_path, SteerGRPOTrainer, **ACTIVE["steer"]))
    assert torch.equal(plain, update_of(make(tmp_path, SteerGRPOTrainer, Bypasses, **ACTIVE["steer"])))


@pytest.mark.parametrize("method", ["steer", "entropy_change", "clip_cov"])
@pytest.mark.parametrize("is_below", [False, True])
def test_a_loss_may_compute_trls_for_parts_of_a_micro_batch(tmp_path, method, is_below):
    """Statistics of the step and its log have all tokens, once."""
    settings = {"advantage_shaping": method, "loss_type": "dapo", "log_tokens": 1} | CASES[method].lively
    runs = []
    for number, classes in enumerate(({}, {"under": [below(InHalves)]} if is_below else {"mixins": [InHalves]})):
        trainer = make(tmp_path / str(number), SteerGRPOTrainer, **classes, **settings)
        update = update_of(trainer)
        files = sorted((tmp_path / str(number) / run_files.LOGS / run_files.TOKENS).iterdir())
        lines = [line for file in files for line in file.read_text().splitlines()]
        numbers = [{key: entry[key] for key in entry if "shaping/" in key} for entry in trainer.state.log_history]
        runs.append((update, len(lines), numbers))
    (whole, lines, numbers), (halves, lines_of_halves, numbers_of_halves) = runs
    assert differ(halves, whole) < 1e-4
    assert lines_of_halves == lines > 0
    assert numbers_of_halves == [pytest.approx(of_step, rel=1e-4, abs=1e-6) for of_step in numbers]


def test_a_class_below_gets_the_pass_that_trl_asks_for(tmp_path):
    """Padding is skipped below it: it sees a micro-batch of 8 rows, or a rollout of 16, and the model itself."""
    shapes = []

    class Watches:
        def _get_per_token_logps_and_entropies(self, model, input_ids, *args, **kwargs):
            shapes.append((model is self.model, len(input_ids)))
            return super()._get_per_token_logps_and_entropies(model, input_ids, *args, **kwargs)

    trainer = make(tmp_path, SteerGRPOTrainer, under=[below(Watches)], skip_padding=True, steer_form="exact")
    trainer.train()
    assert trainer.parts.padding.is_packed and set(shapes) == {(True, 8), (True, 16)}


class TestArguments:
    class Patient:
        """A trainer with an argument of its own."""

        def __init__(self, *args, patience=1, **kwargs):
            super().__init__(*args, **kwargs)
            self.patience = patience

    @pytest.mark.parametrize("classes", [{"mixins": [Patient]}, {"under": [below(Patient)]}], ids=str)
    def test_those_of_any_class_are_taken(self, tmp_path, classes):
        trainer = make(tmp_path, SteerGRPOTrainer, **classes, arguments={"patience": 3})
        assert trainer.patience == 3
        with pytest.raises(TypeError, match="'patienc'"):
            make(tmp_path, SteerGRPOTrainer, **classes, arguments={"patienc": 3})

    def test_others_are_refused(self, tmp_path):
        with pytest.raises(TypeError, match="'patience'"):
            make(tmp_path, SteerGRPOTrainer, arguments={"patience": 3})


def test_a_loss_of_ones_own_gets_the_shaped_advantages(tmp_path):
    """Without super, without asking for entropies, and after looks at other tokens, of another length and of this."""

    class LooksFirst(CHANGING["OwnLoss"]):
        def _compute_loss(self, model, inputs):
            pass_over(self, model, inputs | {"completion_mask": inputs["completion_mask"][:, :2]}, self.short(inputs))
            pass_over(self, model, inputs, inputs["completion_ids"].flip(1))
            seen.append(inputs["advantages"].dim())
            loss = super()._compute_loss(model, inputs)
            seen.append(inputs["advantages"].dim())
            return loss

        def short(self, inputs):
            return inputs["completion_ids"][:, :2]

    seen = []
    after_a_look, below_it = (
        update_of(make(tmp_path, SteerGRPOTrainer, **classes, **ACTIVE["steer"]))
        for classes in ({"mixins": [LooksFirst]}, {"under": [below(LooksFirst)]})
    )
    expected = update_of(make(tmp_path, SteerGRPOTrainer, CHANGING["OwnLoss"], **ACTIVE["steer"]))
    plain = update_of(make(tmp_path, SteerGRPOTrainer, CHANGING["OwnLoss"], advantage_shaping="none"))
    assert torch.equal(after_a_look, expected) and torch.equal(below_it, expected) and differ(expected, plain) > 1e-3
    assert set(seen[::2]) == {1} and set(seen[1::2]) == {2}


def test_no_graph_outlives_its_micro_batch(tmp_path):
    """With one more pass before super's loss, as any auxiliary loss has."""

    class Counts:
        kept, alive = (), ()

        def compute_loss(self, model, inputs, *args, **kwargs):
            logps, *_ = pass_over(self, model, inputs)
            self.kept = (*self.kept, weakref.ref(logps))
            return super().compute_loss(model, inputs, *args, **kwargs) - 1e-6 * logps.mean()

        def training_step(self, *args, **kwargs):
            loss = super().training_step(*args, **kwargs)
            gc.collect()
            self.alive = (*self.alive, sum(one() is not None for one in self.kept))
            return loss

    def most_alive(base, **settings):
        trainer = make(tmp_path, base, Counts, gradient_accumulation_steps=4, max_steps=1, **settings)
        trainer.train()
        return max(trainer.alive)

    trls = most_alive(GRPOTrainer)
    assert [most_alive(SteerGRPOTrainer, advantage_shaping=name) for name in ("none", "steer", "f_grpo")] == [trls] * 3
