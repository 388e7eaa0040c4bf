"""The arms of the short runs that test the papers' claims. For each claim, arms differ in a single setting.

Everything else is GRPO with the authors' clip bounds (0.2 and 0.28) and four optimizer steps per rollout. The entropy
changes visibly within these runs; the accuracy changes less.
"""

from typing import Any

Settings = dict[str, Any]

C2: Settings = {"advantage_shaping": "stare", "stare_variant": "C2"}
UNGATED: Settings = C2 | {"stare_gate": "none"}
RELATIVE: Settings = {"stare_target_entropy": 0.8, "stare_target_entropy_unit": "initial"}
EXTREME: Settings = {"epsilon": 0.99, "epsilon_high": 5.0, "delta": 10.0}
STEER: Settings = {"advantage_shaping": "steer", "steer_form": "paper"}


def strength(amplify: float, attenuate: float) -> Settings:
    """Return the settings for STARE's weights W (amplify) and M (attenuate)."""
    return {"stare_amplify": amplify, "stare_attenuate": attenuate}


STRENGTHS = ((1.1, 0.9), (1.25, 0.8), (1.5, 0.67), (2.0, 0.5), (2.5, 0.4), (3.0, 0.33), (4.0, 0.25))
STRONG = strength(2.5, 0.4)
QUADRANTS = {
    f"quadrant {quadrant}, {action}, {fraction:g}": {
        "advantage_shaping": "quadrant.Quadrant",
        "shaping_options": {"quadrant": quadrant, "action": action, "fraction": fraction},
        "epsilon_high": 0.2,
    }
    for quadrant in ("I", "II", "III", "IV")
    for action in ("mask", "double")
    for fraction in (0.05, 0.2)
}

ARMS: dict[str, Settings] = {
    "GRPO": {},
    # The clip bounds (STEER, Fig. 7, 9).
    "epsilon_high 0.2": {"epsilon_high": 0.2},
    "epsilon_high 0.4": {"epsilon_high": 0.4},
    "epsilon_high 1": {"epsilon_high": 1.0},
    "epsilon 0.1": {"epsilon": 0.1},
    "epsilon 0.4": {"epsilon": 0.4},
    # Rollouts at higher temperatures (STEER, App. B).
    **{f"temperature {value:g}": {"temperature": value} for value in (1.2, 1.5)},
    # STARE's W and M without a gate, and REPO-R's zeta, to find where the entropy's trend changes its sign.
    **{f"C2 W {w:g} M {m:g}": UNGATED | strength(w, m) for w, m in STRENGTHS},
    **{
        f"REPO-R zeta {zeta:g}": {"advantage_shaping": "repo_r", "shaping_options": {"repo_r": {"zeta": zeta}}}
        for zeta in (0.05, 0.1, 0.2, 0.4)
    },
    # STEER's lambda_min and mappings (Fig. 13, Table 2), and almost no clipping (Fig. 14, Table 4).
    **{f"STEER {value:g}": STEER | {"steer_lambda_min": value} for value in (0.8, 0.7, 0.6, 0.1)},
    "STEER linear": STEER
    | {
        "steer_mapping": "linear",
        "steer_lambda_min": 0.7,
        "shaping_options": {"steer": {"lambda_max": 1.2, "signed": True}},
    },
    "STEER binary": STEER
    | {
        "steer_mapping": "binary",
        "steer_lambda_min": 0.7,
        "shaping_options": {"steer": {"quantile": 0.8, "signed": True}},
    },
    "extreme clipping, GRPO": EXTREME,
    "extreme clipping, STEER 0.7": STEER | {"steer_lambda_min": 0.7} | EXTREME,
    "extreme clipping, entropy bonus": {"entropy_coef": 0.001} | EXTREME,
    "extreme clipping, entropy advantage": {"advantage_shaping": "entropy_advantage"} | EXTREME,
    # Only positive or only negative samples (Fig. 8), and methods that according to STEER fluctuate or cannot hold
    # the entropy (Fig. 11, App. B).
    "PSR": {"advantage_shaping": "psr"},
    "NSR": {"advantage_shaping": "nsr"},
    "entropy advantage": {"advantage_shaping": "entropy_advantage"},
    "GTPO": {"advantage_shaping": "gtpo"},
    "Clip-Cov": {"advantage_shaping": "clip_cov", "epsilon": 1.0, "epsilon_high": 1.0},
    "KL-Cov": {"advantage_shaping": "kl_cov", "epsilon": 1.0, "epsilon_high": 1e9},
    **{f"entropy bonus {value:g}": {"entropy_coef": value} for value in (0.0003, 0.001, 0.003, 0.01, 0.03)},
    **{f"KL {value:g}": {"beta": value, "use_bias_correction_kl": False} for value in (0.001, 0.01, 0.05)},
    # STARE: variants, share, gate, threshold, schedule, and its own setting of one optimizer step per rollout.
    **{f"{name} W 2.5": UNGATED | {"stare_variant": name, "stare_amplify": 2.5} for name in ("O1", "O3", "C1")},
    **{f"{name} M 0.4": UNGATED | {"stare_variant": name, "stare_attenuate": 0.4} for name in ("O2", "O4", "C4")},
    "C3 W 2.5 M 0.4": UNGATED | {"stare_variant": "C3"} | STRONG,
    **{f"C2 top {share:g}": UNGATED | STRONG | {"stare_top_fraction": share} for share in (0.05, 0.2, 0.4)},
    **{f"C2 gate, W {w:g} M {m:g}": C2 | RELATIVE | strength(w, m) for w, m in ((1.1, 0.9), (2.5, 0.4), (4.0, 0.25))},
    **{f"C2 gate by {gate}": C2 | RELATIVE | STRONG | {"stare_gate": gate} for gate in ("sample", "token")},
    "C2 adaptive": C2 | RELATIVE | {"stare_adaptive": True},
    "C2 fixed probability 0.1": UNGATED | STRONG | {"advantage_shaping": "fixed_probability.FixedProbability"},
    "one step a rollout, GRPO": {"steps_per_generation": 1},
    "one step a rollout, C2 W 2.5 M 0.4": UNGATED | STRONG | {"steps_per_generation": 1},
    # Interventions on a quadrant's tokens (STEER, Fig. 6, 22). Their GRPO baseline is "epsilon_high 0.2".
    **QUADRANTS,
}
"""Maps the name of an arm to the fields of `SteerGRPOConfig` that differ from the task's."""
