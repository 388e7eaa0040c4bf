"""Runs of the real trainer on given completions: alone, or on two processes."""

import json
from pathlib import Path

import pytest
from support import processes

SCRIPT = Path(__file__).parent / "fixed_rollout.py"


@pytest.fixture(scope="session")
def run_cases(tmp_path_factory):
    """Train cases in one call: `run_cases(cases)`, or on two processes `run_cases(cases, "cpu_2_processes")`."""

    def train(cases, engine=None, **options):
        folder = tmp_path_factory.mktemp("cases")
        (folder / "cases.json").write_text(json.dumps(cases))
        processes.run(SCRIPT, "cases.json", "out.json", engine=engine, folder=folder, **options)
        return json.loads((folder / "out.json").read_text())

    return train
