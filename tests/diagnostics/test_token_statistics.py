"""Quadrants, quarters and clipped tokens, against loops over plain numbers."""

import math
from dataclasses import replace

import pytest
import torch
from diagnostics.test_statistics import finished
from hypothesis import given
from support.methods.batches import SEEDS, random_batch, trained

from steer_trl.diagnostics.tokens import change_statistics, quadrants, quarters, token_statistics
from steer_trl.functional import entropy_sensitivity


def plain_mean(values):
    return sum(values) / len(values) if values else math.nan


def numbers(batch):
    """(advantage, log-probability, old log-probability, entropy, ratio) of each trained token."""
    a = batch.advantages.double().expand(batch.logps.shape)
    return {
        place: (a[place].item(), *(x[place].item() for x in (batch.logps, batch.old_logps, batch.entropies)))
        for place in trained(batch)
    }


def approx(value):
    return pytest.approx(value, abs=1e-6, rel=1e-5, nan_ok=True)


@given(SEEDS)
def test_against_a_loop(seed):
    batch = random_batch(seed)
    found = {key: finished(statistic) for key, statistic in token_statistics(batch).items()}
    rows = list(numbers(batch).values())

    def share(condition):
        return plain_mean([float(condition(*row)) for row in rows])

    def entropy(condition):
        return plain_mean([row[3] for row in rows if condition(*row)])

    expected = {
        "quadrants/positive_expected": share(lambda a, lp, lq, h: a > 0 and -lp <= h),
        "quadrants/positive_surprising": share(lambda a, lp, lq, h: a > 0 and -lp > h),
        "quadrants/negative_expected": share(lambda a, lp, lq, h: a < 0 and -lp <= h),
        "quadrants/negative_surprising": share(lambda a, lp, lq, h: a < 0 and -lp > h),
        "entropy/positive": entropy(lambda a, *_: a > 0),
        "entropy/negative": entropy(lambda a, *_: a < 0),
    }
    for side, sign, moved in (
        ("lower", -1, lambda r: r < 1 - batch.epsilon_low),
        ("upper", 1, lambda r: r > 1 + batch.epsilon_high),
    ):
        for kind, likely in (("unlikely", False), ("likely", True)):
            expected[f"clip/{side}_{kind}"] = share(
                lambda a, lp, lq, h, sign=sign, moved=moved, likely=likely: (
                    a * sign > 0 and moved(math.exp(lp - lq)) and (math.exp(lq) >= 0.2) is likely
                )
            )
    assert {key: found.pop(key) for key in expected} == approx(expected)
    assert found.keys() == {f"entropy/{which}_quarter" for which in ("first", "second", "third", "last")}


def test_a_quarter_is_one_of_the_tokens_that_were_trained_on():
    mask = torch.tensor([[1, 0, 1, 1, 0, 1, 0], [0, 1, 1, 1, 1, 1, 0], [1] * 7, [0] * 7, [0, 0, 1, 0, 0, 0, 0]])
    quarter = quarters(mask)
    assert [row[kept].tolist() for row, kept in zip(quarter, mask.bool(), strict=True)] == [
        [0, 1, 2, 3],
        [0, 0, 1, 2, 3],
        [0, 0, 1, 1, 2, 2, 3],
        [],
        [0],
    ]


def test_a_token_that_is_not_finite_is_left_out():
    batch = random_batch(3)
    place = trained(batch)[0]
    bad = replace(batch, logps=batch.logps.index_put(tuple(map(torch.tensor, place)), torch.tensor(math.nan)))
    without = replace(batch, mask=batch.mask.index_put(tuple(map(torch.tensor, place)), torch.tensor(0)))
    of_bad, of_others = (token_statistics(x) | change_statistics(x, x.advantages) for x in (bad, without))
    for key in of_others:
        if "quarter" not in key:  # which counts it in the length of its completion
            assert finished(of_bad[key]) == approx(finished(of_others[key])), key


def test_nothing_can_be_clipped_where_nothing_moved():
    batch = random_batch(0)
    assert any(key.startswith("clip/") for key in token_statistics(batch))
    for still in (replace(batch, epsilon_high=math.inf), replace(batch, old_logps=batch.logps)):
        assert not any(key.startswith("clip/") for key in token_statistics(still))


class TestChange:
    """On small vocabularies, where everything can be computed."""

    def batch(self, seed, shape=(4, 6), vocabulary=7):
        g = torch.Generator().manual_seed(seed)
        logits = 2 * torch.randn(*shape, vocabulary, generator=g)
        logps = logits.log_softmax(-1)
        ids = torch.multinomial(logps.exp().flatten(0, 1), 1, generator=g).view(shape)
        entropies = -(logps.exp() * logps).sum(-1)
        chosen = logps.gather(-1, ids.unsqueeze(-1)).squeeze(-1)
        batch = replace(
            random_batch(seed),
            logps=chosen,
            old_logps=chosen,
            entropies=entropies,
            old_entropies=entropies,
            advantages=torch.randn(shape[0], 1, generator=g),
            mask=torch.ones(shape, dtype=torch.long),
            draws=None,
            sensitivities=entropy_sensitivity(logits, ids),
        )
        return batch, logits, ids

    def after(self, logits, ids, advantages, size):
        """Entropies after a policy-gradient step of this size on each token's own logits."""
        probs = logits.double().softmax(-1)
        step = advantages.unsqueeze(-1) * (torch.nn.functional.one_hot(ids, logits.size(-1)) - probs)
        return torch.distributions.Categorical(logits=logits.double() + size * step).entropy()

    def test_what_is_predicted_is_what_a_small_step_does(self):
        batch, logits, ids = self.batch(0)
        weights = torch.linspace(0.5, 1.5, 6)
        advantages = batch.advantages * weights
        found = {key: finished(x) for key, x in change_statistics(batch, advantages).items()}
        size = 1e-5
        change = (self.after(logits, ids, advantages, size) - self.after(logits, ids, advantages, 0)) / size
        assert found["entropy/predicted_change"] == pytest.approx(change.mean().item(), rel=1e-3)
        for key, tokens in quadrants(batch).items():
            contribution = torch.where(tokens, change, 0.0).mean().item()
            assert found[f"{key}_change"] == pytest.approx(contribution, rel=1e-3, abs=1e-6)
        parts = [value for key, value in found.items() if key.startswith("quadrants/")]
        assert len(parts) == 4 and sum(parts) == pytest.approx(found["entropy/predicted_change"], abs=1e-6)

    def test_a_clipped_token_changes_nothing(self):
        batch, *_ = self.batch(2)
        far = replace(batch, old_logps=batch.logps - torch.where(batch.advantages > 0, 1.0, -1.0))
        assert finished(change_statistics(far, far.advantages)["entropy/predicted_change"]) == 0
        near = replace(batch, epsilon_low=math.inf, epsilon_high=math.inf, old_logps=far.old_logps)
        assert finished(change_statistics(near, near.advantages)["entropy/predicted_change"]) != 0

    def test_without_sensitivities_there_is_the_estimate_only(self):
        batch = replace(random_batch(0), sensitivities=None)
        assert set(change_statistics(batch, batch.advantages)) == {"entropy/estimated_change"}
