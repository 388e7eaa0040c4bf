"""The program that each process of the demonstration runs. It trains a model, and then tests it.

    python -m steer_trl.demo.work start 600 --seed 1
    python -m steer_trl.demo.work held 600 --seed 1 --max_generated_tokens 1000000

`start` is the model that the other two models start from. It is trained by supervised learning. The other two are
trained by `steer-trl train` with the recipe `demo_NAME`. Every model is tested by `steer-trl eval` with the recipe
`evaluate_demo`. After an interruption, `steer-trl train` and `steer-trl eval` continue where they stopped.
"""

import shutil
import sys
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM

from steer_trl.cli import evaluate, train
from steer_trl.demo.folders import START, TEST, UNFINISHED_START
from steer_trl.demo.puzzle import START_STEPS
from steer_trl.demo.start_model import supervised_start


def make_start(folder: str, seed: int, steps: int = START_STEPS) -> None:
    """Train the model that both runs start from, and save it.

    It is saved in half precision, which halves the size of its file.
    """
    supervised_start(folder, steps, seed)
    AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float16).save_pretrained(folder)


def main(name: str, problems: str, *flags: str) -> None:
    """Train the model called `name`, then test it on `problems` problems.

    `flags` are passed to the training.
    """
    if name != START:
        train.main(["--config", f"demo_{name}", "--resume_from_checkpoint", "auto", *flags])
    elif not Path(START).exists():
        # The folder gets its name when it is whole. A start that is trained again would be another one than the one
        # from which a part of the test was drawn.
        shutil.rmtree(UNFINISHED_START, ignore_errors=True)
        make_start(UNFINISHED_START, seed=int(flags[1]))
        Path(UNFINISHED_START).rename(START)
    test = ["--config", "evaluate_demo", "--limit", problems]
    evaluate.main([*test, "--model_name_or_path", name, "--output_dir", f"{name}/{TEST}"])


if __name__ == "__main__":
    main(*sys.argv[1:])
