"""What the tasks here share: problems in three splits, and a model that has begun to learn from random solutions."""

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from datasets import Dataset
from trl import SFTConfig, SFTTrainer

from experiments.lab import Task
from steer_trl.cli.parser import RecipeParser
from steer_trl.countdown.model import BATCH_SIZE, StartArguments
from steer_trl.tiny import tiny_qwen2, tiny_tokenizer

HELD_OUT = 400  # problems to choose by, and as many to judge by
Untrained = Callable[[int], tuple[Any, Any]]


@dataclass(frozen=True)
class Puzzle:
    """Problems with several correct answers each, and the model that learns them.

    Attributes:
        untrained (`callable`): a seed -> the model before it has seen a solution, and its tokenizer.
        prompts (`callable`): number of problems -> prompts, all different, always the same.
        solutions (`callable`): a prompt -> all of its correct answers.
        count (`int`): problems in all.
    """

    untrained: Untrained
    prompts: Callable[[int], Iterable[str]]
    solutions: Callable[[str], list[str]]
    count: int = 4800

    @cached_property
    def _splits(self) -> dict[str, list[str]]:
        prompts = list(self.prompts(self.count))
        random.Random(0).shuffle(prompts)
        ends = {"validation": prompts[:HELD_OUT], "test": prompts[HELD_OUT : 2 * HELD_OUT]}
        return ends | {"train": prompts[2 * HELD_OUT :]}

    def problems(self, split: str) -> list[dict[str, str]]:
        """Return the rows of a split: `id` and `prompt`."""
        return [{"id": f"{split}-{i}", "prompt": prompt} for i, prompt in enumerate(self._splits[split])]

    def examples(self, count: int, seed: int) -> list[dict[str, str]]:
        """Draw random correct answers to training problems."""
        rng = random.Random(seed)
        drawn = rng.choices(self._splits["train"], k=count)
        return [{"prompt": prompt, "completion": rng.choice(self.solutions(prompt))} for prompt in drawn]

    def start(self, **settings: Any) -> None:
        """The command that makes the model to begin with; `settings` are fields of `SFTConfig` that differ."""
        (given,) = RecipeParser((StartArguments,)).parse_args_and_config()
        model, tokenizer = self.untrained(given.seed)
        fixed: dict[str, Any] = {
            "per_device_train_batch_size": BATCH_SIZE,
            "learning_rate": 2e-3,
            "lr_scheduler_type": "cosine",
            "gradient_checkpointing": False,
            "use_cpu": True,
            "bf16": False,
            "save_strategy": "no",
            "report_to": "none",
            "disable_tqdm": True,
            "logging_steps": given.logging_steps,
        } | settings
        examples = self.examples(given.steps * fixed["per_device_train_batch_size"], given.seed + 1)
        trainer = SFTTrainer(
            model,
            SFTConfig(output_dir=given.output_dir, max_steps=given.steps, seed=given.seed, **fixed),
            train_dataset=Dataset.from_list(examples),
            processing_class=tokenizer,
        )
        trainer.train()
        trainer.save_model()


def small(characters: str) -> Untrained:
    """A Qwen2 of 0.36 million parameters from scratch, with a token for each character."""

    def untrained(seed: int) -> tuple[Any, Any]:
        tokenizer = tiny_tokenizer(characters)
        sizes = {"hidden_size": 96, "intermediate_size": 288, "num_hidden_layers": 3, "num_key_value_heads": 4}
        return tiny_qwen2(tokenizer, seed, **sizes), tokenizer

    return untrained


def task(name: str, puzzle: Puzzle, start_steps: int = 650) -> Task:
    """What `experiments/evidence` needs of the puzzle in the module `name`."""
    recipe = str(Path(__file__).with_name("puzzles.yaml"))
    module = f"experiments.tasks.{name}"
    return Task(name, puzzle.problems, f"{module}.reward", recipe, start=module, start_steps=start_steps)
