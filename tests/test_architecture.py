"""The rooms: nothing imports in a circle, only `trainer/` knows TRL's insides, and the settings stay few."""

import ast
from dataclasses import fields
from graphlib import CycleError, TopologicalSorter

import pytest
from support import ROOT
from trl import GRPOConfig, GRPOTrainer

from steer_trl import SteerGRPOConfig
from steer_trl.options.former_names import FORMER_NAMES

FILES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for path in sorted((ROOT / "steer_trl").rglob("*.py"))
}


def imported(tree):
    """Every module that is imported anywhere in it: also in a function, and for type checkers only."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield inner if inner in FILES else node.module


TREES = {name: ast.parse(path.read_text()) for name, path in FILES.items()}
IMPORTS = {name: set(imported(tree)) for name, tree in TREES.items()}


def test_no_module_imports_in_a_circle():
    try:
        TopologicalSorter({name: names & FILES.keys() for name, names in IMPORTS.items()}).prepare()
    except CycleError as error:
        pytest.fail(" <- ".join(error.args[1]))


def is_private_to_trl(name):
    return name.startswith("_") and not name.startswith("__") and hasattr(GRPOTrainer, name)


# Attributes that TRL's trainer sets on itself, which its class does not know.
SET_BY_TRL = {"_step", "_buffered_inputs", "_metrics", "_logs", "_tokenizer"}


@pytest.mark.parametrize("module", [name for name in FILES if not name.startswith("steer_trl.trainer")])
def test_only_the_trainers_room_knows_trls_insides(module):
    assert not [name for name in IMPORTS[module] if name.startswith("trl.trainer")]
    attributes = {
        node.attr
        for node in ast.walk(TREES[module])
        if isinstance(node, ast.Attribute) and not (isinstance(node.value, ast.Name) and node.value.id == "self")
    }
    used = {name for name in attributes if name in SET_BY_TRL or is_private_to_trl(name)}
    assert used <= {"_finish_current_push"}, used  # Transformers' own, which a push has to wait for


def test_the_trainer_overrides_few_hooks_of_trls():
    (trainer,) = [n for n in ast.walk(TREES["steer_trl.trainer.trainer"]) if isinstance(n, ast.ClassDef)]
    hooks = [n.name for n in trainer.body if isinstance(n, ast.FunctionDef) and n.name != "dry_run"]
    assert [base.id for base in trainer.bases] == ["GRPOTrainer"]
    assert len(hooks) <= 14 and all(hasattr(GRPOTrainer, name) for name in hooks)  # thirteen, and the constructor


def test_double_precision_is_asked_for_in_one_place():
    """Apple's devices have none."""
    calls = [
        name
        for name, tree in TREES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "double"
    ]
    assert calls == ["steer_trl.support.precision"]


SETTINGS = 35


def test_the_settings_stay_few():
    own = {field.name for field in fields(SteerGRPOConfig)} - {field.name for field in fields(GRPOConfig)}
    assert len(own - FORMER_NAMES.keys()) <= SETTINGS
