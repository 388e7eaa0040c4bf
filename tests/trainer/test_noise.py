"""Nothing that a method decides hangs on the last bits of a forward pass.

Two passes over the same tokens differ by rounding: with and without padding, in another micro-batch, on a GPU.
`STEER_TRL_DRAWS` above 1 tests all methods; by default, those that compare log-probabilities or pick tokens.
"""

import os

import pytest
import torch
from support.runs import of_method
from support.subclasses import differ, make, update_of

from steer_trl import SteerGRPOTrainer
from steer_trl.options.needs import UNCLIPPED
from steer_trl.shaping import SHAPERS

LIVELY = {
    "clip_cov": of_method("clip_cov", fraction=0.05, lower=0.1),
    "kl_cov": of_method("kl_cov", fraction=0.05),
    "pass_at_k": {"pass_at_k": 2},
    "stare": {"stare_gate": "none", "stare_variant": "C2", "stare_amplify": 2.0},
    "steer": {"steer_lambda_min": 0.3},
    "repo_r": of_method("repo_r", zeta=0.3),
    "entropy_bonus": of_method("entropy_bonus", coef=0.1),
}
METHODS = list(SHAPERS) if int(os.environ.get("STEER_TRL_DRAWS", "1")) > 1 else ["kl_cov", "clip_cov", "steer"]
STEPS = {"learning_rate": 0.1, "steps_per_generation": 4}


def has_one(completions, **_):
    return [float("1" in text) for text in completions]


class Noise:
    level = 1e-6

    def _get_per_token_logps_and_entropies(self, *args, **kwargs):
        logps, entropies, other = super()._get_per_token_logps_and_entropies(*args, **kwargs)
        dice = torch.Generator().manual_seed(self.state.global_step)
        noise = self.level * torch.randn(logps.shape, generator=dice)
        return logps + noise, None if entropies is None else entropies + noise.abs(), other


@pytest.mark.parametrize("method", METHODS)
def test_rounding_moves_no_update(tmp_path, method):
    settings = STEPS | {"advantage_shaping": method, "reward": has_one} | LIVELY.get(method, {})
    exact, noisy = (update_of(make(tmp_path, SteerGRPOTrainer, *mixins, **settings)) for mixins in ((), (Noise,)))
    assert differ(noisy, exact) < 1e-3


@pytest.mark.parametrize("level", [1e-6, 1e-2])
def test_kl_cov_changes_nothing_in_the_first_step_of_a_rollout(tmp_path, level):
    """No token has moved by then, also where two passes differ as much as in bfloat16."""
    mixin = type("Louder", (Noise,), {"level": level})
    settings = STEPS | {"max_steps": 1, "reward": has_one}
    plain = update_of(make(tmp_path, SteerGRPOTrainer, mixin, advantage_shaping="none", **settings | UNCLIPPED))
    held = make(
        tmp_path,
        SteerGRPOTrainer,
        mixin,
        advantage_shaping="kl_cov",
        **of_method("kl_cov", fraction=0.5),
        **settings,
    )
    assert torch.equal(update_of(held), plain)
    assert held.state.log_history[0]["kl_cov/held"] == 0
