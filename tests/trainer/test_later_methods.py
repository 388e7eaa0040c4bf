"""Differential Smoothing, Entrocraft and the JS divergence in the real trainer, with every loss of TRL.

The oracle is TRL's trainer. It scores the completions with a forward pass of its own, and computes the advantages in
plain loops over Python's numbers.
"""

import math

import pytest
import torch
from support.runs import of_method
from trl import GRPOTrainer

from steer_trl import SteerGRPOTrainer

LOSSES = ("grpo", "bnpo", "dr_grpo", "dapo", "luspo", "cispo", "sapo", "vespo")
METHODS = {
    "differential_smoothing": {
        "correct_threshold": 0.5,
        **of_method("differential_smoothing", gamma=0.1, gamma_incorrect=0.05),
    },
    "entrocraft_below": of_method("entrocraft", lower=9.0, lower_end=8.0),
    "entrocraft_above": of_method("entrocraft", lower=0.0, lower_end=0.0),
    "js_to_start": {"beta": 0.5},
}
# One rollout and two steps on it; SGD does not magnify rounding.
SIZES = {"steps_per_generation": 4, "gradient_accumulation_steps": 2, "max_steps": 2}
SIZES |= {"optim": "sgd", "learning_rate": 1.0}


def score(trainer, inputs):
    """The log-probability and the entropy of each token, as lists of rows, and the mask of the loss."""
    ids = torch.cat([inputs["prompt_ids"], inputs["completion_ids"]], dim=1)
    attention = torch.cat([inputs["prompt_mask"], inputs["completion_mask"]], dim=1)
    with torch.no_grad():
        logps, entropies, _ = trainer._get_per_token_logps_and_entropies(
            trainer.model, ids, attention, inputs["completion_ids"].size(1), compute_entropy=True
        )
    return logps.tolist(), entropies.tolist(), inputs["completion_mask"].tolist()


def counted(values, mask):
    return [x for row, ones in zip(values, mask, strict=True) for x, one in zip(row, ones, strict=True) if one]


def smoothed(trainer, rollout):
    logps, _, mask = score(trainer, rollout)
    rewards = [sum(row) for row in zip(*trainer.last_rewards, strict=True)]
    result = []
    for a, reward, row, ones in zip(rollout["advantages"].tolist(), rewards, logps, mask, strict=True):
        surprisal = -sum(counted([row], [ones]))
        result.append(a + 0.1 * surprisal if reward > 0.5 else a - 0.05 * surprisal)
    return torch.tensor(result)


def filtered(trainer, rollout, direction):
    advantages = rollout["advantages"].tolist()
    result = []
    for start in range(0, len(advantages), 4):
        group = advantages[start : start + 4]
        kept = [a for a in group if direction * a >= 0]
        result += [a * 4 / len(kept) if direction * a >= 0 else 0.0 for a in group]
    return torch.tensor(result)


class RolloutOracle(GRPOTrainer):
    """TRL's trainer with other advantages."""

    def _calculate_rewards(self, *args, **kwargs):
        rewards = super()._calculate_rewards(*args, **kwargs)
        self.last_rewards = rewards.T.tolist()
        return rewards

    def _generate_and_score_completions(self, inputs):
        rollout = super()._generate_and_score_completions(inputs)
        return rollout | {"advantages": self.replaced(rollout)}


class SmoothingOracle(RolloutOracle):
    """DS-GRPO."""

    replaced = smoothed


class BelowOracle(RolloutOracle):
    """Entrocraft at too low an entropy."""

    def replaced(self, rollout):
        return filtered(self, rollout, -1)


class AboveOracle(RolloutOracle):
    """Entrocraft at too high an entropy."""

    def replaced(self, rollout):
        return filtered(self, rollout, 1)


class JsOracle(GRPOTrainer):
    """TRL's trainer without its KL penalty, and with another term in each advantage."""

    def compute_loss(self, model, inputs, **kwargs):
        logps, _, _ = score(self, inputs)
        shaped = [
            [
                a - 0.5 * math.log(2 * math.exp(lp - ref) / (math.exp(lp - ref) + 1))
                for lp, ref in zip(*rows, strict=True)
            ]
            for a, *rows in zip(
                inputs["advantages"].tolist(), logps, inputs["ref_per_token_logps"].tolist(), strict=True
            )
        ]
        beta, self.beta = self.beta, 0.0
        try:
            return super().compute_loss(model, {**inputs, "advantages": torch.tensor(shaped)}, **kwargs)
        finally:
            self.beta = beta


ORACLES = {
    "differential_smoothing": SmoothingOracle,
    "entrocraft_below": BelowOracle,
    "entrocraft_above": AboveOracle,
    "js_to_start": JsOracle,
}


def distance(one, other):
    pairs = zip(one.model.parameters(), other.model.parameters(), strict=True)
    return max((a - b).abs().max().item() for a, b in pairs)


@pytest.mark.parametrize("loss_type", LOSSES)
@pytest.mark.parametrize("name", METHODS)
def test_the_update_is_that_of_the_papers_loops(train, name, loss_type):
    fields = SIZES | {"loss_type": loss_type}
    if loss_type == "luspo":
        fields["importance_sampling_level"] = "sequence"
    method = name.partition("_below")[0].partition("_above")[0]
    if method == "js_to_start" and loss_type in ("sapo", "vespo", "luspo"):
        with pytest.raises(ValueError, match=r"cannot be combined with 'js_to_start'"):
            train(SteerGRPOTrainer, advantage_shaping=method, **fields, **METHODS[name])
        return
    ours = train(SteerGRPOTrainer, advantage_shaping=method, **fields, **METHODS[name])
    kept = {"beta": METHODS[name].get("beta", 0.0)}
    theirs = train(ORACLES[name], **fields, **kept)
    plain = train(GRPOTrainer, **fields, **kept)
    effect = distance(theirs, plain)
    assert effect > 1e-4 and distance(ours, theirs) < 1e-3 * effect
