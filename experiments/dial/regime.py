"""The published runs of one regime, by arm and start."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path

from experiments.dial import analysis
from experiments.dial.analysis import Run
from experiments.dial.plan import file_name

START = "start"
"""The arm of the model before training."""
STARTS = range(41, 51)


class Regime:
    """The published runs of a regime, by arm and start."""

    def __init__(self, folder: Path, name: str) -> None:
        self.name = name
        self._folder = folder / name

    @cache  # noqa: B019  # a page reads each file once
    def run(self, arm: str, start: int) -> Run | None:
        """Return a run, or `None` where it is not there yet."""
        path = self._folder / file_name(arm, start)
        return analysis.read_run(path) if path.exists() else None

    def starts(self, *arms: str) -> list[int]:
        """Return the starts that all of these arms have a run of."""
        return [n for n in STARTS if all(self.run(arm, n) is not None for arm in (START, *arms))]

    def of(self, arm: str, starts: Sequence[int]) -> list[Run]:
        """Return the runs of an arm from these starts, which must be there."""
        return [run for n in starts if (run := self.run(arm, n)) is not None]
