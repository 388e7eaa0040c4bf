"""Runs of the real trainer on given completions: alone, or on two processes under `accelerate launch`."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from support import ENVIRONMENT

SCRIPT = Path(__file__).parent / "fixed_rollout.py"


@pytest.fixture(scope="session")
def run_cases(tmp_path_factory):
    """Train cases in one call: `run_cases(cases)`, or on two processes `run_cases(cases, "cpu_2_processes")`."""

    def run(cases, engine=None):
        folder = tmp_path_factory.mktemp("cases")
        (folder / "cases.json").write_text(json.dumps(cases))
        launch = ["-m", "accelerate.commands.launch", "--config_file", str(engine)] if engine else []
        done = subprocess.run(
            [sys.executable, *launch, str(SCRIPT), "cases.json", "out.json"],
            cwd=folder,
            env=ENVIRONMENT,
            capture_output=True,
            text=True,
            timeout=900,
        )
        assert done.returncode == 0, done.stderr[-5000:]
        return json.loads((folder / "out.json").read_text())

    return run
