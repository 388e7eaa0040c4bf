# What `__init__.py` finds in this folder, for type checkers and editors; written by make settings.
from dataclasses import dataclass

from steer_trl.options.base import ShapingConfig
from steer_trl.shaping.base import Shaper
from steer_trl.shaping.methods.clip_bounds import ClipBoundsOptions
from steer_trl.shaping.methods.clip_cov import ClipCovOptions
from steer_trl.shaping.methods.dcpo import DcpoOptions
from steer_trl.shaping.methods.difficulty import FGrpoOptions, PassAtKOptions
from steer_trl.shaping.methods.edge_grpo import EdgeGrpoOptions
from steer_trl.shaping.methods.entropic import EntropicOptions
from steer_trl.shaping.methods.entropy_advantage import EntropyAdvantageOptions
from steer_trl.shaping.methods.entropy_bonus import EntropyBonusOptions
from steer_trl.shaping.methods.entropy_change import EntropyChangeOptions
from steer_trl.shaping.methods.fork_tokens import ForkTokensOptions
from steer_trl.shaping.methods.grpo_s import GrpoSOptions
from steer_trl.shaping.methods.gtpo import GtpoOptions
from steer_trl.shaping.methods.kl_cov import KlCovOptions
from steer_trl.shaping.methods.position import PositionOptions
from steer_trl.shaping.methods.ppl import PplOptions
from steer_trl.shaping.methods.quadrant import QuadrantOptions
from steer_trl.shaping.methods.repo_r import RepoROptions
from steer_trl.shaping.methods.rsi import RsiOptions
from steer_trl.shaping.methods.stare import StareOptions
from steer_trl.shaping.methods.steer import SteerOptions
from steer_trl.shaping.methods.ucpo import UcpoOptions
from steer_trl.shaping.methods.unlikelihood import UnlikelihoodOptions
from steer_trl.shaping.methods.w_reinforce import WReinforceOptions

SHAPERS: dict[str, type[Shaper]]
SETTINGS: dict[str, list[str]]
OPTIONS: tuple[type[ShapingConfig], ...]

@dataclass
class MethodOptions(
    SteerOptions,
    StareOptions,
    RepoROptions,
    ClipBoundsOptions,
    ClipCovOptions,
    DcpoOptions,
    FGrpoOptions,
    PassAtKOptions,
    EdgeGrpoOptions,
    EntropicOptions,
    EntropyAdvantageOptions,
    EntropyBonusOptions,
    EntropyChangeOptions,
    ForkTokensOptions,
    GrpoSOptions,
    GtpoOptions,
    KlCovOptions,
    PositionOptions,
    PplOptions,
    QuadrantOptions,
    RsiOptions,
    UcpoOptions,
    UnlikelihoodOptions,
    WReinforceOptions,
): ...
