"""The registry of the log: every key that the code writes has a row, and every row of ours a place that writes it."""

import ast
import re
import subprocess
import sys

from support import ROOT

from steer_trl.monitoring import key_names
from steer_trl.monitoring.estimators import RATIO
from steer_trl.monitoring.keys import KEYS, PANELS, SUMMED
from steer_trl.monitoring.learning_rules import IS_TRUNCATED
from steer_trl.monitoring.rules import WINDOW
from steer_trl.monitoring.watch import RULES

REGISTRY = [ROOT / "steer_trl/monitoring" / name for name in ("keys.py", "key_names.py")]
SOURCES = sorted(path for path in ROOT.glob("steer_trl/**/*.py") if path not in REGISTRY)
BY_NAME = {key.name: key for key in KEYS}
OWN = {key.name for key in KEYS if key.origin in ("training", "diagnostics")}
KEY = re.compile(r"[a-z_]+(/[a-z_0-9.]+)+")
LOG_WRITERS = ("shaping", "monitoring", "trainer", "rewards")


def strings(path):
    """The strings of a file that stand alone: the texts of docstrings and messages are longer than a key."""
    constants = [node.value for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Constant)]
    return {value for value in constants if isinstance(value, str)}


STRINGS = {path: strings(path) for path in SOURCES}


def test_every_key_that_is_written_has_a_row():
    writers = [path for path in SOURCES if path.relative_to(ROOT / "steer_trl").parts[0] in LOG_WRITERS]
    written = {value for path in writers for value in STRINGS[path] if KEY.fullmatch(value)}
    assert {"clip_cov/dropped", "stare/gate", "quadrants/positive_expected", "math_reward/timed_out"} <= written
    files = {value for value in written if value.endswith((".md", ".jsonl", ".json"))}
    # A dry run writes no log: these are the names of the numbers in its table.
    of_dry_run = {value for value in written if value.startswith("dry_run/")}
    assert written - files - of_dry_run <= BY_NAME.keys()


def test_every_key_of_ours_is_written_somewhere():
    assert OWN - set().union(*STRINGS.values()) == set()


def test_the_page_reads_keys_by_constants():
    script = "".join(path.read_text() for path in ROOT.glob("steer_trl/report/*.js"))
    used = set(re.findall(r"DATA\.names\.(\w+)", script))
    assert used and used <= vars(key_names).keys()


def test_a_key_has_one_row():
    assert len(BY_NAME) == len(KEYS)
    assert all(bool(key.label) != bool(key.family) for panel in PANELS for key in panel.keys)
    assert len({panel.title for panel in PANELS}) == len(PANELS)


def test_every_key_that_other_code_reads_has_a_row():
    """The constants, and what the rules ask a log for."""
    constants = {value for name, value in vars(key_names).items() if name.isupper() and isinstance(value, str)}
    assert constants <= BY_NAME.keys()

    class Asked(dict):
        def get(self, key, default=None):
            asked.add(key)
            return default

        def __contains__(self, key):
            asked.add(key)
            return True

        def __missing__(self, key):
            asked.add(key)
            return 0.5

    asked = set()
    for rule in RULES:
        rule.read(Asked())
    # Two numbers are not keys of a log: the alarms compute them.
    assert {key.removeprefix("lowest ") for key in asked} - {IS_TRUNCATED, WINDOW} <= BY_NAME.keys()


def test_summed_keys_are_ours_with_an_estimator():
    assert SUMMED.keys() <= OWN
    assert SUMMED["shaping/relative_change"] is RATIO
    assert not [name for name in SUMMED if name.startswith(("stare/", "hold_entropy/", "dynamic_sampling/"))]


def test_registry_and_report_need_no_torch():
    code = "import sys; import steer_trl.report.data, steer_trl.curves; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
