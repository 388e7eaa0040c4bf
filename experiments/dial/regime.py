"""Gives access to the published runs of one regime, by arm and start.

A start of a block counts only if all arms of the block were run from it (protocol3.md, *Stopping*).
"""

from collections.abc import Sequence
from functools import cache
from pathlib import Path

from experiments.dial import analysis
from experiments.dial.analysis import Run
from experiments.dial.plan import file_name, jobs_of, read_plan

START = "start"
"""The name of the arm of the start models."""
STARTS = range(41, 51)


class Regime:
    """The published runs of a regime, by arm and start."""

    def __init__(self, folder: Path, name: str) -> None:
        self.name = name
        self._folder = folder / name
        jobs = [job for job in jobs_of(read_plan()) if job.folder == name]
        missing = {(job.block, job.start) for job in jobs if not (self._folder / job.file).exists()}
        self._left_out = {(job.arm, job.start) for job in jobs if (job.block, job.start) in missing}

    @cache  # noqa: B019  # a page reads each file once
    def run(self, arm: str, start: int) -> Run | None:
        """Return a run, or `None` if not all arms of its block are published for this start."""
        path = self._folder / file_name(arm, start)
        is_missing = (arm, start) in self._left_out or not path.exists()
        return None if is_missing else analysis.read_run(path)

    def starts(self, *arms: str) -> list[int]:
        """Return the starts from which all arms in `arms` have a run."""
        return [n for n in STARTS if all(self.run(arm, n) is not None for arm in (START, *arms))]

    def of(self, arm: str, starts: Sequence[int]) -> list[Run]:
        """Return the runs of an arm from the starts in `starts`, leaving out missing ones."""
        return [run for n in starts if (run := self.run(arm, n)) is not None]
