"""The evaluations below a run: the intervals of those during its training, and their comparison between runs.

A run has them in `benchmarks/step-N`, where `BenchmarkEvaluation` writes them, and in any other folder directly below
it that `steer-trl eval` has written. Those of the training count where the run's log says the same: a folder may still
hold some of an earlier run. Differences, intervals and verdicts are those of `steer-trl compare`.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from steer_trl import runlog
from steer_trl.evaluation.comparison import Difference, explained
from steer_trl.evaluation.folders import Evaluation, compare_samplings, read_evaluations
from steer_trl.evaluation.records import COMPLETIONS, SUMMARY
from steer_trl.evaluation.summary import flatten
from steer_trl.exceptions import InvalidValueError
from steer_trl.report.read import CHECKPOINT, Run, is_number, shortened

IN_TRAINING = "benchmarks"
STEP = re.compile(r"step-(\d{1,15})")
HEADLINES = re.compile(r"(avg|maj|distinct)@\d+")
"""What one looks at first: one try, the vote, the variety, and pass@ of the most tries."""

Pair = tuple[float, float | None]
Samplings = Mapping[str, Evaluation]


@dataclass(frozen=True)
class Evaluated:
    """What lies below a run.

    Attributes:
        found (`dict[str, dict]`): evaluations by the name of their folder: the last one of the training, and those of
            `steer-trl eval`; each by the name of its sampling.
        step (`int`, *optional*): after which optimizer step the training was evaluated last.
        intervals (`dict[str, list]`): steps, means and half widths of 95 % intervals, by key of the log.
    """

    found: dict[str, Samplings] = field(default_factory=dict)
    step: int | None = None
    intervals: dict[str, list[list[float]]] = field(default_factory=dict)


def evaluated(run: Run) -> Evaluated:
    """Find the evaluations below a run, whose completions are not read yet; a note in it says what cannot be read."""
    logged = {step: path for step, path in _steps(run.folder / IN_TRAINING) if _is_logged(run, step, _summary(path))}
    intervals: dict[str, list[list[float]]] = {}
    for step, path in logged.items():
        for key, (mean, half) in _summary(path).items():
            if half is not None and step in run.curves.get(key, {}):
                columns = intervals.setdefault(key, [[], [], []])
                for column, value in zip(columns, (step, _rounded(mean), _rounded(half)), strict=True):
                    column.append(value)
    own = {IN_TRAINING, runlog.LOGS}
    folders = {p.name: p for p in _folders(run.folder) if p.name not in own and not CHECKPOINT.match(p.name)}
    last = max(logged, default=None)
    folders |= {} if last is None else {IN_TRAINING: logged[last]}
    found: dict[str, Samplings] = {}
    for name, path in folders.items():
        if any((one / COMPLETIONS).exists() for one in _with_inner(path)):
            try:
                found[name] = read_evaluations(path)
            except (InvalidValueError, OSError) as error:
                run.notes.append(shortened(" ".join(str(error).split())))
    return Evaluated(found, last, intervals)


def comparisons(below: Sequence[Evaluated], groups: Sequence[Sequence[int]]) -> list[dict[str, Any]]:
    """Return what the page shows of evaluations that several groups of runs have: each against the first of them."""
    tables = []
    names = {name for one in below for name in one.found}
    for name in sorted(names, key=lambda name: (name == IN_TRAINING, name)):  # what was measured on purpose is first
        having = [i for i, group in enumerate(groups) if all(name in below[place].found for place in group)]
        sides = {i: [below[place].found[name] for place in groups[i]] for i in having}
        steps = {i: sorted({below[place].step for place in groups[i]}, key=str) for i in having}
        pairs = [{"a": having[0], "b": i} | _against(sides[having[0]], sides[i]) for i in having[1:]]
        if pairs:
            tables.append({"name": name, "steps": steps if name == IN_TRAINING else {}, "pairs": pairs})
    return tables


def _folders(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else []


def _with_inner(folder: Path) -> list[Path]:
    """The folder, of a single sampling, and those in it, of one sampling each."""
    return [folder, *_folders(folder)]


def _steps(folder: Path) -> list[tuple[int, Path]]:
    matches = ((STEP.fullmatch(path.name), path) for path in _folders(folder))
    return sorted((int(match[1]), path) for match, path in matches if match)


def _summary(folder: Path) -> dict[str, Pair]:
    """Means and half widths of a step's summaries by their keys in the log; nothing of what is no summary."""
    found: dict[str, Pair] = {}
    for path in _with_inner(folder):
        try:
            summary = runlog.loads((path / SUMMARY).read_bytes()) or {}
            pairs = flatten(summary, "" if path == folder else path.name)
            found |= {f"eval_{key}": (mean, half) for key, (mean, half) in pairs.items() if is_number(mean)}
        except (OSError, KeyError, TypeError, ValueError, AttributeError):  # what is there is none of ours
            continue
    return found


def _is_logged(run: Run, step: int, summary: Mapping[str, Pair]) -> bool:
    both = [(pair[0], run.curves[key][step]) for key, pair in summary.items() if step in run.curves.get(key, {})]
    return bool(both) and all(math.isclose(mean, value, rel_tol=1e-6, abs_tol=1e-6) for mean, value in both)


def _against(a: Sequence[Samplings], b: Sequence[Samplings]) -> dict[str, Any]:
    """The rows of `steer-trl compare`, and how their intervals are made; or why there are none."""
    try:
        compared = compare_samplings(a, b)
    except InvalidValueError as error:
        return {"refused": shortened(" ".join(str(error).split()), 600)}
    rows = []
    for sampling, benchmarks in compared.items():
        for benchmark, metrics in benchmarks.items():
            most = max(
                (name for name in metrics if name.startswith("pass@")), key=lambda name: int(name[5:]), default=""
            )
            label = f"{benchmark} {sampling}".strip()
            rows += [_row(label, name, one) for name, one in metrics.items() if name == most or HEADLINES.match(name)]
    return {"rows": rows, "about": explained(several=(len(a), len(b)) != (1, 1))}


def _row(label: str, metric: str, found: Difference) -> dict[str, Any]:
    return {"label": label, "metric": metric} | asdict(found) | {"verdict": found.verdict}


def _rounded(value: float) -> float:
    return float(f"{value:.6g}")
