"""The evaluations below a run: intervals of those in its training, comparisons of runs, sweeps over temperatures.

A run has them in `benchmarks/step-N`, where `BenchmarkEvaluation` writes them, and in any other folder directly below
it that `steer-trl eval` has written. Those of the training count where the run's log has their step: a folder may
still hold some of an earlier run. Differences, intervals and verdicts are those of `steer-trl compare`.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from steer_trl import runlog
from steer_trl.evaluation.comparison import Difference, explained
from steer_trl.evaluation.folders import Evaluation, compare_samplings, read_evaluations
from steer_trl.evaluation.frontier import Sweep
from steer_trl.evaluation.records import COMPLETIONS, SUMMARY
from steer_trl.evaluation.summary import flatten
from steer_trl.evaluation.sweeps import sweeps, sweeps_in
from steer_trl.exceptions import InvalidValueError
from steer_trl.report.read import CHECKPOINT, Run, is_number, shortened

IN_TRAINING = "benchmarks"
HEADLINES = re.compile(r"(avg|maj|distinct)@\d+")
"""What one looks at first: one try, the vote, the variety, and pass@ of the most tries."""

Pair = tuple[float, float | None]
Samplings = Mapping[str, Evaluation]


@dataclass(frozen=True)
class Evaluated:
    """What lies below a run.

    Attributes:
        found (`dict[str, dict]`): by the name of their folder, the last evaluation of the training and those of
            `steer-trl eval`; each by the name of its sampling.
        step (`int`, *optional*): after which optimizer step the training was evaluated last.
        intervals (`dict[str, list]`): steps, means and half widths of 95 % intervals, by key of the log.
    """

    found: dict[str, Samplings]
    step: int | None
    intervals: dict[str, list[list[float]]]


def evaluated(run: Run) -> Evaluated:
    """Find the evaluations below a run, whose completions are not read yet; a note in it says what cannot be read."""
    last: int | None = None
    intervals: dict[str, list[list[float]]] = {}
    own = {IN_TRAINING, runlog.LOGS}
    folders = {p.name: p for p in _folders(run.folder) if p.name not in own and not CHECKPOINT.match(p.name)}
    for step, path in _steps(run.folder / IN_TRAINING):
        for key, (mean, half) in _summary(path).items():
            if step in run.curves.get(key, {}):
                last, folders[IN_TRAINING] = step, path
                if half is not None:
                    columns = intervals.setdefault(key, [[], [], []])
                    for column, value in zip(columns, (step, _rounded(mean), _rounded(half)), strict=True):
                        column.append(value)
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
    numbered = [(path.name.removeprefix("step-"), path) for path in _folders(folder)]
    return sorted((int(number), path) for number, path in numbered if number.isdecimal() and len(number) < 16)


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


def frontiers(below: Sequence[Evaluated], groups: Sequence[Sequence[int]]) -> list[dict[str, Any]]:
    """Return what the page draws: for each name and benchmark, a curve of each group whose runs were all swept."""
    pictures: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for name in sorted({name for one in below for name in one.found}):
        for i, group in enumerate(groups):
            if all(len(below[place].found.get(name, ())) > 1 for place in group):
                for benchmark, sweep in _swept([below[place].found[name] for place in group]).items():
                    pictures.setdefault((name, benchmark), []).append({"group": i} | _curve(sweep))
    return [{"name": name, "benchmark": one, "curves": curves} for (name, one), curves in pictures.items()]


def _swept(read: Sequence[Samplings]) -> dict[str, Sweep]:
    """The largest sweep of each run, by benchmark; nothing where a run has none, or another one."""
    try:
        found = [max(sweeps_in(one.values()).values(), key=len, default={}) for one in read]
        is_one = len(found[0]) > 1 and all([*one] == [*found[0]] for one in found)
        return sweeps(found) if is_one else {}
    except (ValueError, LookupError, TypeError, AttributeError):  # other problems, or settings of none of ours
        return {}


def _curve(sweep: Sweep) -> dict[str, Any]:
    """Temperature, accuracy and pass@ the most tries of each point; of each k the best temperature, pass@k there."""
    means = {k: sweep.solved(k).mean((1, 2)) for k in sweep.tries}
    most = sweep.tries[-1]
    points = zip(sweep.temperatures, means[1], means[most], strict=True)
    best = [(k, sweep.temperatures[of_k.argmax()], float(of_k.max())) for k, of_k in means.items()]
    return {"k": most, "points": [list(map(float, point)) for point in points], "best": best}
