"""What is compared, one row each: the settings that differ from the task's, and the seeds."""

SEEDS = range(5)
TARGETS = (0.8, 0.65, 0.5)  # of the initial entropy

HELD = {
    "REPO-R": {"advantage_shaping": "repo_r"},
    "STARE C2": {"advantage_shaping": "stare", "stare_variant": "C2", "stare_gate": "none"},
    "entropy change": {"advantage_shaping": "entropy_change"},
}
AS_PUBLISHED = {
    "GRPO": {"advantage_shaping": "none"},
    "clip-higher": {"advantage_shaping": "none", "epsilon_high": 0.4},
    "entropy bonus": {"advantage_shaping": "none", "entropy_coef": 0.001},
    "adaptive entropy bonus": {
        "advantage_shaping": "none",
        "use_adaptive_entropy": True,
        "entropy_target": 0.25,  # nats: 0.8 of this start's first entropy
        "entropy_coef_delta": 1e-4,
        "entropy_coef_max": 0.005,
    },
    "STEER": {"advantage_shaping": "steer"},
    "STARE C2 gate": {
        "advantage_shaping": "stare",
        "stare_variant": "C2",
        "stare_target_entropy": 0.8,
        "stare_target_entropy_unit": "initial",
    },
    "STARE C2 adaptive": {
        "advantage_shaping": "stare",
        "stare_variant": "C2",
        "stare_target_entropy": 0.8,
        "stare_target_entropy_unit": "initial",
        "stare_adaptive": True,
    },
}
# Half of the steps: it generates up to twice as much for each, and is compared over generated tokens.
SAMPLING = {"dynamic_sampling": "resample", "max_steps": 500, "eval_every": 125}
RESAMPLED = ", dynamic sampling"
HELD_AT = {
    f"{name} held at {target}": settings | {"hold_entropy": target}
    for name, settings in HELD.items()
    for target in TARGETS
}
ARMS = {
    name + suffix: settings | sampling
    for suffix, sampling in (("", {}), (RESAMPLED, SAMPLING))
    for name, settings in (AS_PUBLISHED | HELD_AT).items()
}
"""Name in the tables -> fields of the task's command."""

EARLIER = ", earlier regulator"
"""Runs of `hold_entropy` as it was first: it led the entropy to its level along a path of sixty rollouts, also down,
where the method can (as `hold_entropy_spends` does now), and took the level from the first rollout alone."""
PUBLISHED = [
    *(name + suffix for suffix in ("", RESAMPLED) for name in AS_PUBLISHED | HELD_AT),
    *(name + EARLIER + suffix for suffix in ("", RESAMPLED) for name in HELD_AT),
]
"""All names that a published run can have, in the order of the tables."""
