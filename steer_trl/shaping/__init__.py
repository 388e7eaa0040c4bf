"""Methods that shape advantages: their base class, their combination, and their registry by name."""

from steer_trl.shaping.base import Paper, Shaper
from steer_trl.shaping.batch import Rollout, TokenBatch
from steer_trl.shaping.compose import (
    Shaped,
    find_active,
    find_entropy_coef,
    find_kl_coef,
    find_rollout_methods,
    measure_all,
    replaces_kl,
    shape_batch,
    shape_rollout,
)
from steer_trl.shaping.methods import SHAPERS, find_shaper, make_shapers
from steer_trl.shaping.reads import Reads

__all__ = [
    "SHAPERS",
    "Paper",
    "Reads",
    "Rollout",
    "Shaped",
    "Shaper",
    "TokenBatch",
    "find_active",
    "find_entropy_coef",
    "find_kl_coef",
    "find_rollout_methods",
    "find_shaper",
    "make_shapers",
    "measure_all",
    "replaces_kl",
    "shape_batch",
    "shape_rollout",
]
