"""Settings and methods that are gone, and what to use instead: the sentence that refuses each by name."""

from collections.abc import Collection
from importlib.resources import files

import yaml

from steer_trl.validation import did_you_mean

_TABLE = yaml.safe_load(files("steer_trl.options").joinpath("removed.yaml").read_text("utf-8"))
REMOVED: dict[str, str] = _TABLE["texts"] | {
    name: f"It is {value}, which nobody has varied: leave it out." for name, value in _TABLE["constants"].items()
}
EXAMPLES = {"rsi": "Rsi", "ucpo": "Ucpo", "entropic": "Entropic", "clip_bounds": "ClipBounds", "quadrant": "Quadrant"}
"""Methods that are files in `examples/methods/` now, and their classes."""


def of_example(name: str) -> str:
    """Return how one of the `EXAMPLES` is used."""
    return (
        f"{name!r} is now examples/methods/{name}.py: use advantage_shaping='{name}.{EXAMPLES[name]}', with its "
        "settings in shaping_options and PYTHONPATH=examples/methods (or where you copy it to) before the command."
    )


def hint(name: str, known: Collection[str]) -> str:
    """Return what to use in the place of a setting that is gone, or else which of the `known` ones it resembles."""
    if name in REMOVED:
        return f" It is gone. {REMOVED[name]}"
    example = next((method for method in EXAMPLES if name == method or name.startswith(f"{method}_")), None)
    return f" {of_example(example)}" if example else did_you_mean(name, known)
