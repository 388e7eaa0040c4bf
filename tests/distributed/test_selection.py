"""The threshold of two processes is that of a sort over the tokens of both; threads try more cases in other tests."""

import subprocess
import sys
from pathlib import Path

from support import ENVIRONMENT, ROOT


def test_two_processes_select_what_a_sort_selects():
    engine = ROOT / "configs/accelerate/cpu_2_processes.yaml"
    launch = ["-m", "accelerate.commands.launch", "--config_file", str(engine)]
    script = str(Path(__file__).parent / "selection_on_ranks.py")
    done = subprocess.run([sys.executable, *launch, script], env=ENVIRONMENT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
