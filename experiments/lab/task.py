"""What is learned: problems in three splits, who judges, where a model begins, and the settings that suit it."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from steer_trl.system import write_whole

SPLITS = ("train", "validation", "test")
"""To train on; to choose by (settings, a learning rate, when to stop); to judge by, once."""


@dataclass(frozen=True)
class Task:
    """A task that models are compared on.

    Attributes:
        name (`str`): a short one.
        problems (`callable`): a split, one of `SPLITS`, to its rows: an `id`, a `prompt` and whatever the judge reads.
            No problem is in two splits.
        judge (`str`): import path of the reward function that is trained on and judged by; above 0 is correct.
        recipe (`str`): name or file of a recipe of `steer-trl train`, with the settings that suit the task.
        start (`str`): the module whose command (`--output_dir`, `--seed`, `--steps`) makes the model to begin with, or
            the folder or name of a model that is there.
        start_steps (`int`, *optional*): optimizer steps of the start; `None` for a model that is there.
    """

    name: str
    problems: Callable[[str], list[dict[str, Any]]]
    judge: str
    recipe: str
    start: str
    start_steps: int | None = None

    def write_problems(self, folder: Path, limit: int | None = None) -> None:
        """Write each split to `folder` as `SPLIT.jsonl`, of those that are not trained on `limit` rows at most."""
        folder.mkdir(parents=True, exist_ok=True)
        for split in SPLITS:
            rows = self.problems(split)[: None if split == "train" else limit]
            text = "".join(json.dumps(row) + "\n" for row in rows)
            path = folder / f"{split}.jsonl"
            if not path.exists() or path.read_text() != text:
                write_whole(path, partial(Path.write_text, data=text))
