"""A rollout: the gate that reads its entropy, once, and what an evaluation leaves alone."""

import pytest
import torch
from support.runs import OPEN_STARE, Spy, Watching, of_method

from steer_trl import SteerGRPOTrainer

TWO_ROLLOUTS = {"gradient_accumulation_steps": 4, "steps_per_generation": 2, "shaping_scope": "micro_batch"}
"""Two rollouts in one optimizer step, each of two micro-batches."""


class TestGate:
    def test_reads_the_batch_mean_entropy_of_the_rollout(self, train):
        """One number per rollout, before any update with it: the token mean, not the mean of micro-batch means."""
        trainer = train(Spy, max_steps=1, **OPEN_STARE)
        entropies = torch.cat([seen[4].flatten() for seen in trainer.seen])
        mask = torch.cat([seen[5]["completion_mask"].flatten() for seen in trainer.seen]).bool()
        expected = entropies[mask].double().mean().item()
        assert trainer.state.log_history[0]["rollout_entropy"] == pytest.approx(expected, rel=1e-5)

    @pytest.mark.parametrize("scope", ["step", "micro_batch"])
    def test_an_unscored_rollout_costs_one_pass(self, train, scope):
        settings = OPEN_STARE | {"shaping_scope": scope}
        trainer = train(Watching, **settings, max_steps=3)
        assert trainer.scored == 3 * 8
        for entry in trainer.state.log_history[:3]:
            assert entry["rollout_entropy"] == pytest.approx(entry["entropy"], rel=0.05)
        assert train(Watching, **settings, max_steps=2, num_iterations=2).scored == 0  # TRL scores it

    @pytest.mark.parametrize(
        ("sizes", "expected", "logged"),
        [
            ({"steps_per_generation": 4, "max_steps": 8}, [1.15, 1.15, 1.2, 1.2, 1.25, 1.25, 1.3, 1.3], 4),
            (TWO_ROLLOUTS | {"max_steps": 2}, [1.2, 1.3], 2),
        ],
        ids=["two steps a rollout", "two rollouts a step"],
    )
    def test_stares_factor_moves_once_per_rollout(self, train, sizes, expected, logged):
        trainer = train(SteerGRPOTrainer, **OPEN_STARE, **sizes, stare_adaptive=True, **of_method("stare", step=0.05))
        amplify = [entry["stare/amplify"] for entry in trainer.state.log_history if "stare/amplify" in entry]
        assert amplify == pytest.approx(expected)
        assert len([entry for entry in trainer.state.log_history if "rollout_entropy" in entry]) == logged


def test_evaluation_changes_no_state(train, prompts):
    settings = OPEN_STARE | {"advantage_shaping": ["steer", "stare"], "stare_adaptive": True}
    settings |= {"eval_strategy": "steps", "eval_steps": 1}
    data = {"eval_dataset": prompts.select(range(3))}
    evaluating = train(SteerGRPOTrainer, **settings, trainer_arguments=data)
    evaluations = [entry for entry in evaluating.state.log_history if "eval_loss" in entry]
    assert len(evaluations) == 4
    assert all(entry["eval_shaping/weight_mean"] > 0 and "eval_stare/gate" in entry for entry in evaluations)
    amplify = [entry["stare/amplify"] for entry in evaluating.state.log_history if "stare/amplify" in entry]
    assert amplify == pytest.approx([1.11, 1.12, 1.13, 1.14])
