"""The names that a published run can have, in the order of the tables."""

TARGETS = (0.8, 0.65, 0.5)  # of the initial entropy
AS_PUBLISHED = ["GRPO", "clip-higher", "entropy bonus", "adaptive entropy bonus"]
AS_PUBLISHED += ["STEER", "STARE C2 gate", "STARE C2 adaptive"]
HELD_AT = [f"{name} held at {target}" for name in ("REPO-R", "STARE C2", "entropy change") for target in TARGETS]
RESAMPLED = ", dynamic sampling"
EARLIER = ", earlier regulator"
"""Runs of `hold_entropy` as it was first: it led the entropy to its level along a path of sixty rollouts, also down,
where the method can (as `hold_entropy_spends` does now), and took the level from the first rollout alone."""
PUBLISHED = [
    *(name + suffix for suffix in ("", RESAMPLED) for name in AS_PUBLISHED + HELD_AT),
    *(name + EARLIER + suffix for suffix in ("", RESAMPLED) for name in HELD_AT),
]
