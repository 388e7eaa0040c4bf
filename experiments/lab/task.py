"""A task: problems in three splits, a reward function, a start model and suitable settings."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from steer_trl.support.system import write_text_whole

SPLITS = ("train", "validation", "test")
"""The splits for training, for choosing (settings, a learning rate, when to stop), and for the final evaluation."""


@dataclass(frozen=True)
class Task:
    """A task on which models are compared.

    Attributes:
        name (`str`): a short name.
        problems (`callable`): returns the rows of a split in `SPLITS`, each with an `id`, a `prompt` and the columns
            that the reward function reads, or with an `id`, a `problem` and a `solution` for the judge `math`. No
            problem is in two splits.
        judge (`str`): the import path of the reward function, for training and evaluation, or `math`, the check of
            the boxed answer. A reward above 0 means a correct answer.
        recipe (`str`): the name or file of a recipe for `steer-trl train` with settings for the task.
        start (`str`): the module whose command (`--output_dir`, `--seed`, `--steps`) makes the start model, or the
            folder or name of an existing model.
        start_steps (`int`, *optional*): the number of supervised steps of the start model; `None` for an existing
            model.
    """

    name: str
    problems: Callable[[str], list[dict[str, Any]]]
    judge: str
    recipe: str
    start: str
    start_steps: int | None = None

    def write_problems(self, folder: Path, limit: int | None = None) -> None:
        """Write each split to `SPLIT.jsonl` in `folder`. Validation and test have at most `limit` rows."""
        folder.mkdir(parents=True, exist_ok=True)
        for split in SPLITS:
            rows = self.problems(split)[: None if split == "train" else limit]
            text = "".join(json.dumps(row) + "\n" for row in rows)
            path = folder / f"{split}.jsonl"
            if not path.exists() or path.read_text() != text:
                write_text_whole(path, text)
