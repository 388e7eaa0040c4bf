"""The methods of examples/methods, by their import paths: against what their papers say, in loops and losses."""

import math
from dataclasses import replace
from itertools import product

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from support import ROOT
from support.methods import batches
from support.methods.batches import EXACT, SEEDS, config, gradient, random_batch, shaped, trained, weights
from support.methods.oracles import expected_advantages, mean

from steer_trl import shaping
from steer_trl.cli.train import parse
from steer_trl.entropy.hold import HoldEntropy
from steer_trl.entropy.start import StartEntropy
from steer_trl.shaping import TokenBatch, make_shapers
from steer_trl.support.randomness import draw_uniform

EXAMPLES = {"rsi": "Rsi", "ucpo": "Ucpo", "entropic": "Entropic", "clip_bounds": "ClipBounds", "quadrant": "Quadrant"}


def method(name, given=None, **settings):
    (shaper,) = make_shapers(config(f"{name}.{EXAMPLES[name]}", shaping_options=given, **settings)).values()
    return shaper


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_recipe_of_an_example_is_accepted(name):
    recipe = ["--config", str(ROOT / f"examples/methods/{name}.yaml")]
    _, args, _ = parse([*recipe, "--use_cpu", "true", "--bf16", "false"])
    (shaper,) = make_shapers(args).values()
    assert type(shaper).__name__ == EXAMPLES[name] and shaper.active
    assert name != "clip_bounds" or (args.epsilon, args.epsilon_high, args.delta) == (1.0, 1e9, None)


NEUTRAL = {"rsi": {"low": 0.0, "high": math.inf}, "ucpo": {"tau": 0.0}}
NEUTRAL |= {"entropic": {"strength": 0.0}, "quadrant": {"fraction": 0.0}}
WRONG = {
    "rsi": {"low": [-0.1, 1.1], "high": [0.9, math.nan]},
    "ucpo": {"tau": [-0.1, "0.2"]},
    "entropic": {"strength": [-1.1, 1.1]},
    "clip_bounds": {"epsilon_low": [0.0, 1.0], "epsilon_high": [0.0, math.inf], "strength": [-3.1, "1"]},
    "quadrant": {"quadrant": ["V", None], "action": ["drop"], "fraction": [-0.1, math.nan]},
}


@pytest.mark.parametrize("name", NEUTRAL)
def test_neutral_settings_touch_nothing(name):
    shapers = {name: method(name, NEUTRAL[name])}
    assert not shapers[name].active and shaping.find_rollout_methods(shapers) == []
    assert shaped(shapers, random_batch(0)).advantages is None


@pytest.mark.parametrize(
    ("name", "field", "value"), [(name, f, value) for name in WRONG for f in WRONG[name] for value in WRONG[name][f]]
)
def test_settings_out_of_range_are_refused_by_name(name, field, value):
    with pytest.raises(ValueError, match=rf"shaping_options\.\S+\.{field}(=| must be )"):
        method(name, {field: value})


@pytest.mark.parametrize("name", ["entropic", "clip_bounds"])
def test_a_strength_that_hold_entropy_moves_is_refused(name):
    with pytest.raises(ValueError, match=r"strength=0\.5 cannot be combined with hold_entropy"):
        method(name, {"strength": 0.5}, hold_entropy=0.5)


def ucpo(group, size, tau=0.2):
    likelihoods = [math.exp(mean(c.logps.values())) for c in group if c.reward > 0]
    total = sum(1 / x for x in likelihoods)
    result = []
    for c in group:
        share = 1 / math.exp(mean(c.logps.values())) / total if c.reward > 0 else None
        result.append(c.advantage if share is None else c.advantage * (1 - tau + tau * len(likelihoods) * share))
    return result


@given(SEEDS, st.sampled_from([0.0, 0.3]))
def test_ucpo_equals_the_papers_formula(seed, missing):
    rollout = batches.random_rollout(seed, missing=missing)
    unscored = rollout.rewards.isnan().unsqueeze(1)
    rollout = replace(rollout, advantages=torch.where(unscored, 0.0, rollout.advantages))
    ours = shaping.shape_rollout([method("ucpo")], rollout) * rollout.mask
    expected = expected_advantages(ucpo, rollout, rollout.num_generations)
    torch.testing.assert_close(ours, expected, atol=5e-4, rtol=5e-4)


@given(SEEDS)
def test_rsi_keeps_the_tokens_in_its_band(seed):
    batch = random_batch(seed)
    ours = weights(method("rsi", {"low": 0.7, "high": 1.2}, **EXACT), batch)
    for place in trained(batch):
        index = -batch.logps[place].item() / batch.entropies[place].item()
        assert ours[place] == float(0.7 <= index <= 1.2)


@given(SEEDS, st.sampled_from([-1.0, 0.2, 1.0]))
def test_entropic_weights_follow_the_sign_of_the_advantage(seed, strength):
    batch = random_batch(seed)
    ours = weights(method("entropic", {"strength": strength}), batch)
    for i, t in trained(batch):
        assert ours[i, t].item() == pytest.approx(1 - strength * batch.advantages[i].sign().item())


@pytest.mark.parametrize(("action", "weight"), [("mask", 0.0), ("double", 2.0)])
@pytest.mark.parametrize("quadrant", ["I", "II", "III", "IV"])
def test_quadrant_draws_from_one_quadrant_only(quadrant, action, weight):
    rows = torch.arange(40)
    q, draws = draw_uniform(1, 0, rows, 1000).clamp(min=1e-3), draw_uniform(2, 0, rows, 1000)
    a = torch.tensor([1.0, -1.0, 0.0, 2.0]).repeat(10).unsqueeze(1)
    # Doubling moves the current probabilities over the thresholds: those at rollout time count.
    batch = TokenBatch(2 * q.log(), q.log(), q, q, a, torch.ones_like(q), 0.2, 0.2, draws)
    members = (q > 0.8 if quadrant in ("I", "IV") else q < 0.2) & (a > 0 if quadrant in ("I", "II") else a < 0)
    given = {"quadrant": quadrant, "action": action}
    ours = weights(method("quadrant", given), batch)
    drawn, count = ours == weight, members.sum().item()
    assert not (drawn & ~members).any() and (ours[~drawn] == 1).all()
    assert abs(drawn.sum().item() - 0.1 * count) < 4 * math.sqrt(0.09 * count)
    everything = method("quadrant", given | {"fraction": 1.0})
    assert torch.equal(weights(everything, batch) == weight, members)
    assert torch.equal(everything.marks(batch, None)["quadrant/drawn"], members)


@pytest.mark.parametrize(
    ("strength", "low", "high"), [(0.0, 0.8, 1.28), (1.0, 0.9, 1.56), (3.0, 0.95, 2.12), (-1.0, 0.6, 1.14)]
)
def test_clip_bounds_has_the_clipped_losses_gradient(strength, low, high):
    ratios = [0.3, 0.55, 0.65, 0.85, 0.92, 0.97, 1.0, 1.1, 1.2, 1.4, 1.8, 3.0]
    ratio, a = torch.tensor(list(product(ratios, [1.5, -0.7, 0.0]))).T.reshape(2, 6, 6)
    old = torch.full_like(ratio, -4.0)
    batch = TokenBatch(old + ratio.log(), old, -old, -old, a, torch.ones_like(ratio), 1.0, 1e9)
    bounds = (torch.tensor(bound).double() for bound in (low, high))
    explicit = gradient(lambda lp: batches.clipped_loss((lp - old).exp(), a.double(), *bounds).sum(), batch.logps)
    effective = a * weights(method("clip_bounds", {"strength": strength}), batch)
    ours = gradient(lambda lp: -((lp - old).exp() * effective).sum(), batch.logps)
    torch.testing.assert_close(ours, explicit, atol=1e-6, rtol=1e-5)
    for side in (a > 0, a < 0):
        assert (explicit[side] == 0).any() and (explicit[side] != 0).any()


@pytest.mark.parametrize(("name", "most"), [("entropic", 1.0), ("clip_bounds", 3.0)])
def test_hold_entropy_moves_the_strength(name, most):
    settings = {"hold_entropy": 0.4, "hold_entropy_unit": "nats", "num_iterations": 2}
    args = config(f"{name}.{EXAMPLES[name]}", **settings)
    shapers = make_shapers(args)
    shaper, hold = shapers[args.shaping_names[0]], HoldEntropy(args, shapers, StartEntropy(4))
    assert shaper.strength == 0
    for _ in range(60):
        hold.on_rollout(0.1, 0.0)
    assert shaper.strength == most
    if name == "clip_bounds":
        assert shaper.bounds() == pytest.approx((0.95, 2.12))
    for _ in range(60):
        hold.on_rollout(4.0, 0.0)
    assert shaper.strength == 0
