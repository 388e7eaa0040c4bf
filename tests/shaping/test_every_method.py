"""What holds of every method, whatever it does; `cases.py` has a row for each."""

import re
from dataclasses import fields, replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from support import ROOT
from support.methods import batches
from support.methods.batches import (
    advantages,
    bonus,
    config,
    kept,
    method,
    random_batch,
    random_rollout,
    shaped,
    weights,
)
from support.methods.cases import CASES
from support.methods.oracles import expected_advantages
from support.runs import of_method
from torch.utils._python_dispatch import TorchDispatchMode

from steer_trl import shaping
from steer_trl.shaping import SHAPERS, TokenBatch
from steer_trl.shaping.order_statistics import this_process


def test_every_method_has_a_row():
    assert CASES.keys() == SHAPERS.keys()


ORACLES = [(name, *oracle) for name, case in CASES.items() for oracle in case.oracles]
WEIGHTS = [(name, *oracle) for name, case in CASES.items() for oracle in case.weights]
NEUTRAL = [(name, options) for name, case in CASES.items() for options in case.neutral]
WRONG = [(name, field, value) for name, case in CASES.items() for field in case.wrong for value in case.wrong[field]]
SURROGATES = [name for name, shaper in SHAPERS.items() if shaper.surrogate]


@pytest.mark.parametrize(("name", "oracle", "options"), ORACLES)
@given(batches.SEEDS, st.sampled_from([(0.0, 1.0), (-1.0, 1.0), (1.0,)]), st.sampled_from([0.0, 0.3]))
def test_advantages_equal_the_papers_formula_in_loops(name, oracle, options, seed, outcomes, missing):
    rollout = random_rollout(seed, outcomes, missing)
    if name not in batches.REPLACING:  # else it keeps the advantage of a completion that nothing could score
        unscored = rollout.rewards.isnan().unsqueeze(1)
        rollout = replace(rollout, advantages=torch.where(unscored, 0.0, rollout.advantages))
    theirs = expected_advantages(oracle, rollout, rollout.num_generations)
    torch.testing.assert_close(advantages(name, rollout, **options), theirs, atol=5e-4, rtol=5e-4)


@pytest.mark.parametrize(("name", "oracle", "options"), WEIGHTS)
@given(batches.SEEDS)
def test_token_weights_equal_the_papers_formula_in_loops(name, oracle, options, seed):
    batch, shaper = random_batch(seed), kept(name, **batches.EXACT | options)
    ours = bonus(shaper, batch) if shaper.overrides("bonus") else weights(shaper, batch)
    theirs = oracle(batch)
    assert {place: ours[place].item() for place in theirs} == pytest.approx(theirs, abs=1e-5)


@pytest.mark.parametrize(("name", "options"), NEUTRAL, ids=str)
def test_neutral_settings_touch_nothing(name, options):
    shapers = {name: method(name, **options)}
    assert not shapers[name].active and shaping.find_rollout_methods(shapers) == []
    assert shaped(shapers, random_batch(0)).advantages is None


@pytest.mark.parametrize("name", SURROGATES)
def test_an_own_loss_switches_clipping_off(name):
    needed = {"epsilon": 1.0, "epsilon_high": 1e9, "delta": None} | ({"loss_type": "grpo"} if name == "grpo_s" else {})
    for args in (config(name), config(name, **needed)):
        assert {setting: getattr(args, setting) for setting in needed} == needed


OTHERS = {"epsilon": 0.3, "epsilon_high": 0.28, "delta": 10.0, "loss_type": "cispo"}


@pytest.mark.parametrize("name", SURROGATES)
@pytest.mark.parametrize("setting", [*OTHERS, "importance_sampling_level"])
def test_an_own_loss_refuses_ignored_settings(name, setting):
    value = OTHERS.get(setting, "sequence")
    with pytest.raises(ValueError, match=f"{setting}={value!r}.*'{name}'"):
        config(name, **{setting: value})


@pytest.mark.parametrize(("name", "field", "value"), WRONG)
def test_settings_out_of_range_are_refused_by_name(name, field, value):
    is_option = field in {option.name for option in fields(SHAPERS[name].options_class)}
    wrong = of_method(name, **{field: value}) if is_option else {field: value}
    with pytest.raises(ValueError, match=rf"\b{field}\b"):
        config(name, **wrong)


@pytest.mark.parametrize("name", batches.IN_THE_LOSS)
@given(batches.SEEDS)
def test_a_step_does_not_depend_on_its_split(name, seed):
    batch, shapers = random_batch(seed), {name: kept(name)}
    tensors = {field: x for field, x in vars(batch).items() if isinstance(x, torch.Tensor)}
    parts = [replace(batch, **{f: x[rows] for f, x in tensors.items()}) for rows in (slice(1), slice(1, None))]
    ahead = shaping.measure_all(shapers, TokenBatch.merge(parts), this_process)
    split = torch.cat([shaping.shape_batch(shapers, part, ahead).advantages for part in parts])
    whole = shaped(shapers, batch).advantages
    torch.testing.assert_close(split * batch.mask, whole * batch.mask, atol=1e-6, rtol=1e-5)


class NoFloatCumsum(TorchDispatchMode):
    """Fails where CUDA would under `full_determinism`: it has no deterministic cumsum of floats."""

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        assert "cumsum" not in str(function) or not args[0].is_floating_point(), f"{function} of floats"
        return function(*args, **kwargs or {})


@pytest.mark.parametrize("name", SHAPERS)
def test_no_float_is_cumsummed(name):
    rollout, batch = random_rollout(3), random_batch(1)
    with NoFloatCumsum():
        advantages(name, rollout) if name in batches.ON_ROLLOUTS else shaped({name: method(name)}, batch)


def test_the_custom_method_of_the_docs():
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs/methods.md").read_text(), re.S)
    (code,) = (block for block in blocks if "class FadeOut" in block)
    exec(code, scope := {})
    args = config("none")
    args.shaping_options = {"last": 0.5}
    batch = replace(random_batch(1), mask=torch.tensor([[1, 0, 1, 1, 1, 0], [0] * 6]))
    with NoFloatCumsum():
        ours = scope["FadeOut"](args).weights(batch, None)
    torch.testing.assert_close(ours[0, [0, 2, 3, 4]], torch.tensor([0.875, 0.75, 0.625, 0.5]))


def test_the_former_name_of_distinguishes_tokens_is_refused():
    with pytest.raises(ValueError, match=r"^Mine\.per_token has another name: distinguishes_tokens"):
        type("Mine", (shaping.Shaper,), {"per_token": False})
