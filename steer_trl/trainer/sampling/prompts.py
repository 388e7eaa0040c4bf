"""Where new prompts come from: the order of TRL's own sampler, read at its own pace.

TRL hands a rollout one batch of prompts. Dynamic sampling needs more of them, nobody knows beforehand how many, so it
reads the same order itself: pass after pass over the data set, each shuffled as TRL's sampler would. Its place is two
numbers, which go into the checkpoint; no prompt comes twice in a pass, whether it was trained on or dropped. Prompts
that are solved are passed over.
"""

import hashlib
import json
import logging
from collections.abc import Iterable, Iterator
from itertools import count, islice
from typing import Any

from trl.trainer.utils import RepeatSampler

from steer_trl.exceptions import InvalidValueError

logger = logging.getLogger(__name__)


class PromptStream:
    """The prompts of all ranks, in batches.

    Attributes:
        passes (`int`): how many passes over the data set are finished.
        position (`int`): how many prompts of the present pass were read or passed over.
        solved (`dict[int, str]`): the rows that are not drawn, and what identifies the prompt of each.
    """

    def __init__(self, sampler: RepeatSampler) -> None:
        self.passes = self.position = 0
        self.solved: dict[int, str] = {}
        self._sampler = sampler
        self._orders = self._orders_of_passes()
        self._order: tuple[int, list[int]] = (-1, [])

    @property
    def rows(self) -> int:
        """Rows of the data set."""
        return self._sampler.num_samples

    @property
    def epochs(self) -> float:
        """Passes over the data set, counting every prompt that was read."""
        return self.passes + self.position / self.rows

    @property
    def is_exhausted(self) -> bool:
        """Whether the prompts that are not solved fill no batch."""
        return self.rows - len(self.solved) < self._sampler.batch_size

    def draw(self, batches: int) -> list[int]:
        """Return the rows of the next batches, unless [`is_exhausted`]. A pass ends where no whole batch is left."""
        return [number for _ in range(batches) for number in self._next_batch()]

    def _next_batch(self) -> list[int]:
        assert not self.is_exhausted, "no pass has a batch"
        while True:
            rest = enumerate(self._order_of_pass()[self.position :], start=self.position + 1)
            drawn = list(islice(((end, row) for end, row in rest if row not in self.solved), self._sampler.batch_size))
            if len(drawn) == self._sampler.batch_size:
                self.position = drawn[-1][0]
                return [row for _, row in drawn]
            self.passes, self.position = self.passes + 1, 0

    def pass_over(self, numbers: Iterable[int]) -> None:
        """Do not draw these rows again: their prompts are solved."""
        self.solved |= {number: self._identity(number) for number in numbers}

    def rows_of(self, numbers: list[int]) -> list[dict[str, Any]]:
        """The rows with these numbers, each a dictionary of its own, as torch's data loader takes them."""
        source: Any = self._sampler.data_source  # TRL asks for its length only
        if hasattr(source, "__getitems__"):
            return source.__getitems__(numbers)
        return [dict(source[number]) for number in numbers]

    def state_dict(self) -> dict[str, Any]:
        """Where it is, in how many rows, and which of them are solved."""
        return {"passes": self.passes, "position": self.position, "rows": self.rows, "solved": dict(self.solved)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a [`state_dict`]. A solved row that has another prompt now is not solved, and a warning says so.

        Raises:
            `ValueError`: it is of a data set of another length, whose rows have other numbers.
        """
        if state["rows"] != self.rows:
            raise InvalidValueError(
                f"train_dataset must have {state['rows']} rows, as when the checkpoint was saved, got {self.rows}. "
                "Resume on the same data, or begin a new run from the checkpoint's weights."
            )
        self.passes, self.position = state["passes"], state["position"]
        self._orders, self._order = self._orders_of_passes(), (-1, [])
        before = state["solved"]
        self.solved = {number: prompt for number, prompt in before.items() if prompt == self._identity(number)}
        if others := len(before) - len(self.solved):
            logger.warning(
                "%d of the %d prompts that were solved when the checkpoint was saved are others now, and are drawn.",
                others,
                len(before),
            )

    def _identity(self, number: int) -> str:
        prompt = json.dumps(
            self.rows_of([number])[0]["prompt"], sort_keys=True, default=lambda part: type(part).__name__
        )
        return hashlib.blake2b(prompt.encode(), digest_size=8).hexdigest()

    def _order_of_pass(self) -> list[int]:
        while self._order[0] < self.passes:
            self._order = next(self._orders)
        return self._order[1]

    def _orders_of_passes(self) -> Iterator[tuple[int, list[int]]]:
        theirs = self._sampler
        # TRL's sampler shuffles anew each time it is read, from one stream of random numbers.
        fresh = RepeatSampler(theirs.data_source, 1, 1, shuffle=theirs.shuffle, seed=theirs.seed)
        return ((number, list(fresh)) for number in count())
