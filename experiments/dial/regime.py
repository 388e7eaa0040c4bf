"""Gives access to the published runs of one regime, by arm and start."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path

from experiments.dial import analysis
from experiments.dial.analysis import Run
from experiments.dial.plan import file_name

START = "start"
"""The name of the arm of the start models."""
STARTS = range(41, 51)


class Regime:
    """The published runs of a regime, by arm and start."""

    def __init__(self, folder: Path, name: str) -> None:
        self.name = name
        self._folder = folder / name

    @cache  # noqa: B019  # a page reads each file once
    def run(self, arm: str, start: int) -> Run | None:
        """Return a run, or `None` if it is not published yet."""
        path = self._folder / file_name(arm, start)
        return analysis.read_run(path) if path.exists() else None

    def starts(self, *arms: str) -> list[int]:
        """Return the starts from which all arms in `arms` have a run."""
        return [n for n in STARTS if all(self.run(arm, n) is not None for arm in (START, *arms))]

    def of(self, arm: str, starts: Sequence[int]) -> list[Run]:
        """Return the runs of an arm from the starts in `starts`, leaving out missing ones."""
        return [run for n in starts if (run := self.run(arm, n)) is not None]
