"""The methods, one short file each, under the names that `advantage_shaping` in the configuration takes."""

import pkgutil
from typing import TYPE_CHECKING

from steer_trl.shaping.base import Paper, Shaper
from steer_trl.shaping.batch import Rollout, TokenBatch
from steer_trl.shaping.compose import (
    Shaped,
    act_on_rollouts,
    combination_complaints,
    compares_tokens,
    measured,
    shape_rollout,
    shaped,
)
from steer_trl.shaping.methods.clip_cov import ClipCov
from steer_trl.shaping.methods.dcpo import Dcpo
from steer_trl.shaping.methods.edge_grpo import EdgeGrpo
from steer_trl.shaping.methods.entropy_advantage import EntropyAdvantage
from steer_trl.shaping.methods.fork_tokens import ForkTokens
from steer_trl.shaping.methods.grpo_s import GrpoS
from steer_trl.shaping.methods.gtpo import Gtpo
from steer_trl.shaping.methods.kl_cov import KlCov
from steer_trl.shaping.methods.opo import Opo
from steer_trl.shaping.methods.position import Position
from steer_trl.shaping.methods.ppl import Ppl
from steer_trl.shaping.methods.quadrant import Quadrant
from steer_trl.shaping.methods.stare import Stare
from steer_trl.shaping.methods.steer import Steer
from steer_trl.shaping.methods.unlikelihood import Unlikelihood
from steer_trl.shaping.methods.w_reinforce import Nsr, Psr, WReinforce

if TYPE_CHECKING:
    from steer_trl.config import SteerGRPOConfig

__all__ = [
    "SHAPERS",
    "Paper",
    "Rollout",
    "Shaped",
    "Shaper",
    "TokenBatch",
    "act_on_rollouts",
    "combination_complaints",
    "compares_tokens",
    "find_shaper",
    "make_shapers",
    "measured",
    "shape_rollout",
    "shaped",
    "short_name",
]

SHAPERS: dict[str, type[Shaper]] = {
    "steer": Steer,
    "stare": Stare,
    "quadrant": Quadrant,
    "entropy_advantage": EntropyAdvantage,
    "clip_cov": ClipCov,
    "kl_cov": KlCov,
    "w_reinforce": WReinforce,
    "psr": Psr,
    "nsr": Nsr,
    "opo": Opo,
    "gtpo": Gtpo,
    "grpo_s": GrpoS,
    "edge_grpo": EdgeGrpo,
    "ppl": Ppl,
    "position": Position,
    "unlikelihood": Unlikelihood,
    "dcpo": Dcpo,
    "fork_tokens": ForkTokens,
}


def find_shaper(name: str) -> type[Shaper]:
    """Return the method of that name, or the subclass of [`Shaper`] at that import path (`my_module.MyShaper`).

    Raises:
        `ValueError`: there is none, with the reason.
    """
    if name in SHAPERS:
        return SHAPERS[name]
    if not isinstance(name, str) or not ("." in name or ":" in name):
        known = ", ".join(map(repr, (*SHAPERS, "none")))
        raise ValueError(
            f"advantage_shaping={name!r} is unknown. Use one of {known}, or the import path of a subclass of "
            "steer_trl.shaping.Shaper."
        )
    try:
        found = pkgutil.resolve_name(name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ValueError(
            f"advantage_shaping={name!r} is refused: {error}. Put the file where Python finds it, for instance with "
            "PYTHONPATH=. before the command."
        ) from error
    if not (isinstance(found, type) and issubclass(found, Shaper)):
        raise ValueError(
            f"advantage_shaping={name!r} is refused: it does not derive from steer_trl.shaping.Shaper. Let it do so."
        )
    if complaints := found.definition_complaints():
        raise ValueError(f"advantage_shaping={name!r} is refused: {' Also, '.join(complaints)}")
    return found


def short_name(name: str) -> str:
    """Return what a method is called in a text: its name, or the class at the end of an import path."""
    return name.replace(":", ".").rpartition(".")[2]


def make_shapers(args: "SteerGRPOConfig") -> dict[str, Shaper]:
    """Make the methods that `args.advantage_shaping` names, by name; empty for `"none"`."""
    return {name: find_shaper(name)(args) for name in args.shaping_names}
