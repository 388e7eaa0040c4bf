"""Write the problems and make the model to begin with, as the recipe `countdown` reads them.

python -m steer_trl.countdown runs/countdown
"""

import argparse
from pathlib import Path

from steer_trl.countdown import COUNTDOWN
from steer_trl.countdown.model import supervised_start

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    COUNTDOWN.write_problems(given.folder)
    assert COUNTDOWN.start_steps is not None
    supervised_start(given.folder / "start", COUNTDOWN.start_steps, given.seed)
