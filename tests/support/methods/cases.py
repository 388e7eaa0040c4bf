"""What the tests know of each method, one row each: the tests of all methods loop over these rows."""

import math
from typing import NamedTuple

from steer_trl.shaping import SHAPERS
from support.methods import oracles

UNCLIPPED = {"epsilon": 1.0, "epsilon_high": 1e9, "delta": None}


class Case(NamedTuple):
    neutral: list = []  # settings, each of which leaves it nothing to do
    lively: dict = {}  # settings for a hundred tokens: the papers' shares and bounds are for thousands
    wrong: dict = {}  # values of its settings that are refused
    oracles: list = []  # (what it makes of a group, in loops over plain numbers; settings)
    scored: int = 0  # of eight completions in two micro-batches: how many get a forward pass of their own
    fetched: tuple = (0, 0)  # bytes per token from other ranks (mask 1, numbers 4): always; where a group lies across
    marks: list = []  # shares of tokens that it logs
    needs: dict = {}  # TRL's settings that its own loss needs


CASES = {
    "steer": Case(
        neutral=[{"steer_lambda_min": 1.0}, {"steer_lambda_min": 1.0, "steer_form": "exact"}],
        lively={"steer_lambda_min": 0.3},
        wrong={"steer_form": ["papr"], "steer_scale_quantile": [0.0, 1.1, math.nan, "max"]},
        scored=4,
    ),
    "stare": Case(
        neutral=[{"stare_variant": "C2", "stare_amplify": 1.0, "stare_attenuate": 1.0}, {"stare_top_fraction": 0.0}],
        lively={
            "stare_variant": "C3",
            "stare_low_set": "bottom",
            "stare_gate": "sample",
            "stare_target_entropy": 1.0,
            "stare_target_entropy_unit": "initial",
        },
        wrong={"stare_gate": ["row"], "stare_low_set": ["top"], "stare_fixed_probability": [0.0, 1.0]},
        scored=4,
    ),
    "repo_r": Case(
        neutral=[{"repo_r_zeta": 0.0}],
        lively={"repo_r_zeta": 0.5},
        wrong={"repo_r_zeta": [-1.1, math.nan, "0.1"], "repo_r_max_weight": [0.9, math.inf]},
    ),
    "quadrant": Case(
        neutral=[{"quadrant_fraction": 0.0}],
        lively={"quadrant": "II", "quadrant_fraction": 0.5},
        wrong={
            "quadrant": ["V", None],
            "quadrant_action": ["drop"],
            "quadrant_fraction": [-0.1, 1.1, math.nan, "0.1"],
        },
        marks=["quadrant/drawn"],
    ),
    "entropy_advantage": Case(
        neutral=[{"entropy_advantage_alpha": 0.0}],
        wrong={"entropy_advantage_alpha": [-0.1, math.inf], "entropy_advantage_kappa": [1.0, 0.5]},
    ),
    "entropy_change": Case(
        neutral=[{"entropy_change_strength": 0.0}],
        lively={"entropy_change_strength": 1.0},
        wrong={
            "entropy_change_strength": [-1.1, 1.1, math.nan, "0.5"],
            "entropy_change_quantile": [-0.1, 1.1, math.nan],
        },
        scored=4,
    ),
    "clip_cov": Case(
        neutral=[{"clip_cov_fraction": 0.0}],
        lively={"clip_cov_fraction": 0.2, "clip_cov_lower": -9.0, "clip_cov_upper": 9.0},
        wrong={
            "clip_cov_fraction": [-1e-4, 1.5],
            "clip_cov_lower": [5.0, math.nan, "1"],
            "clip_cov_upper": [1.0, math.nan],
        },
        scored=4,
        marks=["clip_cov/dropped"],
    ),
    "kl_cov": Case(
        neutral=[{"kl_cov_fraction": 0.0}, {"kl_cov_coef": 0.0}],
        lively={"kl_cov_fraction": 0.2},
        wrong={"kl_cov_fraction": [-0.1, 2], "kl_cov_coef": [-1.0, math.nan]},
        scored=4,
        marks=["kl_cov/held"],
        needs=UNCLIPPED,
    ),
    "w_reinforce": Case(
        wrong={"w_reinforce_positive": [-0.1, True], "correct_threshold": ["0", None, math.nan]},
        oracles=[(oracles.w_reinforce, {})],
        fetched=(0, 1),
    ),
    "psr": Case(fetched=(1, 1)),
    "nsr": Case(fetched=(1, 1)),
    "opo": Case(oracles=[(oracles.opo, {})], fetched=(0, 1)),
    "gtpo": Case(
        wrong={
            "gtpo_reward_weight": [0.0, -1.0],
            "gtpo_entropy_weight": [-0.1],
            "gtpo_normalize": ["apart"],
            "gtpo_version": ["v3"],
        },
        oracles=[
            (oracles.gtpo, {}),
            (oracles.gtpo_v1, {"gtpo_version": "v1"}),
            (oracles.gtpo_separate, {"gtpo_normalize": "separate"}),
        ],
        scored=8,
        fetched=(0, 5),
    ),
    "grpo_s": Case(
        lively={"grpo_s_epsilon_low": 1e-3, "grpo_s_epsilon_high": 1e-3},
        wrong={"grpo_s_epsilon_low": [-0.1, 1.1], "grpo_s_epsilon_high": [-0.1]},
        oracles=[(oracles.grpo_s, {})],
        scored=8,
        fetched=(0, 5),
        marks=["grpo_s/clipped_low", "grpo_s/clipped_high"],
        needs=UNCLIPPED | {"loss_type": "grpo"},
    ),
    "edge_grpo": Case(
        neutral=[{"edge_grpo_clamp": [1, 1]}],
        wrong={"edge_grpo_clamp": [[0.0, 1.0], [2.0, 1.0], [1.0], [math.nan, 1.0], 0.5, ["0.1", 10]]},
        oracles=[(oracles.edge_grpo, {})],
        scored=8,
        fetched=(0, 5),
    ),
    "ppl": Case(
        neutral=[{"ppl_alpha": 0.0}],
        lively={"ppl_alpha": 0.3, "ppl_scope": "rollout"},
        wrong={"ppl_alpha": [-0.01, 0.34], "ppl_scope": ["batch"]},
        oracles=[(oracles.ppl, {})],
        scored=8,
        fetched=(5, 5),
    ),
    "position": Case(
        neutral=[{"position_gamma": 0.0}],
        wrong={"position_gamma": [-0.1], "position_slope": [-1.0]},
        oracles=[(oracles.position, {})],
        fetched=(0, 1),
    ),
    "unlikelihood": Case(
        neutral=[{"unlikelihood_beta": 0.0}],
        lively={"unlikelihood_beta": 1.0},
        wrong={"unlikelihood_beta": [-0.1, 1.1]},
        oracles=[(oracles.unlikelihood, {})],
        scored=8,
        fetched=(0, 5),
    ),
    "dcpo": Case(
        lively={"dcpo_smooth": True, "dcpo_epsilon_low": 1e-3, "dcpo_epsilon_high": 1e-3},
        wrong={"dcpo_epsilon_low": [-0.1, math.nan], "dcpo_epsilon_high": [-0.1], "dcpo_dual_clip": [0.9]},
        fetched=(1, 1),
        marks=["dcpo/clipped_low", "dcpo/clipped_high"],
        needs=UNCLIPPED,
    ),
    "fork_tokens": Case(neutral=[{"fork_tokens_fraction": 1.0}], wrong={"fork_tokens_fraction": [0.0, 1.1]}, scored=4),
}


def threshold(name, value):
    """The setting of what counts as correct, for a method that asks."""
    return {"correct_threshold": value} if name in SHAPERS and SHAPERS[name].tells_correct else {}
