"""What the log says of a step: with every method and without one, over all of its tokens, gathered once."""

import itertools

import pytest
import torch
from support.runs import OPEN_STARE, Spy, same_parameters
from trl import GRPOTrainer

from steer_trl import SteerGRPOTrainer
from steer_trl.monitoring import run_files
from steer_trl.monitoring.statistics import mean, ratio
from steer_trl.shaping import Shaper
from steer_trl.trainer.log import step_log, sums
from steer_trl.trainer.log.sums import StepSummary

SAMPLED = {"sampled_as_scored", "sampled_as_scored/error"}  # of the first rollout
QUADRANTS = {f"quadrants/{sign}_{kind}" for sign in ("positive", "negative") for kind in ("expected", "surprising")}
CHEAP = QUADRANTS | {f"entropy/{part}_quarter" for part in ("first", "second", "third", "last")}
CHEAP |= {"entropy/positive", "entropy/negative", "entropy/estimated_change", "sanity/out_of_bounds"}
PASS = {"rollout_pass@1", "rollout_pass@2", "rollout_pass@4"}
CHEAP |= PASS | {"generated_tokens", "sanity/not_finite"}
EXACT = {"entropy/predicted_change", *(f"{key}_change" for key in QUADRANTS)}


def keys(trainer, line):
    return {key for key, value in trainer.state.log_history[line].items() if value is not None}


def test_plain_grpo_shows_its_entropy_too(train):
    trainer = train(SteerGRPOTrainer, advantage_shaping="none", max_steps=3, log_tokens=3)
    theirs = train(GRPOTrainer, max_steps=3)
    found = [keys(trainer, line) - keys(theirs, line) for line in range(3)]
    assert found == [CHEAP | EXACT | SAMPLED, CHEAP, CHEAP | EXACT]  # where the token log reads it
    first = trainer.state.log_history[0]
    assert sum(first[key] for key in QUADRANTS) == pytest.approx(1)
    contributions = [first[f"{key}_change"] for key in QUADRANTS]
    assert sum(contributions) == pytest.approx(first["entropy/predicted_change"], abs=1e-7) and 0 not in contributions


def test_the_prediction_reads_the_losses_inputs(train):
    """A method that turns the advantages off predicts no change, one that doubles them twice of it."""
    settings = {"max_steps": 1, "log_tokens": 1, "learning_rate": 1e-9}
    predicted = []
    for name in ("none", "test_step_log.Twice", "test_step_log.Off"):
        trainer = train(SteerGRPOTrainer, **settings, advantage_shaping=name)
        predicted.append(trainer.state.log_history[0]["entropy/predicted_change"])
    assert predicted == [predicted[0], pytest.approx(2 * predicted[0]), 0] and predicted[0] != 0


class Twice(Shaper):
    weight = 2.0

    def weights(self, batch, measure):
        return torch.full_like(batch.logps, self.weight)


class Off(Twice):
    weight = 0.0


def test_models_without_a_head_pass_train(train, monkeypatch, caplog):
    """A diagnostic ends no training; a method that reads the sensitivities cannot do without."""

    attempts = itertools.count()

    def cannot(*_, **__):
        raise AttributeError(f"no such head {next(attempts)}")

    monkeypatch.setattr("steer_trl.trainer.forward.head_pass.HeadOnly.forward", cannot)
    monkeypatch.setattr("steer_trl.trainer.forward.head_pass.add_fused_lm_head", lambda *_, **__: None)
    trainer = train(SteerGRPOTrainer, advantage_shaping="none", max_steps=3, log_tokens=1)
    lines = run_files.lines(run_files.token_path(trainer.args.output_dir, 1))
    assert {line["entropy_change_source"] for line in lines} == {"estimate"}
    assert keys(trainer, 1) >= CHEAP and not EXACT & keys(trainer, 1)
    assert caplog.text.count("no such head") == 1  # once, not at every step, although its text differs
    with pytest.raises(AttributeError, match="no such head"):
        train(SteerGRPOTrainer, steer_form="exact", max_steps=1)


def test_one_switch_turns_all_diagnostics_off(train):
    found = keys(train(SteerGRPOTrainer, advantage_shaping="none", max_steps=1, diagnostics=False), 0)
    assert found - keys(train(GRPOTrainer, max_steps=1), 0) == {
        "generated_tokens",
        *PASS,
        *SAMPLED,
    }  # no diagnostics
    with_method = keys(train(SteerGRPOTrainer, **OPEN_STARE, max_steps=1, diagnostics=False), 0)
    assert not [key for key in with_method if key.startswith(("quadrants/", "entropy/", "weights/", "clip/"))]
    assert "shaping/weight_mean" in with_method


def test_numbers_are_over_all_tokens_of_the_step(train):
    """Against the tokens of every micro-batch put together; each micro-batch's own mean would be another number."""
    trainer = train(Spy, max_steps=1, gradient_accumulation_steps=4, **OPEN_STARE)
    tokens = []
    for raw, shaped, logps, _, entropies, inputs in trainer.seen:
        mask = inputs["completion_mask"].bool()
        tokens.append([x.expand_as(logps)[mask].double() for x in (raw.unsqueeze(1), shaped, logps, entropies)])
    raw, shaped, logps, entropies = map(torch.cat, zip(*tokens, strict=True))
    weights = torch.where(raw == 0, 1.0, shaped / raw)
    surprising = -logps > entropies
    expected = {
        "quadrants/positive_surprising": ((raw > 0) & surprising).double().mean(),
        "quadrants/negative_expected": ((raw < 0) & ~surprising).double().mean(),
        "entropy/positive": entropies[raw > 0].mean(),
        "entropy/negative": entropies[raw < 0].mean(),
        "weights/1": (weights.sub(1).abs() < 1e-3).double().mean(),
        "weights/effective_share": weights.sum() ** 2 / (len(weights) * weights.square().sum()),
        "shaping/relative_change": (shaped - raw).abs().sum() / raw.abs().sum(),
        "shaping/weight_mean": weights.mean(),
        "shaping/weight_min": weights.min(),
        "shaping/weight_max": weights.max(),
        "shaping/share_changed": (weights > 1.05).double().mean(),
    }
    logged = trainer.state.log_history[0]
    for key, value in expected.items():
        assert logged[key] == pytest.approx(value.item(), rel=1e-5), key
    assert 0 < logged["weights/1"] < 1 and 0 < logged["shaping/relative_change"] < 0.1


def test_clipped_tokens_add_up_to_what_trl_counts(train):
    settings = {"num_iterations": 2, "epsilon": 0.01, "learning_rate": 5e-2, "max_steps": 2}
    trainer = train(SteerGRPOTrainer, advantage_shaping="none", **settings)
    logged = trainer.state.log_history[1]
    for side, theirs in (("lower", "clip_ratio/low_mean"), ("upper", "clip_ratio/high_mean")):
        ours = sum(logged[f"clip/{side}_{kind}"] for kind in ("likely", "unlikely"))
        assert logged[theirs] > 0.05
        # TRL averages over micro-batches, whose numbers of tokens differ
        assert ours == pytest.approx(logged[theirs], rel=0.2)


def test_one_gather_a_step_whatever_is_measured(make_trainer, monkeypatch):
    trainer = make_trainer(SteerGRPOTrainer, **OPEN_STARE | {"advantage_shaping": ["steer", "stare"]}, max_steps=2)
    pops, gathered, gather = [], [], trainer.accelerator.gather

    class Counting(StepSummary):
        def pop(self, accelerator):
            pops.append(1)
            accelerator.gather = lambda tensor: gathered.append(tensor.numel()) or gather(tensor)
            found = super().pop(accelerator)
            accelerator.gather = gather
            return found

    monkeypatch.setattr(step_log, "StepSummary", Counting)
    trainer.train()
    assert len(pops) == len(gathered) == 2 and max(gathered) < 150


class Marking(Twice):
    def marks(self, batch, measure):
        return {"mine/every_second": torch.arange(batch.logps.size(1)).expand_as(batch.logps) % 2 == 1}


def test_a_custom_methods_marks_are_logged(train):
    trainer = train(SteerGRPOTrainer, max_steps=2, advantage_shaping="test_step_log.Marking")
    assert all(0.2 < entry["mine/every_second"] < 0.55 for entry in trainer.state.log_history[:2])


@pytest.mark.parametrize("name", ["token_statistics", "shaping_statistics", "sanity_statistics", "extremes"])
def test_a_statistic_that_fails_ends_no_training(train, monkeypatch, caplog, name):
    whole = train(SteerGRPOTrainer, max_steps=2)

    def cannot(*_):
        raise torch.OutOfMemoryError("too many tokens")

    cannot.__name__ = name
    monkeypatch.setattr(sums if name == "extremes" else step_log, name, cannot)
    trainer = train(SteerGRPOTrainer, max_steps=2)
    lost = keys(whole, 0) - keys(trainer, 0)
    families = {"token": {"quadrants", "entropy"}, "shaping": {"shaping"}, "sanity": {"sanity"}}
    assert {key.split("/")[0] for key in lost} == families.get(name.split("_")[0], {"shaping"})
    assert not keys(trainer, 0) - keys(whole, 0) and same_parameters(trainer, whole)
    assert caplog.text.count("too many tokens") == 1


def test_registry_and_summed_statistics_agree():
    summary, number = StepSummary(), torch.zeros(1, 1)
    with pytest.raises(KeyError, match="unheard_of"):
        summary.add({"unheard_of": mean(number, number == 0)})
    with pytest.raises(KeyError, match="entropy/positive has a"):
        summary.add({"entropy/positive": ratio(number, number, number == 0)})
