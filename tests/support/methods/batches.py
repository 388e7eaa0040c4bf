"""Random tokens and rollouts, what a method makes of them, and losses written out in float64."""

import json
import math
from functools import cache

import torch
from hypothesis import strategies as st

from steer_trl import SteerGRPOConfig, shaping
from steer_trl.shaping import SHAPERS, Rollout, TokenBatch
from steer_trl.shaping.base import BATCH_HOOKS, ROLLOUT_HOOKS
from steer_trl.shaping.order_statistics import this_process
from support.methods.cases import CASES
from support.methods.oracles import mean, trained
from support.runs import ON_CPU

SEEDS = st.integers(0, 2**31)
EXACT = {"shaping_scope": "micro_batch"}  # a near tie decides as it does in a sort


def config(*names, **options):
    for name in names:
        options = (CASES[name].needed if name in CASES else {}) | options
    return SteerGRPOConfig(output_dir="unused", advantage_shaping=list(names), **ON_CPU | options)


def answering(*questions):
    return [name for name, shaper in SHAPERS.items() if shaper.overrides(*questions)]


IN_THE_LOSS, ON_ROLLOUTS, REPLACING = answering(*BATCH_HOOKS), answering(*ROLLOUT_HOOKS), answering("advantages")
SCALING = answering("scales")


def method(name, **options):
    return SHAPERS[name](config(name, **options))


def kept(name, **options):
    """A method without a state, which is made once for all examples."""
    return kept_as_text(name, json.dumps(options))


@cache
def kept_as_text(name, options):
    return method(name, **json.loads(options))


def advantages(name, rollout, **options):
    """On the mask `[N, T]`; 0 off it."""
    return shaping.shape_rollout([kept(name, **options)], rollout) * rollout.mask


def measure(shaper, batch):
    return shaper.measure(batch, this_process)


def weights(shaper, batch):
    return shaper.weights(batch, measure(shaper, batch))


def bonus(shaper, batch):
    return shaper.bonus(batch, measure(shaper, batch))


def shaped(shapers, batch):
    return shaping.shape_batch(shapers, batch, shaping.measure_all(shapers, batch, this_process))


def random_batch(seed):
    """Tokens with ratios on both sides of every bound, masked ones, and completions without advantage or tokens."""
    g = torch.Generator().manual_seed(seed)
    shape = torch.randint(2, 7, (2,), generator=g).tolist()
    noise, *uniforms = torch.randn(shape, generator=g), *torch.rand(5, *shape, generator=g)
    old = -3 * uniforms[0] - 0.02
    some = torch.rand(shape[0], 2, generator=g) < torch.tensor([0.8, 0.9])
    given_advantages = torch.randn(shape[0], 1, generator=g) * some[:, :1]
    mask = (uniforms[1] < 0.7) & some[:, 1:]
    numbers = old * torch.exp(noise / 2), old, 3 * uniforms[2], 3 * uniforms[3], given_advantages, mask.long()
    phi = 0.3 * torch.randn(shape, generator=g)
    ref = old + torch.randn(shape, generator=g)
    return TokenBatch(*numbers, 0.2, 0.28, uniforms[4], sensitivities=phi, ref_logps=ref)


def random_rollout(seed, outcomes=(0.0, 1.0), missing=0.0, empty=False):
    """Groups with gaps in their masks. Entropies are round, so that two are equal or well apart."""
    g = torch.Generator().manual_seed(seed)
    size, groups, width = (int(torch.randint(low, high, (), generator=g)) for low, high in ((2, 6), (1, 4), (1, 7)))
    rows = size * groups
    mask = (torch.rand(rows, width, generator=g) < 0.7).long()
    if not empty:
        mask[torch.arange(rows), torch.randint(width, (rows,), generator=g)] = 1
    rewards = torch.tensor(outcomes)[torch.randint(len(outcomes), (rows,), generator=g)]
    rewards = torch.where(torch.rand(rows, generator=g) < missing, torch.nan, rewards)
    logps, entropies = -3 * torch.rand(rows, width, generator=g), torch.randint(1, 30, (rows, width), generator=g) / 10
    return Rollout(size, mask, torch.randn(rows, 1, generator=g), rewards, logps, entropies)


def of_rewards(rewards, **others):
    count = len(rewards)
    others = {"mask": torch.ones(count, 3), "advantages": torch.ones(count, 1)} | others
    return Rollout(count, rewards=torch.tensor(rewards), **others)


def gradient(loss, logps):
    logps = logps.double().requires_grad_()
    return torch.autograd.grad(loss(logps), logps)[0]


def clipped_loss(ratio, advantage, low, high, dual=math.inf):
    """The clipped loss of each token or completion."""
    loss = -torch.minimum(ratio * advantage, torch.clamp(ratio, low, high) * advantage)
    return torch.where(advantage < 0, torch.minimum(loss, -dual * advantage), loss)


def chosen(selected, batch):
    return {place for place in trained(batch) if selected[place]}


def covariances(batch):
    """The covariance of each trained token, largest first, and its place."""
    a, lp = batch.advantages.double().expand(batch.logps.shape), batch.logps.double()
    numbers = {place: (a[place].item(), lp[place].item()) for place in trained(batch)}
    means = [mean(column) for column in zip(*numbers.values(), strict=True)]
    return sorted((((x - means[0]) * (y - means[1]), place) for place, (x, y) in numbers.items()), reverse=True)
