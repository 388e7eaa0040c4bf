"""Write the problems and make the model to begin with, as the recipe `countdown` reads them.

python -m steer_trl.countdown runs/countdown
"""

import argparse
import json
from pathlib import Path

from steer_trl.countdown.model import supervised_start
from steer_trl.countdown.task import SPLITS, START_STEPS, problems

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    for split in SPLITS:
        (given.folder / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in problems(split)))
    supervised_start(given.folder / "start", START_STEPS, given.seed)
