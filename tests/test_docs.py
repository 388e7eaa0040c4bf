"""What the documentation names is there: files, tests, functions, fields, keys of the log. No site is needed."""

import ast
import itertools
import pkgutil
import re
import sys

import pytest
from support import ROOT
from support.readme import settings_of_snippets

from steer_trl.cli.recipe_files import load_recipe
from steer_trl.monitoring.keys import KEYS
from steer_trl.shaping import SHAPERS

PAGES = [*sorted(ROOT.glob("docs/*.md")), *(ROOT / f"{name}.md" for name in ("README", "CONTRIBUTING", "CHANGELOG"))]
each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
FOLDERS = ("benchmarks", "configs", "docs", "examples", "experiments", "steer_trl", "tests", "tools")

sys.path.insert(0, str(ROOT / "tools/docs"))

import methods_table  # noqa: E402
import metrics_table  # noqa: E402
import settings_table  # noqa: E402


def without_blocks(page):
    """The text of a page without its fenced blocks."""
    return re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)


def code(page):
    """Everything in backticks, and the words of the fenced blocks."""
    blocks = re.findall(r"```\w*\n(.*?)```", page.read_text(), re.DOTALL)
    spans = re.findall(r"`([^`\n]+)`", without_blocks(page))
    return [*spans, *(word for block in blocks for word in block.split())]


@each_page
def test_files_named_in_docs_exist(page):
    names = [name.partition("::")[0] for name in code(page)]
    named = {name for name in names if re.fullmatch(rf"({'|'.join(FOLDERS)})/[\w./*-]+", name)}
    assert [name for name in named if not list(ROOT.glob(name.rstrip("/")))] == []


@each_page
def test_tests_named_in_docs_exist(page):
    for name in {name for name in code(page) if name.startswith("tests/") and "::" in name}:
        path, *parts = name.split("::")
        scope = ast.parse((ROOT / path).read_text()).body
        for part in parts:
            found = [node for node in scope if getattr(node, "name", None) == part]
            assert found, name
            scope = found[0].body


def test_the_snippets_of_readme_are_the_measured_setting():
    ours = load_recipe("recommended_qwen2.5_math_7b")  # the measured setting, by tests/cli/test_recipes.py
    of_method = {name: ours[name] for name in ("hold_entropy", "advantage_shaping", "dynamic_sampling")}
    as_measured = {name: ours[name] for name in ("epsilon_high", "lr_scheduler_type", "max_steps")}
    sizes = {"per_device_train_batch_size": 8, "gradient_accumulation_steps": 16, "steps_per_generation": 64}
    constant = {"lr_scheduler_type": ours["lr_scheduler_type"]}
    assert settings_of_snippets() == [of_method | constant, of_method | as_measured | sizes]
    text = (ROOT / "README.md").read_text()
    one_word = re.findall(r'`advantage_shaping="(\w+)"', text)
    assert f"[{len(SHAPERS) - 2} others](docs/methods.md#the-list)" in text
    assert one_word == ["f_grpo", "steer", "stare", "none", "none", "f_grpo"] and {"none", *SHAPERS} >= set(one_word)


@each_page
def test_functions_named_in_docs_exist(page):
    for name in {name for name in code(page) if re.fullmatch(r"steer_trl(\.\w+)+", name)}:
        pkgutil.resolve_name(name)


@each_page
def test_no_line_of_a_paragraph_begins_a_list_or_a_heading(page):
    # A sentence that is wrapped before "1." is a list in Markdown, and one wrapped before "#" a heading.
    pairs = itertools.pairwise(without_blocks(page).split("\n"))
    after_prose = [line for before, line in pairs if before.strip() and not re.match(r"\s|[-*+] |\d+[.)] |#", before)]
    assert [line for line in after_prose if re.match(r"([-*+>]|\d+[.)]|#+)\s", line)] == []


@each_page
def test_links_to_files_work_in_the_repository(page):
    found = re.findall(r"\]\(([^)\s]+)\)", without_blocks(page))
    addresses = {address.partition("#")[0] for address in found}
    local = {address for address in addresses if address and "://" not in address}
    assert [address for address in local if not (page.parent / address).exists()] == []


TABLES = {
    settings_table: ["| `stare_target_entropy` | `0.3` `(0, inf)` |"],
    metrics_table: ["| `collapse` | `entropy`, over `roll", "| `truncation` | `completions/clipped_ratio` | ≥ 0.5 |"],
    methods_table: [
        "| draws tokens at random | `clip_cov` |",
        "whole rollout | `psr`, `nsr` |",
        "`repo_r` (0 to 1), ",
    ],
}
"""What writes tables into pages, and parts of rows that must be in them once."""


@pytest.mark.parametrize("hook", TABLES, ids=lambda hook: hook.__name__)
def test_generated_tables_are_up_to_date(hook):
    text = hook.PAGE.read_text()
    assert hook.filled(text) == text, "run make settings metrics"
    assert [row for row in TABLES[hook] if text.count(row) != 1] == []
    places = re.findall(r"<!-- (\w+): written by make metrics -->", text)
    assert hook is not metrics_table or sorted(places) == sorted(metrics_table.tables())


def test_every_key_of_the_registry_is_explained_once():
    """Against the registry itself: a key that the page's hook left out would be in no table."""
    tables = "\n".join(text for name, text in metrics_table.tables().items() if name in metrics_table.ORIGINS)
    first_cells = re.findall(r"^\| (`.*?) \|", tables, re.MULTILINE)
    named = [name for cell in first_cells for name in re.findall(r"`([^`]+)`", cell)]
    ours = [key for key in KEYS if key.origin in metrics_table.ORIGINS]
    own = [name for key in ours for name in re.split(", …|, ", key.family or key.name) if name]
    assert sorted(named) == sorted(own)


def test_every_method_has_its_row_in_docs():
    first = (ROOT / "docs/methods.md").read_text().split(methods_table.START)[0]
    rows = [line.split("|")[1] for line in first.splitlines() if line.startswith('| `"')]
    assert {name for row in rows for name in re.findall(r'`"(\w+)"`', row)} - {"none"} == SHAPERS.keys()


def test_every_recipe_is_on_a_page():
    pages = code(ROOT / "docs/recipes.md") + code(ROOT / "docs/methods.md")
    there = {path.stem for path in ROOT.glob("configs/recipes/**/*.yaml")}
    assert there - {name.strip('"') for name in pages} == set()
