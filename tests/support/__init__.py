"""What several tests share. The scripts that tests start import from here as well: `ENVIRONMENT` says where it is."""

import os
from pathlib import Path

ROOT = Path(__file__).parents[2]
SHARED = ROOT.parent / "shared"
SMOKE = ROOT / "tests/support/smoke_cpu.yaml"  # a recipe of two steps on a CPU
ENVIRONMENT = os.environ | {
    "HF_HUB_OFFLINE": "1",
    "OMP_NUM_THREADS": "1",
    "TRL_EXPERIMENTAL_SILENCE": "1",
    "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT / "tests"), os.environ.get("PYTHONPATH")])),
}
