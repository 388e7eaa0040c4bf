"""Several methods at once, and methods of one's own."""

from dataclasses import replace
from itertools import permutations, product

import pytest
import torch
from hypothesis import assume, given, settings
from support.methods import batches
from support.methods.batches import SEEDS, bonus, config, kept, method, random_batch, random_rollout, shaped, weights

from steer_trl import shaping
from steer_trl.shaping import Shaper, TokenBatch, make_shapers


class Recording(Shaper):
    """A method of one's own: it doubles, and remembers what it was given."""

    def weights(self, batch, measure):
        self.given = batch.advantages
        return torch.full_like(batch.logps, 2.0)


class Both(Recording):
    def bonus(self, batch, measure):
        return torch.ones_like(batch.logps)


class TestCombinations:
    def both(self, seed=3):
        """A rollout that is one micro-batch; the third has groups of both kinds."""
        r = random_rollout(seed)
        noise, draws = torch.rand(2, *r.mask.shape, generator=torch.Generator().manual_seed(seed))
        logps = r.logps + 0.6 * (noise - 0.5)
        return r, TokenBatch(logps, r.logps, r.entropies, r.entropies, r.advantages, r.mask, 0.2, 0.28, draws)

    def applied(self, shapers, rollout, batch):
        """What a trainer does with them: the advantages on the mask, and the weights."""
        before = shaping.shape_rollout(shaping.find_rollout_methods(shapers), rollout)
        result = shaped(shapers, replace(batch, advantages=before))
        after = before if result.advantages is None else result.advantages
        return after * batch.mask, result.weights

    def test_stages_ignore_the_order_of_names(self):
        rollout, batch = self.both()
        expected = method("opo").advantages(rollout).unsqueeze(1)
        for name in ("edge_grpo", "ppl"):
            expected = expected * method(name).scales(rollout).float().unsqueeze(1)
        expected = expected + bonus(method("entropy_advantage"), replace(batch, advantages=expected))
        batch_with_bonus = replace(batch, advantages=expected)
        for name in ("steer", "stare"):
            expected = expected * weights(method(name), batch_with_bonus)
        names = ("opo", "edge_grpo", "ppl", "entropy_advantage", "steer", "stare")
        for order in list(permutations(names))[::60]:
            ours, _ = self.applied(make_shapers(config(*order)), rollout, batch)
            torch.testing.assert_close(ours, expected * batch.mask)

    @pytest.mark.parametrize("adding", ["entropy_advantage", "position", None])
    def test_weights_are_given_the_advantages_with_the_bonus(self, adding):
        rollout, batch = self.both()
        own = f"{__name__}:{'Recording' if adding else 'Both'}"
        shapers = make_shapers(config(own, *filter(None, [adding])))
        ours, _ = self.applied(shapers, rollout, batch)
        with_bonus = (batch.advantages + 1) * batch.mask
        if adding:
            with_bonus, _ = self.applied(make_shapers(config(adding)), rollout, batch)
        torch.testing.assert_close(shapers[own].given * batch.mask, with_bonus)
        torch.testing.assert_close(ours, 2 * with_bonus)

    @pytest.mark.parametrize(
        "names", ["steer stare", "clip_cov steer", "fork_tokens quadrant.Quadrant", "edge_grpo ppl"]
    )
    @settings(max_examples=20)
    @given(SEEDS)
    def test_multiplicative_methods_commute(self, names, seed):
        orders = names.split(), names.split()[::-1]
        one, other = (self.applied(make_shapers(config(*order)), *self.both(seed)) for order in orders)
        torch.testing.assert_close(one, other)

    REFUSED = (
        "opo gtpo|unlikelihood psr|w_reinforce grpo_s|entropy_advantage position|position kl_cov|"
        "clip_cov quadrant.Quadrant|kl_cov steer|stare dcpo|dcpo entropy_advantage|grpo_s fork_tokens|grpo_s dcpo"
    )

    @pytest.mark.parametrize("names", REFUSED.split("|"))
    def test_methods_that_exclude_each_other_are_refused(self, names):
        for order in (names.split(), names.split()[::-1]):
            with pytest.raises(ValueError, match="advantage_shaping") as error:
                config(*order)
            assert any(all(repr(name) in line for name in order) for line in str(error.value).splitlines())


def test_a_broken_file_is_named_with_its_line(tmp_path, monkeypatch):
    (tmp_path / "torn_method.py").write_text("class Method(\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ValueError, match=r"advantage_shaping='torn_method\.Method'.*torn_method\.py, line 1"):
        config("torn_method.Method")


@given(SEEDS)
def test_advantage_weights_are_loss_weights(seed):
    batch = random_batch(seed)
    result = shaped({name: kept(name) for name in ("steer", "stare", "fork_tokens")}, batch)
    assert (result.weights >= 0).all()

    def loss(lp, a):
        return batches.clipped_loss((lp - batch.old_logps.double()).exp(), a.double().expand_as(lp), 0.8, 1.28, 3.0)

    outside = batches.gradient(lambda lp: (result.weights * loss(lp, batch.advantages)).sum(), batch.logps)
    inside = batches.gradient(lambda lp: loss(lp, result.advantages).sum(), batch.logps)
    torch.testing.assert_close(inside, outside, atol=1e-5, rtol=1e-5)


class Rows(Shaper):
    """Returns one number for each completion, where one for each token is asked for."""

    hook, keepdim = "weights", False

    def _rows(self, batch, measure):
        return batch.logps.float().exp().mean(1, keepdim=self.keepdim)


@pytest.mark.parametrize("hook", ["weights", "bonus"])
def test_a_number_for_each_completion_is_not_read_as_one_for_each_token(hook):
    batch = random_batch(0)
    size = min(batch.logps.shape)
    parts = {name: getattr(batch, name)[:size, :size] for name in ("logps", "mask")}
    square = replace(batch, **parts, advantages=torch.ones(size, 1))
    for keepdim in (False, True):
        kind = type("Rows", (Rows,), {hook: Rows._rows, "keepdim": keepdim})
        shapers = {"rows": kind(config("none"))}
        if keepdim:
            shaping.shape_batch(shapers, square, {"rows": None})
        else:
            with pytest.raises(ValueError, match=rf"Rows.{hook} must return a tensor \[B, T\]"):
                shaping.shape_batch(shapers, square, {"rows": None})


HOOKS = {"advantages": "[N]", "scales": "[N]", "rollout_bonus": "[N, T]", "bonus": "[B, T]", "weights": "[B, T]"}


@pytest.mark.parametrize(("hook", "bad"), [*product(HOOKS, (torch.nan, torch.inf)), ("weights", -0.1)])
@given(SEEDS)
def test_a_custom_method_that_returns_no_number_is_named(hook, bad, seed):
    batch, rollout = random_batch(seed), random_rollout(seed)
    is_of_batch = hook in ("bonus", "weights")
    result = torch.ones_like(batch.logps if is_of_batch else rollout.logps)
    result = result if "T" in HOOKS[hook] else result[:, 0]
    shapers = {"custom": type("Custom", (Shaper,), {hook: lambda *_: result})(config("none"))}

    def shape():
        if is_of_batch:
            return shaping.shape_batch(shapers, batch, {"custom": None}).advantages
        return shaping.shape_rollout(shapers.values(), rollout)

    assert shape().isfinite().all()
    trained = batch.mask.bool() if is_of_batch else torch.ones_like(result, dtype=torch.bool)
    result[~trained] = bad
    assert shape().isfinite().all()
    assume(trained.any())
    result[tuple(trained.nonzero()[seed % int(trained.sum())])] = bad
    with pytest.raises(ValueError, match=rf"Custom.{hook} "):
        shape()
