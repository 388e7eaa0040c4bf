"""A rollout: the gate that reads its entropy, once, and what an evaluation leaves alone."""

import pytest
import torch
from support.runs import OPEN_STARE, Spy, Watching

from steer_trl import SteerGRPOTrainer


class TestGate:
    def test_reads_the_batch_mean_entropy_of_the_rollout(self, train):
        """One number per rollout, before any update with it: the token mean, not the mean of micro-batch means."""
        trainer = train(Spy, max_steps=1, **OPEN_STARE)
        entropies = torch.cat([seen[4].flatten() for seen in trainer.seen])
        mask = torch.cat([seen[5]["completion_mask"].flatten() for seen in trainer.seen]).bool()
        expected = entropies[mask].double().mean().item()
        assert trainer.state.log_history[0]["rollout_entropy"] == pytest.approx(expected, rel=1e-5)

    @pytest.mark.parametrize("scope", ["step", "micro_batch"])
    def test_costs_one_pass_over_a_rollout_that_trl_does_not_score(self, train, scope):
        settings = OPEN_STARE | {"shaping_scope": scope}
        trainer = train(Watching, **settings, max_steps=3)
        assert trainer.scored == 3 * 8
        entries = trainer.state.log_history[:3]
        assert [entry["rollout_entropy"] for entry in entries] == pytest.approx(
            [e["entropy"] for e in entries], rel=0.05
        )
        assert train(Watching, **settings, max_steps=2, num_iterations=2).scored == 0  # TRL scores it

    def test_is_constant_over_a_rollout_and_moves_with_the_next(self, train):
        settings = {"steps_per_generation": 4, "max_steps": 8, "stare_adaptive": True, "stare_step": 0.05}
        trainer = train(SteerGRPOTrainer, **OPEN_STARE, **settings)
        amplify = [entry["stare/amplify"] for entry in trainer.state.log_history if "stare/amplify" in entry]
        assert amplify == pytest.approx([1.15, 1.15, 1.2, 1.2, 1.25, 1.25, 1.3, 1.3])
        rollouts = [entry for entry in trainer.state.log_history if "rollout_entropy" in entry]
        assert len(rollouts) == 4

    def test_relative_target_is_fixed_by_the_first_rollout(self, train):
        trainer = train(
            SteerGRPOTrainer, advantage_shaping="stare", stare_target_entropy=0.75, stare_target_entropy_unit="initial"
        )
        first = trainer.state.log_history[0]
        targets = {entry["stare/target_entropy"] for entry in trainer.state.log_history if "stare/gate" in entry}
        assert targets == {0.75 * first["rollout_entropy"]}
        assert first["stare/gate"] == 0  # nothing is below three quarters of itself


def test_evaluation_changes_no_state_and_has_its_own_metrics(train, prompts):
    settings = {"stare_adaptive": True, "save_strategy": "no"} | OPEN_STARE
    evaluating = train(
        SteerGRPOTrainer,
        **settings | {"advantage_shaping": ["steer", "stare"]},
        eval_strategy="steps",
        eval_steps=1,
        trainer_arguments={"eval_dataset": prompts.select(range(3))},
    )
    evaluations = [entry for entry in evaluating.state.log_history if "eval_loss" in entry]
    assert len(evaluations) == 4
    assert all(entry["eval_shaping/weight_mean"] > 0 and "eval_stare/gate" in entry for entry in evaluations)
    amplify = [entry["stare/amplify"] for entry in evaluating.state.log_history if "stare/amplify" in entry]
    assert amplify == pytest.approx([1.11, 1.12, 1.13, 1.14])


class TestSeveralRollouts:
    """Two rollouts in one optimizer step, each of two micro-batches."""

    SIZES = {"gradient_accumulation_steps": 4, "steps_per_generation": 2, "shaping_scope": "micro_batch"}

    def test_the_gate_sees_each_once(self, train):
        stare = OPEN_STARE | {"stare_adaptive": True, "max_steps": 2}
        trainer = train(SteerGRPOTrainer, **stare, **self.SIZES)
        amplify = [entry["stare/amplify"] for entry in trainer.state.log_history if "stare/amplify" in entry]
        assert amplify == pytest.approx([1.12, 1.14])
        logged = trainer.state.log_history[0]
        assert logged["rollout_entropy"] == pytest.approx(logged["entropy"], rel=0.05)

    def test_each_has_draws_of_its_own(self, train):
        class Drawing(SteerGRPOTrainer):
            def __init__(self, *args, **kwargs):
                super().__init__(*args, **kwargs)
                (quadrant,) = self.shaping.shapers.values()
                weights, self.drawn = quadrant.weights, []
                quadrant.weights = lambda batch, measure: self.drawn.append(batch.draws) or weights(batch, measure)

        quadrant = {"advantage_shaping": "quadrant.Quadrant", "max_steps": 1}
        rows = torch.cat([draws[:, 0] for draws in train(Drawing, **quadrant, **self.SIZES).drawn])
        assert len(rows) == 16 and len(set(rows.tolist())) == 16
