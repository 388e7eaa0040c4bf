"""Where new prompts come from: the order of TRL's own sampler, read at its own pace.

TRL hands a rollout one batch of prompts. Dynamic sampling needs more of them, nobody knows beforehand how many, so it
reads the same order itself: pass after pass over the data set, each shuffled as TRL's sampler would. Its place is two
numbers, which go into the checkpoint; no prompt comes twice in a pass, whether it was trained on or dropped.
"""

from typing import Any

from trl.trainer.utils import RepeatSampler

from steer_trl.exceptions import InvalidValueError


class PromptStream:
    """The prompts of all ranks, in batches.

    Attributes:
        passes (`int`): how many passes over the data set are finished.
        position (`int`): how many prompts of the present pass were read.
    """

    def __init__(self, sampler: RepeatSampler) -> None:
        self.passes = self.position = 0
        self._sampler = sampler
        self._order: tuple[int, list[int]] = (-1, [])

    @property
    def rows(self) -> int:
        """Rows of the data set."""
        return self._sampler.num_samples

    @property
    def epochs(self) -> float:
        """Passes over the data set, counting every prompt that was read."""
        return self.passes + self.position / self.rows

    def draw(self, batches: int) -> list[int]:
        """Return the rows of the next batches. As in TRL, a pass ends where no whole batch is left."""
        size, rows = self._sampler.batch_size, []
        for _ in range(batches):
            if self.position + size > self.rows:
                self.passes, self.position = self.passes + 1, 0
            rows += self._order_of_pass()[self.position : self.position + size]
            self.position += size
        return rows

    def row(self, number: int) -> dict[str, Any]:
        """One row of the data set, by its number."""
        return dict(self._sampler.data_source[number])  # type: ignore[index]  # TRL asks for its length only

    def state_dict(self) -> dict[str, int]:
        """Where it is, and in how many rows."""
        return {"passes": self.passes, "position": self.position, "rows": self.rows}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Go on from a [`state_dict`].

        Raises:
            `ValueError`: it is of a data set of another length, whose rows have other numbers.
        """
        if state["rows"] != self.rows:
            raise InvalidValueError(
                f"train_dataset must have {state['rows']} rows, as when the checkpoint was saved, got {self.rows}. "
                "Resume on the same data, or begin a new run from the checkpoint's weights."
            )
        self.passes, self.position = state["passes"], state["position"]

    def _order_of_pass(self) -> list[int]:
        if self._order[0] != self.passes:
            theirs = self._sampler
            # TRL's sampler shuffles anew each time it is read, from one stream of random numbers.
            fresh = RepeatSampler(theirs.data_source, 1, theirs.batch_size, shuffle=theirs.shuffle, seed=theirs.seed)
            for _ in range(self.passes):
                list(fresh)
            self._order = (self.passes, list(fresh))
        return self._order[1]
