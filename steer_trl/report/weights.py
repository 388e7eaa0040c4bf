"""Describes how the methods of a run weight tokens, in phrases for the page and the model card."""

from collections.abc import Mapping, Sequence
from typing import Any

from steer_trl.options.stare_variants import amplifies, attenuates

PLAIN = "plain GRPO: every token of a completion has the same weight"


def describe_weights(methods: Sequence[str], settings: Mapping[str, Any]) -> list[str]:
    """Return a phrase that describes each method.

    If `hold_entropy` or dynamic sampling is on, a further phrase describes it. `settings` holds all settings of the
    configuration, including those left at their default. A missing setting is not described, because the version that
    made the run may have had another default.
    """
    phrases = [_describe_stare(settings) if name == "stare" else _describe_method(name, settings) for name in methods]
    if settings.get("hold_entropy") is not None:
        level = _describe_level(settings["hold_entropy"], settings.get("hold_entropy_unit"))
        phrases.append(f"its strength moves to hold the entropy at {level}")
    if settings.get("dynamic_sampling") == "resample":
        phrases.append("dynamic sampling")
    return phrases if methods else [PLAIN, *phrases]


def _describe_method(name: str, settings: Mapping[str, Any]) -> str:
    """Return the name of a method, followed by its settings and options."""
    # Runs of earlier versions have flat settings, such as f_grpo_gamma.
    flat = {key.removeprefix(name).strip("_"): value for key, value in settings.items() if key.startswith(name)}
    options = settings.get("shaping_options")
    nested = options.get(name) if isinstance(options, Mapping) else None
    values = flat | dict(nested if isinstance(nested, Mapping) else {})
    parts = [f"{key} {value}".strip() for key, value in values.items() if value is not None]
    return f"{name} ({', '.join(parts)})" if parts else name


def _describe_stare(settings: Mapping[str, Any]) -> str:
    """Return the variant of STARE with its constant weights, and its gate."""
    recorded = settings.get("stare_variant") or ()
    variant = tuple(map(str, recorded if isinstance(recorded, (list, tuple)) else [recorded]))
    parts = [f"STARE {' + '.join(variant)}".strip()]
    is_constant = settings.get("hold_entropy") is None
    if is_constant and amplifies(variant) and "stare_amplify" in settings:
        parts.append(f"W {settings['stare_amplify']}")
    if is_constant and attenuates(variant) and "stare_attenuate" in settings:
        parts.append(f"M {settings['stare_attenuate']}")
    gate = settings.get("stare_gate")
    if gate == "none":
        parts.append("no gate")
    elif gate is not None and {"stare_target_entropy", "stare_target_entropy_unit"} <= settings.keys():
        level = _describe_level(settings["stare_target_entropy"], settings["stare_target_entropy_unit"])
        parts.append(f"{gate} gate below {level}")
    return ", ".join(parts)


def _describe_level(level: Any, unit: Any) -> str:
    """Return the level with its unit, or without one if the unit is not known."""
    units = {"initial": " of its start", "nats": " nats"}
    return f"{level}{units.get(unit, '')}"
