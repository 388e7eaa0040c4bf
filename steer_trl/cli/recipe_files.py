"""Reads recipes, which are YAML files of settings.

A recipe can extend another recipe, and then holds only the settings that differ. The recipes and engine configurations
that come with this package can be given by name, such as `steer_qwen2.5_math_7b` and `zero3`.
"""

import os
import re
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import yaml

from steer_trl.cli.errors import OneLineParser
from steer_trl.support.exceptions import InvalidValueError, NotThereError
from steer_trl.support.validation import did_you_mean

CONFIGS = Path(__file__).parents[1] / "configs"
RECIPES = CONFIGS / "recipes"
ENGINES = CONFIGS / "accelerate"
# Matches the first sentence of a text. The full stop in "Eq. 10" does not end a sentence.
SENTENCE = re.compile(r".*?(?<!\bEq)\.(?=\s|$)")


def split_recipe(arguments: list[str]) -> tuple[str | None, list[str]]:
    """Return the value of `--config` and the other arguments. Without `--config`, the value is `None`."""
    parser = OneLineParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--config")
    namespace, other_arguments = parser.parse_known_args(arguments)
    return namespace.config, other_arguments


def list_files(folder: Path) -> dict[str, Path]:
    """Return a mapping from names to the YAML files in `folder` and its sub-folders.

    Files in `folder` come first, in alphabetical order, followed by files in sub-folders.
    """
    paths = [*sorted(folder.glob("*.yaml")), *sorted(folder.glob("*/*.yaml"))]
    return {path.stem: path for path in paths}


def find_file(name: str | Path, folder: Path, kind: str) -> Path:
    """Return `name` as a path if such a file exists. Otherwise, return the file in `folder` with this name.

    The extension `.yaml` may be left out. `kind` describes the file in error messages.
    """
    path = Path(name)
    if path.is_file():
        return path
    shipped = list_files(folder)
    name_only = path.name.removesuffix(".yaml")
    if name_only in shipped and str(path.parent) in (".", "methods"):
        return shipped[name_only]
    alike = [stem for stem in shipped if name_only and name_only in stem]
    hint = f" Names with it: {', '.join(alike)}." if alike else did_you_mean(name_only, shipped, cutoff=0.6)
    raise NotThereError(
        f"there is no {kind} {str(name)!r}: neither such a file nor one of that name in this package.{hint} "
        "steer-trl recipes lists the names."
    )


def find_engine_file(name: str) -> Path:
    """Return the file of an `accelerate` configuration, given its path or its name."""
    try:
        return find_file(name, ENGINES, "engine configuration")
    except NotThereError:
        trl = find_spec("trl")
        for folder in trl.submodule_search_locations or () if trl else ():
            if (path := Path(folder, "accelerate_configs", f"{name}.yaml")).is_file():
                return path
        raise


def load_recipe(name: str | Path) -> dict[str, Any]:
    """Return the settings of a recipe, including those of the recipes that it extends.

    `name` is a file or the name of a recipe. A recipe's own settings override those of a recipe that it extends.
    """
    return merge_layers([layer for _, layer in read_layers(name)])


def merge_layers(layers: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Merge layers of settings into one mapping. Earlier layers override later ones."""
    settings: dict[str, Any] = {}
    for layer in reversed(layers):
        settings |= layer
    return settings


def set_environment(path: str | None) -> None:
    """Set the variables under `env` in a recipe.

    Call this before libraries are imported, because many of them read their variables at the import.
    """
    environment = (load_recipe(path).get("env") if path is not None else None) or {}
    if not isinstance(environment, Mapping):
        raise InvalidValueError(f"recipe {path}: env must be a mapping of variables, got {environment!r}.")
    try:
        os.environ |= {str(name): str(value) for name, value in environment.items()}
    except ValueError as error:
        # The value of a variable has a NUL byte or half of a surrogate pair.
        raise InvalidValueError(f"recipe {path}: env cannot be set: {error}.") from error


def read_layers(name: str | Path) -> list[tuple[Path, dict[str, Any]]]:
    """Return a recipe's path and own settings, then those of the recipe that it extends, and so on."""
    layers: list[tuple[Path, dict[str, Any]]] = []
    following: Path | None = find_file(name, RECIPES, "recipe")
    while following is not None:
        if following.resolve() in [path.resolve() for path, _ in layers]:
            raise InvalidValueError(f"recipe {name} extends itself, by way of {following}. Remove one 'extends'.")
        layer = read_yaml(following)
        base = layer.pop("extends", None)
        layers.append((following, layer))
        following = None if base is None else _find_base(following, base)
    return layers


def _find_base(path: Path, base: Any) -> Path:
    beside = path.parent / str(base)
    try:
        return beside if beside.is_file() else find_file(str(base), RECIPES, "recipe")
    except FileNotFoundError as error:
        raise NotThereError(f"recipe {path} extends {base!r}, but {error} A path is relative to it.") from error


class _Loader(yaml.SafeLoader):
    """A YAML loader that refuses repeated keys. PyYAML's own loaders silently take the last value."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [key.value for key, _ in node.value]
        for key, _ in node.value:
            if keys.count(key.value) > 1 and key.value != "<<":
                raise yaml.constructor.ConstructorError(None, None, f"{key.value!r} is there twice", key.start_mark)
        return super().construct_mapping(node, deep)


def read_yaml(path: Path) -> dict[str, Any]:
    """Return the mapping in a YAML file."""
    try:
        read = yaml.load(path.read_bytes(), _Loader)
    except yaml.YAMLError as error:
        raise InvalidValueError(f"{path} is no valid YAML: {error}. Correct it.") from error
    except UnicodeError as error:
        raise InvalidValueError(f"{path} must be text in UTF-8, got {error}. Save it in this encoding.") from error
    except RecursionError as error:
        raise InvalidValueError(f"{path} is nested too deeply. Write lines 'name: value'.") from error
    if not isinstance(read, dict):
        kind = "nothing" if read is None else f"a {type(read).__name__}"
        raise InvalidValueError(f"recipe {path} must be a YAML mapping, got {kind}. Write lines 'name: value'.")
    if wrong := [key for key in read if not isinstance(key, str)]:
        # YAML reads the words on, off, yes and no as true or false.
        raise InvalidValueError(f"recipe {path}: a name must be a string, got {wrong[0]!r}. Correct or quote it.")
    return read
