"""The methods that `advantage_shaping` can name, and their settings. Each paper has its own file.

To add a method, add its class to `SHAPERS`.
"""

import pkgutil
from typing import Any

from steer_trl.options.base import ShapingConfig
from steer_trl.shaping.base import Shaper
from steer_trl.shaping.methods.covariance import ClipCov, KlCov
from steer_trl.shaping.methods.dcpo import Dcpo
from steer_trl.shaping.methods.differential_smoothing import DifferentialSmoothing
from steer_trl.shaping.methods.difficulty import FGrpo, MaxRL, PassAtK
from steer_trl.shaping.methods.edge_grpo import EdgeGrpo
from steer_trl.shaping.methods.entrocraft import Entrocraft
from steer_trl.shaping.methods.entropy_advantage import EntropyAdvantage
from steer_trl.shaping.methods.entropy_bonus import EntropyBonus
from steer_trl.shaping.methods.entropy_change import EntropyChange
from steer_trl.shaping.methods.fork_tokens import ForkTokens
from steer_trl.shaping.methods.gtpo import GrpoS, Gtpo
from steer_trl.shaping.methods.js_to_start import JsToStart
from steer_trl.shaping.methods.kl import Kl
from steer_trl.shaping.methods.opo import Opo
from steer_trl.shaping.methods.ppl_position import Position, Ppl
from steer_trl.shaping.methods.repo_r import RepoR
from steer_trl.shaping.methods.stare import Stare
from steer_trl.shaping.methods.steer import Steer
from steer_trl.shaping.methods.unlikelihood import Unlikelihood
from steer_trl.shaping.methods.w_reinforce import Nsr, Psr, WReinforce
from steer_trl.support.exceptions import InvalidValueError
from steer_trl.support.validation import did_you_mean, why_not_imported

SHAPERS: dict[str, type[Shaper]] = {
    "steer": Steer,
    "stare": Stare,
    "repo_r": RepoR,
    "clip_cov": ClipCov,
    "dcpo": Dcpo,
    "differential_smoothing": DifferentialSmoothing,
    "maxrl": MaxRL,
    "f_grpo": FGrpo,
    "pass_at_k": PassAtK,
    "edge_grpo": EdgeGrpo,
    "entrocraft": Entrocraft,
    "entropy_advantage": EntropyAdvantage,
    "entropy_bonus": EntropyBonus,
    "entropy_change": EntropyChange,
    "fork_tokens": ForkTokens,
    "grpo_s": GrpoS,
    "gtpo": Gtpo,
    "js_to_start": JsToStart,
    "kl": Kl,
    "kl_cov": KlCov,
    "opo": Opo,
    "position": Position,
    "ppl": Ppl,
    "unlikelihood": Unlikelihood,
    "w_reinforce": WReinforce,
    "psr": Psr,
    "nsr": Nsr,
}


READERS: dict[str, list[str]] = {}
"""Maps each setting that only some methods read to the names of these methods."""
for _name, _method in SHAPERS.items():
    _method.name = _name
    for _setting in _method.settings():
        READERS.setdefault(_setting, []).append(_name)


def find_shaper(name: Any, setting: str = "advantage_shaping") -> type[Shaper]:
    """Return the method called `name`, or the subclass of [`Shaper`] at the import path `name`.

    `setting` is the setting that names it, for errors.
    """
    if name in SHAPERS:
        return SHAPERS[name]
    if not is_import_path(name):
        names = ", ".join(map(repr, (*SHAPERS, "none")))
        raise InvalidValueError(
            f"{setting}={name!r} is unknown.{did_you_mean(name, SHAPERS)} Use one of {names}, or the import "
            "path of a subclass of steer_trl.shaping.Shaper."
        )
    try:
        method = pkgutil.resolve_name(name)
    except (Exception, SystemExit) as error:
        raise InvalidValueError(
            f"{setting}={name!r} cannot be imported: {why_not_imported(error)}. Put the file where Python "
            "finds it, for instance with PYTHONPATH=. before the command."
        ) from error
    if not (isinstance(method, type) and issubclass(method, Shaper)):
        raise InvalidValueError(f"{setting}={name!r} must be a subclass of steer_trl.shaping.Shaper.")
    return method


def is_import_path(name: Any) -> bool:
    """Return whether a name is the path of a class, such as `module.Class` or `module:Class`."""
    return isinstance(name, str) and ("." in name or ":" in name)


def make_shapers(args: ShapingConfig) -> dict[str, Shaper]:
    """Return a dict that maps each name in `args.advantage_shaping` to a new instance of its method."""
    return {name: find_shaper(name)(args) for name in args.shaping_names}
