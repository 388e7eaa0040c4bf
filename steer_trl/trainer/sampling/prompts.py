"""Where new prompts come from: the order of TRL's own sampler, read at its own pace.

TRL hands a rollout one batch of prompts. Dynamic sampling needs more of them, nobody knows beforehand how many, so it
reads the same order itself: pass after pass over the data set, each shuffled as TRL's sampler would. Its place is two
numbers, which go into the checkpoint; no prompt comes twice in a pass, whether it was trained on or dropped.
"""

from typing import Any

from trl.trainer.utils import RepeatSampler

from steer_trl.exceptions import InvalidValueError


class PromptStream:
    """The prompts of all ranks, in batches: how many `passes` are finished, and the `position` in the present one."""

    def __init__(self, sampler: RepeatSampler) -> None:
        self._sampler = sampler
        self.passes = self.position = 0
        self._begin()

    @property
    def epochs(self) -> float:
        """Passes over the data set, counting every prompt that was read."""
        return self.passes + self.position / self._sampler.num_samples

    def draw(self, batches: int) -> list[int]:
        """Return the rows of the next batches. A pass ends where no whole batch is left."""
        drawn: list[int] = []
        for _ in range(batches):
            if self.position + self._sampler.batch_size > self._sampler.num_samples:
                self.passes, self.position, self._order = self.passes + 1, 0, list(self._passes)
            drawn += self._order[self.position : self.position + self._sampler.batch_size]
            self.position += self._sampler.batch_size
        return drawn

    def rows_of(self, numbers: list[int]) -> list[dict[str, Any]]:
        """The rows with these numbers, each a dictionary of its own, as torch's data loader takes them."""
        source: Any = self._sampler.data_source  # TRL asks for its length only
        if hasattr(source, "__getitems__"):
            return source.__getitems__(numbers)
        return [dict(source[number]) for number in numbers]

    def state_dict(self) -> dict[str, int]:
        """Where it is, and in how many rows."""
        return {"passes": self.passes, "position": self.position, "rows": self._sampler.num_samples}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Go on from a [`state_dict`]; `ValueError` where it is of a data set of another length: its rows differ."""
        if state["rows"] != self._sampler.num_samples:
            raise InvalidValueError(
                f"train_dataset must have {state['rows']} rows, as when the checkpoint was saved, got "
                f"{self._sampler.num_samples}. Resume on the same data, or begin a new run from the checkpoint's "
                "weights."
            )
        self.passes, self.position = state["passes"], state["position"]
        self._begin()

    def _begin(self) -> None:
        """Read the orders of the passes up to the present one."""
        theirs = self._sampler
        # TRL's sampler shuffles anew each time it is read, from one stream of random numbers.
        self._passes = RepeatSampler(theirs.data_source, 1, 1, shuffle=theirs.shuffle, seed=theirs.seed)
        for _ in range(self.passes + 1):
            self._order = list(self._passes)
