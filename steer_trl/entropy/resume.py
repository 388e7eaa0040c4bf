"""The path of the target in a resumed run.

- At another level, it is the path of the present settings.
- At the same level, it is the saved path, also if this version has other defaults. But the final target is that of the
  settings if `hold_entropy_final` or its unit has changed, and the release is that of the settings if the learning
  rates, `hold_entropy_until` or `hold_entropy_decay_start` have changed.
"""

from collections.abc import Mapping
from typing import Any

from steer_trl.entropy.target import TargetPath
from steer_trl.options.base import ShapingConfig

FINAL, UNIT = "hold_entropy_final", "hold_entropy_unit"
RELEASE = ("hold_entropy_until", "hold_entropy_decay_start")
SAME_LEVEL = 1e-9
"""Two levels count as the same up to this relative difference, because a level may be written in two units."""
SAME_SHARE = 0.01
"""Two shares of the run count as the same up to this difference, because they are rounded to the steps of a run."""


def path_settings(args: ShapingConfig, release_start: float) -> dict[str, Any]:
    """Return the settings of the path that a checkpoint saves, apart from its level.

    `release_start` is the share of the run after which the target falls under these settings and the learning rates.
    A path that goes on from an earlier checkpoint may have another one.
    """
    return {name: getattr(args, name) for name in (FINAL, UNIT, *RELEASE)} | {"release_start": release_start}


def continue_path(path: TargetPath, state: Mapping[str, Any], args: ShapingConfig, release_start: float) -> TargetPath:
    """Return the path of a resumed run.

    `path` and `release_start` are those of the present settings, and `state` is that of the checkpoint.
    """
    saved = TargetPath.read(state)
    if abs(path.level - saved.level) > SAME_LEVEL * saved.level:
        return path
    path = path._replace(level=saved.level)
    # Checkpoints from before the target fell by default have no settings, and count as if none was set.
    settings = {UNIT: getattr(args, UNIT), "release_start": release_start, **state.get("settings", {})}
    unchanged = {name for name in (FINAL, UNIT, *RELEASE) if settings.get(name) == getattr(args, name)}
    # A final target that is not set is a share of the level, in any unit.
    if FINAL in unchanged and (UNIT in unchanged or getattr(args, FINAL) is None):
        path = path._replace(final=saved.final)
    is_release_unmoved = abs(settings["release_start"] - release_start) <= SAME_SHARE
    if is_release_unmoved and unchanged >= set(RELEASE):
        path = path._replace(release_start=saved.release_start)
    return path
