"""A YAML file in the place of a setting's value: of names, and of what each stands for."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from steer_trl.exceptions import InvalidValueError

SUFFIXES = (".yaml", ".yml")


def read_names(path: str | Path, setting: str, kind: type, example: str) -> dict[str, Any]:
    """Return what a file maps names to.

    Args:
        path (`str` or `Path`): the file.
        setting (`str`): whose value it is.
        kind (`type`): what every name must stand for.
        example (`str`): a file of one line, for who has written another.

    Raises:
        `ValueError`: it cannot be read, holds no name, or a name that is no text or stands for something else.
    """
    try:
        found = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError) as error:
        reason = " ".join(str(error).split())
        raise InvalidValueError(f"{setting}: {str(path)!r} cannot be read: {reason}.") from error
    is_right = isinstance(found, Mapping) and all(
        isinstance(name, str) and isinstance(value, kind) for name, value in found.items()
    )
    if not is_right or not found:
        raise InvalidValueError(f"{setting}: {str(path)!r} must map names to {example}.")
    return dict(found)
