"""Leaves out a recipe's settings for methods that the command line, or a nearer recipe, replaces.

A method that is no longer in use takes along
- its settings and options, unless another method in use reads them
- the values of TRL's settings that switch TRL's clipping off, because it has a loss of its own
- `beta`, if it is the coefficient of the method's own divergence

so that the recipe that is extended decides on them, or else TRL's default. Without `hold_entropy`, the settings of the
level are left out.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from steer_trl.cli.recipe_files import merge_layers
from steer_trl.shaping import SHAPERS, Shaper, find_shaper
from steer_trl.shaping.checks import find_unread
from steer_trl.shaping.in_use import add_actuator, name_methods

Settings = Mapping[str, Any]
CHOICES = ("advantage_shaping", "hold_entropy", "hold_entropy_by")
"""Settings that decide which methods are in use."""
OF_LEVEL = "hold_entropy_"
OFF = ("none", "null")


def read_choices(typed: Mapping[str, list[str]]) -> dict[str, Any]:
    """Return the `CHOICES` on a command line, as values of a recipe. `typed` maps names to words."""
    choices = {name: typed[name] for name in CHOICES if typed.get(name)}
    return {name: words if name == "advantage_shaping" else _read_word(words[-1]) for name, words in choices.items()}


def _read_word(word: str) -> str | None:
    return None if word.lower() in OFF else word


def drop_replaced(layers: Sequence[Settings], choices: Settings) -> dict[str, Any]:
    """Return the settings of a recipe without those that a change of the methods or the level leaves unused.

    A setting that stands beside the methods or the level that leave it unused is returned, and the configuration
    refuses it.

    Args:
        layers (`Sequence[Mapping]`): the recipe's own settings, then those of the recipe that it extends, and so on.
        choices (`Mapping`): the `CHOICES` that override the recipe.
    """
    so_far = [merge_layers(layers[place:]) for place in range(len(layers))]
    wanted = merge_layers([choices, *layers])
    after = find_methods(wanted)
    kept: dict[str, Any] = {}
    before: set[str] = set()
    had_level = False
    for layer, settings in zip(layers, so_far, strict=True):
        before |= {*find_methods(settings)}
        had_level |= settings.get("hold_entropy") is not None
        dropped = find_replaced(layer, before, after)
        if had_level and wanted.get("hold_entropy") is None:
            dropped |= {name for name in layer if name.startswith(OF_LEVEL)}
        used = {name: value for name, value in layer.items() if name not in dropped}
        kept = _keep_options(used, before, after) | kept
    return kept


def find_methods(settings: Settings) -> tuple[str, ...]:
    """Return the names of the methods that are in use with these settings."""
    level = settings.get("hold_entropy")
    return add_actuator(name_methods(settings.get("advantage_shaping"), level), level, settings.get("hold_entropy_by"))


def find_replaced(settings: Settings, before: Collection[str], after: Collection[str]) -> set[str]:
    """Return the names of `settings` that belong to methods in `before` and to none in `after`."""
    found = {*find_unread(settings, after)} - {*find_unread(settings, before)}
    used = _find_classes(after)
    for method in _find_classes(name for name in before if name not in after):
        for name, value in method.surrogate.items():
            is_set = name in settings and settings[name] == value
            if is_set and not any(name in other.surrogate for other in used):
                found.add(name)
        if method.replaces_kl and "beta" in settings and not any(other.replaces_kl for other in used):
            found.add("beta")
    return found


def _find_classes(names: Iterable[str]) -> list[type[Shaper]]:
    classes = []
    for name in names:
        # The configuration reports a wrong name, if it is in use.
        with suppress(ValueError):
            classes.append(find_shaper(name))
    return classes


def _keep_options(settings: dict[str, Any], before: Collection[str], after: Collection[str]) -> dict[str, Any]:
    """Return `settings` without the options of methods in `before` that are not in `after`."""
    options = settings.get("shaping_options")
    replaced = [name for name in before if name not in after]
    if not replaced or not isinstance(options, Mapping):
        return settings
    # A custom method's options may stand without its name.
    are_read = any(name not in SHAPERS for name in after) or all(name in SHAPERS for name in replaced)
    kept = {
        name: value
        for name, value in options.items()
        if name not in replaced and (name in SHAPERS or name in after or are_read)
    }
    others = {name: value for name, value in settings.items() if name != "shaping_options"}
    return others | ({"shaping_options": kept} if kept else {})
