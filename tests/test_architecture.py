"""The rooms: nothing imports in a circle, only `trainer/` knows TRL's insides, and budgets and names stay small."""

import ast
import io
import tokenize
from dataclasses import fields
from graphlib import CycleError, TopologicalSorter

import pytest
from support import ROOT
from trl import GRPOConfig, GRPOTrainer

from steer_trl import SteerGRPOConfig

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
    hooks = [n.name for n in trainer.body if isinstance(n, ast.FunctionDef)]
    assert [base.id for base in trainer.bases] == ["GRPOTrainer"]
    assert len(hooks) <= 13 and all(hasattr(GRPOTrainer, name) for name in hooks)  # twelve, and the constructor


BUDGET = {
    "": 4950,
    "callbacks": 1910,
    "cli": 11595,
    "countdown": 1255,
    "data": 4370,
    "demo": 2685,
    "diagnostics": 4550,
    "diagnostics/keys": 470,
    "evaluation": 10425,
    "functional": 4480,
    "hub": 1540,
    "options": 2200,
    "report": 5690,
    "rewards": 11900,
    "shaping": 4360,
    "shaping/methods": 8030,
    "trainer": 13140,
    "trainer/callbacks": 1805,
    "trainer/checks": 1800,
    "trainer/log": 1290,
    "trainer/sampling": 3770,
    "trainer/tokens": 1530,
}
"""Tokens of code that each room may have: comments, docstrings and line breaks are free, so that nobody saves on them.

What is added takes something away; a room that shrinks lowers its own budget.
"""
SETTINGS = 57
LAYOUT = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}


def starts_of_docstrings(text):
    """The line and column at which each string that is a statement of its own begins."""
    statements = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Expr)]
    return {(node.lineno, node.col_offset) for node in statements if isinstance(node.value, ast.Constant)}


def count_code_tokens(path):
    """Count the Python tokens of a file without comments, docstrings and layout."""
    text = path.read_text()
    docstrings = starts_of_docstrings(text)
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return sum(token.type not in LAYOUT and token.start not in docstrings for token in tokens)


def test_every_room_keeps_to_its_budget():
    package = ROOT / "steer_trl"
    counts: dict[str, int] = {}
    for path in package.rglob("*.py"):
        room = path.parent.relative_to(package).as_posix().removeprefix(".")
        counts[room] = counts.get(room, 0) + count_code_tokens(path)
    assert counts.keys() == BUDGET.keys()
    assert {room: count for room, count in counts.items() if count > BUDGET[room]} == {}


def test_the_settings_stay_few():
    own = {field.name for field in fields(SteerGRPOConfig)} - {field.name for field in fields(GRPOConfig)}
    assert len(own) <= SETTINGS


WORDS = 8
"""Words in the name of a test: what stands between its underscores, without `test` itself."""


def test_names_of_tests_stay_short():
    trees = [ast.parse(path.read_text()) for path in (ROOT / "tests").rglob("*.py")]
    functions = [node.name for tree in trees for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    tests = [name.split("_")[1:] for name in functions if name.startswith("test_")]
    assert tests and ["_".join(words) for words in tests if len(words) > WORDS] == []
