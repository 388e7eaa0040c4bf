"""The evaluations below a run: the intervals of those during its training, and their comparison between runs.

A run has them in `benchmarks/step-N`, where `BenchmarkEvaluation` writes them, and in any other folder directly below
it that `steer-trl eval` has written. Those of the training count where the run's log says the same: a folder may still
hold some of an earlier run. Differences, intervals and verdicts are those of `steer-trl compare`.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from steer_trl import runlog
from steer_trl.evaluation.comparison import Difference, explained
from steer_trl.evaluation.folders import Evaluation, compare_evaluations, differing_settings, read_evaluations
from steer_trl.evaluation.records import COMPLETIONS, SUMMARY
from steer_trl.evaluation.summary import flat_pairs
from steer_trl.exceptions import InvalidValueError
from steer_trl.report.fields import is_number, shortened
from steer_trl.report.read import CHECKPOINT, Run

IN_TRAINING = "benchmarks"
STEP = re.compile(r"step-(\d{1,15})")
MOST_BASELINES = 6  # sides that all others are held against; of more, the first alone

Pair = tuple[float, float | None]
Samplings = Mapping[str, Evaluation]


@dataclass(frozen=True)
class Evaluated:
    """What lies below a run.

    Attributes:
        folders (`dict[str, Path]`): evaluations by name: the last one of the training, and those of `steer-trl eval`.
        step (`int`, *optional*): after which optimizer step the training was evaluated last.
        intervals (`dict[str, list]`): steps, means and half widths of 95 % intervals, by key of the log.
        read (`dict[str, dict]`): what has been read of the folders, once; `None` of what cannot be.
    """

    folders: dict[str, Path] = field(default_factory=dict)
    step: int | None = None
    intervals: dict[str, list[list[float]]] = field(default_factory=dict)
    read: dict[str, Samplings | None] = field(default_factory=dict)

    def is_of_several(self, name: str) -> bool:
        """Whether there is an evaluation of this name, in several ways of sampling."""
        return name in self.folders and sum(map(_is_evaluation, _with_inner(self.folders[name]))) > 1


def evaluated(run: Run) -> Evaluated:
    """Find the evaluations below a run; their completions are not read yet."""
    summaries = {step: (path, _summary(path)) for step, path in _steps(run.folder / IN_TRAINING)}
    logged = {step: one for step, one in summaries.items() if _is_logged(run, step, one[1])}
    intervals: dict[str, list[list[float]]] = {}
    for step, (_, pairs) in logged.items():
        for key, (mean, half) in pairs.items():
            if half is not None and step in run.curves.get(key, {}):
                columns = intervals.setdefault(key, [[], [], []])
                for column, value in zip(columns, (step, _rounded(mean), _rounded(half)), strict=True):
                    column.append(value)
    last = max(logged, default=None)
    folders = {} if last is None else {IN_TRAINING: logged[last][0]}
    of_its_own = {IN_TRAINING, runlog.LOGS}
    inside = (path for path in _folders(run.folder) if path.name not in of_its_own and not CHECKPOINT.match(path.name))
    folders |= {path.name: path for path in inside if any(map(_is_evaluation, _with_inner(path)))}
    return Evaluated(folders, last, intervals)


def comparisons(
    runs: Sequence[Run], found: Sequence[Evaluated], groups: Sequence[Sequence[int]]
) -> list[dict[str, Any]]:
    """Return what the page shows of evaluations that several groups of runs have, one table for each name.

    A note in a run says which of its evaluations cannot be read.
    """
    names = {name for one in found for name in one.folders}
    tables = []
    for name in sorted(
        names, key=lambda name: (name == IN_TRAINING, name)
    ):  # what was measured on purpose comes first
        having = [i for i, group in enumerate(groups) if all(name in found[place].folders for place in group)]
        if len(having) < 2:
            continue
        read = {i: [read_samplings(runs[place], found[place], name) for place in groups[i]] for i in having}
        sides = {i: whole for i, seeds in read.items() if len(whole := [one for one in seeds if one]) == len(seeds)}
        if len(sides) > 1:
            steps = {i: [found[place].step if name == IN_TRAINING else None for place in groups[i]] for i in sides}
            tables.append(
                {
                    "name": name,
                    "sides": [{"group": i, "steps": steps[i]} for i in sides],
                    "without": [i for i in range(len(groups)) if i not in sides],
                    "pairs": _pairs(list(sides.values())),
                }
            )
    return tables


# What lies below a run.


def _folders(folder: Path) -> list[Path]:
    try:
        return [path for path in sorted(folder.iterdir()) if path.is_dir()]
    except OSError:
        return []


def _with_inner(folder: Path) -> list[Path]:
    """The folder, of a single sampling, and those in it, of one sampling each."""
    return [folder, *_folders(folder)]


def _is_evaluation(folder: Path) -> bool:
    return (folder / COMPLETIONS).exists()


def _steps(folder: Path) -> list[tuple[int, Path]]:
    matches = ((STEP.fullmatch(path.name), path) for path in _folders(folder))
    return sorted((int(match[1]), path) for match, path in matches if match)


def _summary(folder: Path) -> dict[str, Pair]:
    """Means and half widths of a step's summaries by their keys in the log; nothing of what is no summary."""
    found: dict[str, Pair] = {}
    for path in _with_inner(folder):
        try:
            summary = runlog.loads((path / SUMMARY).read_bytes()) or {}
            pairs = flat_pairs(summary, "" if path == folder else path.name)
            found |= {f"eval_{key}": (mean, half) for key, (mean, half) in pairs.items() if _is_pair(mean, half)}
        except (OSError, KeyError, TypeError, ValueError, AttributeError):  # what is there is none of ours
            continue
    return found


def _is_pair(mean: Any, half: Any) -> bool:
    return is_number(mean) and (half is None or is_number(half))


def _is_logged(run: Run, step: int, summary: Mapping[str, Pair]) -> bool:
    both = [(pair[0], run.curves[key][step]) for key, pair in summary.items() if step in run.curves.get(key, {})]
    return bool(both) and all(abs(mean - value) <= 1e-6 * max(1.0, abs(value)) for mean, value in both)


def read_samplings(run: Run, below: Evaluated, name: str) -> Samplings | None:
    """Return the evaluations of one name below a run; a note in it says what cannot be read."""
    if name not in below.read:
        below.read[name] = _read(run, below.folders[name])
    return below.read[name]


def _read(run: Run, folder: Path) -> Samplings | None:
    try:
        samplings = read_evaluations(folder)
        for one in samplings.values():
            _ = one.values  # read now: what cannot be read is a note of this run
    except (InvalidValueError, OSError) as error:
        run.notes.append(shortened(" ".join(str(error).split())))
        return None
    return samplings


# One side against another.


def _pairs(sides: Sequence[list[Samplings]]) -> list[dict[str, Any]]:
    baselines = range(len(sides) if len(sides) <= MOST_BASELINES else 1)
    return [{"a": a, "b": b} | _against(sides[a], sides[b]) for a in baselines for b in range(len(sides)) if a != b]


def _against(a: Sequence[Samplings], b: Sequence[Samplings]) -> dict[str, Any]:
    """The rows of `steer-trl compare`, and how their intervals are made; or why there are none."""
    rows = []
    try:
        for name in _samplings(a, b):
            of_a, of_b = ([seed[name] for seed in side] for side in (a, b))
            if others := differing_settings(of_a, of_b):
                raise InvalidValueError(f"they were evaluated in other ways: {'; '.join(others)}.")
            for benchmark, metrics in compare_evaluations(of_a, of_b).items():
                rows += [_row(name, benchmark, metric, one) for metric, one in metrics.items()]
    except InvalidValueError as error:
        return {"refused": shortened(" ".join(str(error).split()), 600)}
    about = explained(several=(len(a), len(b)) != (1, 1))
    return {"rows": rows, "about": about}


def _samplings(a: Sequence[Samplings], b: Sequence[Samplings]) -> list[str]:
    names = list(a[0])
    if any(list(seed) != names for seed in [*a, *b]):
        raise InvalidValueError("they were drawn in other ways: not all have the same samplings.")
    return names


def _row(sampling: str, benchmark: str, metric: str, found: Difference) -> dict[str, Any]:
    numbers = {
        name: [_rounded(end) for end in value] if isinstance(value, tuple) else value and _rounded(value)
        for name, value in asdict(found).items()
    }
    names = {"sampling": sampling, "benchmark": shortened(benchmark, 80), "metric": metric}
    return names | numbers | {"verdict": found.verdict}


def _rounded(value: float) -> float:
    return float(f"{value:.6g}")
