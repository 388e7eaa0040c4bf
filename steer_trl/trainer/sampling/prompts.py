"""Supplies dynamic sampling with prompts, in the order of TRL's own sampler.

TRL gives a rollout one batch of prompts. Dynamic sampling needs more prompts, and their number is not known
beforehand. So this module reads the prompts itself, in pass after pass over the data set. The order of each pass is
that of TRL's sampler. A checkpoint stores the number of finished passes and the position in the current pass. No
prompt comes twice in a pass, whether it was trained on or dropped.
"""

from typing import Any

from trl.trainer.utils import RepeatSampler

from steer_trl.exceptions import InvalidValueError


class PromptStream:
    """Draws prompts for all ranks.

    `passes` counts finished passes over the data set. `position` counts the prompts drawn in the current pass.
    """

    def __init__(self, sampler: RepeatSampler) -> None:
        self._sampler = sampler
        self.passes = self.position = 0
        self._begin()

    @property
    def epochs(self) -> float:
        """The number of passes over the data set so far, including the finished part of the current pass."""
        return self.passes + self.position / self._sampler.num_samples

    def draw(self, count: int) -> list[int]:
        """Return the row numbers of the next `count` prompts.

        They are drawn in batches no larger than TRL's. A pass over the data set ends when fewer prompts are left than
        the next batch needs.
        """
        drawn: list[int] = []
        while len(drawn) < count:
            size = min(self._sampler.batch_size, count - len(drawn))
            if self.position + size > self._sampler.num_samples:
                self.passes += 1
                self.position = 0
                self._order = list(self._passes)
            drawn += self._order[self.position : self.position + size]
            self.position += size
        return drawn

    def rows_of(self, numbers: list[int]) -> list[dict[str, Any]]:
        """Return the rows with these `numbers`, each as a new dictionary."""
        rows: Any = self._sampler.data_source
        return [dict(rows[number]) for number in numbers]

    def state_dict(self) -> dict[str, int]:
        """Return the position in the data set, and its number of rows."""
        return {"passes": self.passes, "position": self.position, "rows": self._sampler.num_samples}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Restore a [`state_dict`]. Raises `ValueError` if the data set has a different length now."""
        if state["rows"] != self._sampler.num_samples:
            raise InvalidValueError(
                f"train_dataset must have {state['rows']} rows, as when the checkpoint was saved, got "
                f"{self._sampler.num_samples}. Resume on the same data, or begin a new run from the checkpoint's "
                "weights."
            )
        self.passes = state["passes"]
        self.position = state["position"]
        self._begin()

    def _begin(self) -> None:
        """Replay the sampler's shuffles up to the current pass, and store its order of prompts."""
        sampler = self._sampler
        # TRL's sampler shuffles anew each time it is iterated, with a generator that is seeded only once.
        self._passes = RepeatSampler(sampler.data_source, 1, 1, shuffle=sampler.shuffle, seed=sampler.seed)
        for _ in range(self.passes + 1):
            self._order = list(self._passes)
