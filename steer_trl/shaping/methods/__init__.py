"""The methods, one file each: its name for `advantage_shaping`, and its settings. A new one is added here only."""

from dataclasses import dataclass

from steer_trl.shaping.base import Shaper
from steer_trl.shaping.methods.clip_cov import ClipCov, ClipCovOptions
from steer_trl.shaping.methods.dcpo import Dcpo, DcpoOptions
from steer_trl.shaping.methods.edge_grpo import EdgeGrpo, EdgeGrpoOptions
from steer_trl.shaping.methods.entropy_advantage import EntropyAdvantage, EntropyAdvantageOptions
from steer_trl.shaping.methods.entropy_change import EntropyChange, EntropyChangeOptions
from steer_trl.shaping.methods.fork_tokens import ForkTokens, ForkTokensOptions
from steer_trl.shaping.methods.grpo_s import GrpoS, GrpoSOptions
from steer_trl.shaping.methods.gtpo import Gtpo
from steer_trl.shaping.methods.kl_cov import KlCov, KlCovOptions
from steer_trl.shaping.methods.opo import Opo
from steer_trl.shaping.methods.position import Position, PositionOptions
from steer_trl.shaping.methods.ppl import Ppl, PplOptions
from steer_trl.shaping.methods.quadrant import Quadrant, QuadrantOptions
from steer_trl.shaping.methods.repo_r import RepoR, RepoROptions
from steer_trl.shaping.methods.stare import Stare, StareOptions
from steer_trl.shaping.methods.steer import Steer, SteerOptions
from steer_trl.shaping.methods.unlikelihood import Unlikelihood, UnlikelihoodOptions
from steer_trl.shaping.methods.w_reinforce import Nsr, Psr, WReinforce, WReinforceOptions

SHAPERS: dict[str, type[Shaper]] = {
    "steer": Steer,
    "stare": Stare,
    "repo_r": RepoR,
    "quadrant": Quadrant,
    "entropy_advantage": EntropyAdvantage,
    "entropy_change": EntropyChange,
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

SETTINGS: dict[str, list[str]] = {}
"""Which methods read a setting, for each that only some of them do."""
for _name, _method in SHAPERS.items():
    for _setting in _method.settings():
        SETTINGS.setdefault(_setting, []).append(_name)


@dataclass
class MethodOptions(
    SteerOptions,
    StareOptions,
    RepoROptions,
    QuadrantOptions,
    EntropyAdvantageOptions,
    EntropyChangeOptions,
    ClipCovOptions,
    KlCovOptions,
    WReinforceOptions,
    GrpoSOptions,
    EdgeGrpoOptions,
    PplOptions,
    PositionOptions,
    UnlikelihoodOptions,
    DcpoOptions,
    ForkTokensOptions,
):
    """The settings of all methods."""
