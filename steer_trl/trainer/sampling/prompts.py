"""Supplies dynamic sampling with prompts, in the order of the trainer's own sampler.

TRL gives a rollout one batch of prompts. Dynamic sampling needs more prompts, and their number is not known
beforehand. So this module reads the prompts itself, in pass after pass over the data set. The order of each pass is
that of the trainer's sampler, and the rows are those of its data loader. A checkpoint stores the number of finished
passes and the position in the current pass. No prompt comes twice in a pass, whether it was trained on or dropped.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from torch.utils.data import DataLoader
from trl.trainer.utils import RepeatSampler

from steer_trl.support.exceptions import InvalidValueError
from steer_trl.trainer.trl import GRPOTrainer, class_of_override, steps_per_rollout


class Schedule(NamedTuple):
    """The repetitions of prompts by a sampler of TRL's trainer.

    Each rollout takes `prompts` prompts, each `size` times in a row, and comes `repeats` times.
    """

    prompts: int
    size: int
    repeats: int


class FirstOfRepeats:
    """The prompts of a sampler without their repeats. An incomplete last rollout is left out, as in TRL."""

    def __init__(self, sampler: Iterable[int], schedule: Schedule) -> None:
        self._sampler = sampler
        self._schedule = schedule

    def __iter__(self) -> Iterator[int]:
        prompts, size, repeats = self._schedule
        numbers = list(self._sampler)
        block = prompts * size
        for begin in range(0, len(numbers) - block + 1, block * repeats):
            yield from numbers[begin : begin + block : size]


def find_sampler(dataloader: DataLoader) -> Any:
    """Return the sampler of a data loader, which may be split over several processes; `None` if it has none."""
    batches: Any = getattr(dataloader, "batch_sampler", None)
    return getattr(getattr(batches, "batch_sampler", batches), "sampler", None)


def open_stream(trainer: GRPOTrainer, dataloader: DataLoader) -> "PromptStream":
    """Return the stream of the prompts that the `dataloader` of a `trainer` would give.

    Raises `ValueError` if the data loader has no sampler, or if its sampler does not fill a rollout.
    """
    sampler = find_sampler(dataloader)
    if sampler is None or dataloader.collate_fn is None:
        name = class_of_override(trainer, "get_train_dataloader", "_get_train_sampler") or "this trainer"
        raise InvalidValueError(
            f"dynamic_sampling='resample' reads rows in the order of the data loader's sampler, and the loader of "
            f"{name} has none. Override _get_train_sampler instead, or leave dynamic_sampling unset."
        )

    def begin() -> Iterable[int]:
        # TRL's sampler is read without its repeats, so that no prompt at the end of a pass is lost.
        if type(sampler) is RepeatSampler:
            return RepeatSampler(sampler.data_source, 1, 1, shuffle=sampler.shuffle, seed=sampler.seed)
        return FirstOfRepeats(find_sampler(trainer.get_train_dataloader()), schedule)

    size = trainer.num_generations
    schedule = Schedule(trainer.args.groups_per_rollout, size, steps_per_rollout(trainer))
    return PromptStream(begin, schedule.prompts, dataloader.dataset, dataloader.collate_fn)


class PromptStream:
    """Draws prompts for all ranks.

    `begin` returns the row numbers of the prompts, in a new order each time that its result is iterated. `rows` is the
    data set, and `collate` makes a batch of rows, as the data loader does. `passes` counts finished passes over the
    data set. `position` counts the prompts drawn in the current pass.
    """

    def __init__(
        self,
        begin: Callable[[], Iterable[int]],
        batch_size: int,
        rows: Any,
        collate: Callable[[list[Any]], Iterable[Any]] = list,
    ) -> None:
        self._begin = begin
        self._batch_size = batch_size
        self._rows = rows
        self._collate = collate
        self.passes = self.position = 0
        self._order: list[int] = []
        self._replay()

    @property
    def epochs(self) -> float:
        """The number of passes over the data set so far, including the finished part of the current pass."""
        return self.passes + self.position / len(self._order)

    def draw(self, count: int) -> list[int]:
        """Return the row numbers of the next `count` prompts.

        They are drawn in batches no larger than TRL's. A pass over the data set ends when fewer prompts are left than
        the next batch needs.
        """
        numbers: list[int] = []
        while len(numbers) < count:
            size = min(self._batch_size, count - len(numbers))
            if self.position + size > len(self._order):
                self.passes += 1
                self.position = 0
                self._order = list(self._passes)
            numbers += self._order[self.position : self.position + size]
            self.position += size
        return numbers

    def rows_of(self, numbers: list[int]) -> list[dict[str, Any]]:
        """Return the rows with these `numbers`, each as a new dictionary."""
        return [dict(row) for row in self._collate([self._rows[number] for number in numbers])]

    def first(self, count: int) -> list[int] | None:
        """Return the row numbers of the first `count` prompts; `None` if prompts were drawn already."""
        return None if self.passes or self.position else self._order[:count]

    def state_dict(self) -> dict[str, int]:
        """Return the position in the data set, and its number of rows."""
        return {"passes": self.passes, "position": self.position, "rows": len(self._rows)}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Restore a [`state_dict`]. Raises `ValueError` if the data set has a different length now."""
        if state["rows"] != len(self._rows):
            raise InvalidValueError(
                f"train_dataset must have {state['rows']} rows, as when the checkpoint was saved, got "
                f"{len(self._rows)}. Resume on the same data, or begin a new run from the checkpoint's "
                "weights."
            )
        self.passes = state["passes"]
        self.position = state["position"]
        self._replay()

    def _replay(self) -> None:
        """Replay the sampler's shuffles up to the current pass, and store its order of prompts."""
        # A sampler shuffles anew each time it is iterated, with a generator that is seeded only once.
        self._passes = self._begin()
        for _ in range(self.passes + 1):
            self._order = list(self._passes)
        if len(self._order) < self._batch_size:
            raise InvalidValueError(
                f"dynamic_sampling='resample' needs a sampler that gives >= {self._batch_size} prompts in a pass, as "
                f"many as a rollout has, got {len(self._order)}."
            )
