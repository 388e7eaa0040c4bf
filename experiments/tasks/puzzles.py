"""Code shared by the tasks: problems in three splits, and a model trained briefly on random solutions."""

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
from steer_trl.demo.start_model import BATCH_SIZE, StartArguments
from steer_trl.demo.tiny import tiny_qwen2, tiny_tokenizer

HELD_OUT = 400  # problems in the validation split, and as many in the test split
Untrained = Callable[[int], tuple[Any, Any]]


@dataclass(frozen=True)
class Puzzle:
    """Problems with several correct answers each, and the model that learns them.

    Attributes:
        untrained (`callable`): makes the untrained model and its tokenizer from a seed.
        prompts (`callable`): returns a given number of different prompts, the same in every call.
        solutions (`callable`): returns all correct answers to a prompt.
        count (`int`): the number of problems in all three splits.
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
        """Return the rows of a split, with the columns `id` and `prompt`."""
        return [{"id": f"{split}-{i}", "prompt": prompt} for i, prompt in enumerate(self._splits[split])]

    def examples(self, count: int, seed: int) -> list[dict[str, str]]:
        """Draw random correct answers to training problems."""
        rng = random.Random(seed)
        drawn = rng.choices(self._splits["train"], k=count)
        return [{"prompt": prompt, "completion": rng.choice(self.solutions(prompt))} for prompt in drawn]

    def start(self, **settings: Any) -> None:
        """Run the command that makes the start model. `settings` are fields of `SFTConfig` to override."""
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
    """Return a function that makes a Qwen2 of 0.36 million parameters, with a token for each character."""

    def untrained(seed: int) -> tuple[Any, Any]:
        tokenizer = tiny_tokenizer(characters)
        sizes = {"hidden_size": 96, "intermediate_size": 288, "num_hidden_layers": 3, "num_key_value_heads": 4}
        return tiny_qwen2(tokenizer, seed, **sizes), tokenizer

    return untrained


def task(name: str, puzzle: Puzzle, start_steps: int = 650) -> Task:
    """Return the task of the puzzle in the module `name`, for the experiments in `experiments/evidence`."""
    recipe = str(Path(__file__).with_name("puzzles.yaml"))
    module = f"experiments.tasks.{name}"
    return Task(name, puzzle.problems, f"{module}.reward", recipe, start=module, start_steps=start_steps)
