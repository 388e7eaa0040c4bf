"""Describes how the methods of a run weight tokens, in phrases for the page and the model card."""

from collections.abc import Mapping, Sequence
from typing import Any

PLAIN = "plain GRPO: every token of a completion has the same weight"
AMPLIFYING = {"O1", "O3", "C1", "C2", "C3"}
ATTENUATING = {"O2", "O4", "C2", "C3", "C4"}
"""The variants of STARE in `AMPLIFYING` use the weight W, and those in `ATTENUATING` use the weight M."""


def describe_weights(methods: Sequence[str], settings: Mapping[str, Any]) -> list[str]:
    """Return a phrase that describes each method.

    If `hold_entropy` or dynamic sampling is on, a further phrase describes it. `settings` holds all settings of the
    configuration, including those left at their default.
    """
    phrases = [_describe_stare(settings) if name == "stare" else _describe_method(name, settings) for name in methods]
    if settings.get("hold_entropy") is not None:
        level = _describe_level(settings["hold_entropy"], settings.get("hold_entropy_unit", "initial"))
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
    own = [f"{key} {value}".strip() for key, value in values.items() if value is not None]
    return f"{name} ({', '.join(own)})" if own else name


def _describe_stare(settings: Mapping[str, Any]) -> str:
    given = settings.get("stare_variant") or "O1"
    variants = [str(one) for one in (given if isinstance(given, (list, tuple)) else [given])]
    parts = [f"STARE {' + '.join(variants)}"]
    is_constant = settings.get("hold_entropy") is None
    if is_constant and any(name in AMPLIFYING or "amplify" in name for name in variants):
        parts.append(f"W {settings.get('stare_amplify', 1.1)}")
    if is_constant and any(name in ATTENUATING or "attenuate" in name for name in variants):
        parts.append(f"M {settings.get('stare_attenuate', 0.9)}")
    gate = settings.get("stare_gate") or "batch"
    if gate == "none":
        parts.append("no gate")
    elif "stare_target_entropy" in settings:
        unit = settings.get("stare_target_entropy_unit", "nats")
        parts.append(f"{gate} gate below {_describe_level(settings['stare_target_entropy'], unit)}")
    return ", ".join(parts)


def _describe_level(level: Any, unit: str) -> str:
    return f"{level} of its start" if unit == "initial" else f"{level} nats"
