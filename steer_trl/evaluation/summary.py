"""From samples to numbers: one row per benchmark, their average, and a table of them.

| key | what, as a mean over problems |
|---|---|
| `avg@k` | share of correct samples among k |
| `pass@j` | probability that one of j samples is correct, j = 2, 4, 8, ... up to k |
| `cover@t` | share of problems of which at least the share t of the k samples is correct, t = 0.25, 0.5, 0.75 |
| `maj@k` | probability that the most frequent answer of k is correct |
| `distinct@k` | how many different correct completions are among k |
| `unanswered`, `truncated`, `timed_out` | share of samples without an answer, cut off, incorrect at the deadline |
| `num_tokens` | tokens of a sample |

Each with the half width of its 95 % interval over problems. The average is over benchmarks, each counting the same.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any

from steer_trl.evaluation.metrics import majority_vote, mean_and_interval, values_of_counts

COUNTS = ("distinct@", "num_tokens")
Numbers = dict[str, tuple[float, float]]


def summarize(entries: list[dict[str, Any]]) -> dict[str, Any]:
    """Return `benchmarks` (name -> `problems`, `samples`, `metrics`) and `average` of [`evaluate`]'s entries.

    A metric is a pair: mean, and half width of the interval, `None` for a single problem.
    """
    benchmarks: dict[str, dict[str, Any]] = {}
    for name, problems in _problems(entries).items():
        metrics = {key: mean_and_interval(values) for key, values in _values(problems).items()}
        benchmarks[name] = {"problems": len(problems), "samples": len(problems[0]), "metrics": metrics}
    average = _average([row["metrics"] | _under_common_names(row) for row in benchmarks.values()])
    rows = [*(row["metrics"] for row in benchmarks.values()), average]
    for numbers in rows:
        numbers.update({key: (mean, None if math.isnan(half) else half) for key, (mean, half) in numbers.items()})
    return {"benchmarks": benchmarks, "average": average}


def per_problem(entries: list[dict[str, Any]]) -> dict[str, dict[str, dict[str, float]]]:
    """Return benchmark -> metric -> id of a problem -> value, of [`evaluate`]'s entries."""
    return {
        name: {
            metric: dict(zip([samples[0]["id"] for samples in problems], values, strict=True))
            for metric, values in _values(problems).items()
        }
        for name, problems in _problems(entries).items()
    }


def flatten(summary: Mapping[str, Any], sampling: str = "") -> dict[str, tuple[float, float | None]]:
    """Return the pairs of a summary under one name each: `aime24_avg@32`, ..., `average_avg`."""
    rows = {name: row["metrics"] for name, row in summary["benchmarks"].items()}
    if len(rows) > 1:
        rows["average"] = summary["average"]
    return {f"{joined(name, sampling)}_{key}": pair for name, row in rows.items() for key, pair in row.items()}


def joined(benchmark: str, sampling: str) -> str:
    """Return what a benchmark is called in a log: with the name of its sampling, where it has one."""
    return f"{benchmark}_{sampling}" if sampling else benchmark


def _problems(entries: list[dict[str, Any]]) -> dict[str, list[list[dict[str, Any]]]]:
    """The samples of each problem of each benchmark."""
    return {
        name: [list(group) for _, group in groupby(samples, key=lambda entry: entry["id"])]
        for name, samples in groupby(entries, key=lambda entry: entry["benchmark"])
    }


def _values(problems: list[list[dict[str, Any]]]) -> dict[str, list[float]]:
    k = len(problems[0])
    num_correct = [sum(sample["correct"] for sample in problem) for problem in problems]
    values = values_of_counts(k, num_correct)
    if k > 1:
        values[f"maj@{k}"] = [
            majority_vote([s["vote"] if s["answer"] is not None else None for s in p], [s["correct"] for s in p])
            for p in problems
        ]
        right = [{sample["completion"].strip() for sample in p if sample["correct"]} for p in problems]
        values[f"distinct@{k}"] = [float(len(texts)) for texts in right]
    values["unanswered"] = [sum(sample["answer"] is None for sample in problem) / k for problem in problems]
    for key in ("truncated", "timed_out", "num_tokens"):
        values[key] = [sum(sample[key] for sample in problem) / k for problem in problems]
    return values


def _under_common_names(row: dict[str, Any]) -> Numbers:
    """avg and maj are averaged over benchmarks whatever their k, as the papers do."""
    return {key.split("@")[0]: value for key, value in row["metrics"].items() if key.startswith(("avg@", "maj@"))}


def _average(rows: list[Numbers]) -> Numbers:
    """Average what all benchmarks have; they are drawn independently, so the squares of the half widths add up."""
    of_their_own = ("avg@", "maj@", "distinct@")
    shared = [key for key in rows[0] if all(key in row for row in rows) and not key.startswith(of_their_own)]
    return {
        key: (
            sum(row[key][0] for row in rows) / len(rows),
            math.sqrt(sum(row[key][1] ** 2 for row in rows)) / len(rows),
        )
        for key in shared
    }


def table(summary: Mapping[str, Any]) -> str:
    """A column per benchmark, a row per metric: percent ± half width; different completions and tokens as numbers."""
    from pandas import DataFrame  # a second to import, and nothing else here needs it

    columns = {name: {"problems": str(row["problems"])} | _cells(row) for name, row in summary["benchmarks"].items()}
    if len(columns) > 1:
        columns["average"] = _cells({"metrics": summary["average"]})
    note = (
        "Percent, ± half width of the 95 % interval over problems; sampling's seed-to-seed variance is not included. "
        "distinct: different correct completions of a problem."
    )
    return f"{DataFrame(columns).fillna('').to_string()}\n\n{note}"


def _cells(row: Mapping[str, Any]) -> dict[str, str]:
    return {
        key: f"{mean:.2f}" if key.startswith(COUNTS) else f"{100 * mean:.1f}" + (f" ±{100 * half:.1f}" if half else "")
        for key, (mean, half) in row["metrics"].items()
    }


def markdown_table(head: Sequence[Any], rows: Iterable[Iterable[Any]]) -> str:
    """Return a table of Markdown, without a last line break."""
    first, *others = ("| " + " | ".join(map(str, row)) + " |" for row in (head, *rows))
    return "\n".join([first, "|---" * len(head) + "|", *others])
