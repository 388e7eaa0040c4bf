"""Settings of methods that are not in use: they would be ignored, and somebody forgot to switch the method on."""

from collections.abc import Collection, Iterable
from typing import Any

from steer_trl import redact
from steer_trl.options.base import ShapingConfig
from steer_trl.shaping.methods import SETTINGS, SHAPERS


def unread(settings: Iterable[str], names: Collection[str]) -> list[str]:
    """Return those of `settings` that none of the methods `names` reads; of a custom method nobody knows."""
    if not set(names) <= set(SHAPERS):
        return []
    return [setting for setting in settings if setting in SETTINGS and not set(SETTINGS[setting]) & set(names)]


def defaults(configuration: type[ShapingConfig]) -> dict[str, Any]:
    """Return the default of every setting that only some methods read."""
    return {name: value for name, value in redact.defaults(configuration).items() if name in SETTINGS}


def unused_complaints(names: Collection[str], args: ShapingConfig, read_elsewhere: Collection[str] = ()) -> list[str]:
    """Refuse each setting that is not at its default, and that neither a method in use nor anything else reads."""
    complaints = []
    changed = [name for name, value in defaults(type(args)).items() if getattr(args, name) != value]
    for setting in unread([name for name in changed if name not in read_elsewhere], names):
        readers = SETTINGS[setting]
        wanted = [*names, readers[0]]
        complaints.append(
            f"{setting}={getattr(args, setting)!r} is a setting of {' and '.join(map(repr, readers))}, which "
            f"advantage_shaping={args.advantage_shaping!r} does not use, so it would be ignored. Set "
            f"advantage_shaping to {wanted if len(wanted) > 1 else wanted[0]!r}, or leave it unset."
        )
    return complaints
