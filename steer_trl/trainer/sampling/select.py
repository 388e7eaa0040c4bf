"""Dynamic sampling: only groups whose completions are not all equally correct are trained on.

TRL writes the completions of a rollout first and makes everything else of it afterwards: padding, denominators,
log-probabilities, advantages, logs. So the choice is made in between, where TRL's `_generate` returns: completions are
scored there and then, and all that follows is TRL's own and sees the chosen ones only. All ranks see the rewards of
all ranks, and so decide alike.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from steer_trl.functional.informative import is_informative
from steer_trl.trainer.sampling.log import Judged
from steer_trl.trainer.trl import GRPOTrainer

Rows = list[dict[str, Any]]
Generate = Callable[..., tuple[Any, ...]]
Score = Callable[..., Tensor]


class DynamicSampling:
    """Off: all that is written is trained on. `resample.py` has what else can happen at the same moments."""

    def __init__(self, trainer: GRPOTrainer) -> None:
        self._trainer = trainer
        self._chosen: Judged | None = None  # while TRL makes a rollout of which groups were chosen

    @contextmanager
    def choosing(self, inputs: Rows, write: Callable[[Rows], Any]) -> Iterator[Rows]:
        """Give the rows of the data set that TRL's `write` shall make the training rollout of, in the `with` block."""
        yield inputs

    def generated(self, prompts: list[Any], generate: Generate, score: Score) -> tuple[Any, ...]:
        """Return what TRL shall take for the answer of its `generate`; `score` are TRL's rewards."""
        return generate(prompts)

    def rewards(self, score: Callable[[], Tensor]) -> Tensor:
        """Return the rewards `[N, functions]` of all ranks that TRL shall take for the answer of its `score`."""
        return score() if self._chosen is None else self._chosen.rewards

    def read(self, sampler: Any) -> None:
        """Begin a training on the prompts of TRL's `sampler`."""

    def save(self, folder: Path) -> None:
        """Write what a resumed training needs into a checkpoint."""

    def load(self, folder: Path) -> None:
        """Go on from a checkpoint."""


def judged(trainer: GRPOTrainer, inputs: Rows, prompts: list[Any], written: tuple[Any, ...], score: Score) -> Judged:
    """Score what TRL's `_generate` has written for this rank's `inputs`; judge the groups of all ranks. Collective."""
    _, completion_ids, tool_masks, completions, _, extra_fields, *_ = written
    for i, row in enumerate(inputs):  # what a `rollout_func` returns for reward functions, as TRL hands it on
        row |= {name: values[i] if isinstance(values, list) else values for name, values in extra_fields.items()}
    rewards = score(inputs, prompts, completions, completion_ids)
    lengths = [sum(mask) for mask in tool_masks] if tool_masks is not None else [len(ids) for ids in completion_ids]
    lengths_of_all = trainer.accelerator.gather(torch.tensor(lengths, device=rewards.device))
    correctness = rewards[:, correctness_column(trainer)]
    return Judged(rewards, correctness, lengths_of_all, is_informative(correctness, trainer.num_generations))


def correctness_column(trainer: GRPOTrainer) -> int:
    """Which reward function says whether a completion is correct."""
    name = trainer.args.dynamic_sampling_reward
    return 0 if name is None else trainer.reward_func_names.index(name)
