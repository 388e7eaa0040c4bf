"""Summarizes judged samples: the metrics of each benchmark, their average, and a table.

| key | mean over problems of |
|---|---|
| `avg@k` | the share of correct samples among k |
| `pass@j` | the probability that one of j samples is correct, j = 2, 4, 8, ... up to k |
| `cover@t` | 1 if at least the share t of the k samples is correct, otherwise 0, t = 0.25, 0.5, 0.75 |
| `maj@k` | the probability that the most frequent answer among k samples is correct |
| `distinct@k` | the number of different correct completions among k samples |
| `unanswered`, `truncated`, `timed_out` | the share of samples without an answer, cut off, or not judged in time |
| `num_tokens` | the number of tokens of a sample |

Each metric comes with the half width of its 95 % interval over problems. In the average, all benchmarks
have the same weight.
"""

import math
from collections.abc import Mapping, Sequence
from itertools import groupby
from statistics import fmean
from typing import Any

from steer_trl.evaluation.metrics import majority_vote, mean_and_interval, values_of_counts
from steer_trl.evaluation.records import SampleRecord

COUNTS = ("distinct@", "num_tokens")
"""Prefixes of the metrics whose values are counts and not shares."""
OF_THEIR_OWN = ("avg@", "maj@", "distinct@")
"""Prefixes of the metrics whose names end with the benchmark's number of samples."""
Pairs = dict[str, tuple[float, float]]
"""Maps each metric to its mean and the half width of its interval."""


def summarize(judged: Sequence[SampleRecord]) -> dict[str, Any]:
    """Return the summary of judged samples.

    In the summary, `benchmarks` maps each name to `problems`, `samples` and `metrics`, and `average`
    has the metrics averaged over benchmarks. The value of a metric is a pair of its mean and the
    half width of its interval. The half width is `None` for a single problem.
    """
    benchmarks = {}
    rows = []
    for name, problems in _group_by_problem(judged).items():
        metrics = {key: mean_and_interval(values) for key, values in _measure(problems).items()}
        rows.append(metrics | _rename_common(metrics))
        benchmarks[name] = {
            "problems": len(problems),
            "samples": len(problems[0]),
            "metrics": _drop_nan(metrics),
        }
    return {"benchmarks": benchmarks, "average": _drop_nan(_average(rows))}


def _drop_nan(pairs: Pairs) -> dict[str, tuple[float, float | None]]:
    return {key: (mean, None if math.isnan(half) else half) for key, (mean, half) in pairs.items()}


def measure_problems(judged: Sequence[SampleRecord]) -> dict[str, dict[str, dict[str, float]]]:
    """Return the value of each metric for each problem, nested by benchmark, metric and problem id."""
    values_of = {}
    for name, problems in _group_by_problem(judged).items():
        ids = [samples[0].id for samples in problems]
        values_of[name] = {key: dict(zip(ids, values, strict=True)) for key, values in _measure(problems).items()}
    return values_of


def flatten(summary: Mapping[str, Any], sampling: str = "") -> dict[str, tuple[float, float | None]]:
    """Return the metrics of a summary as one flat mapping with keys such as `aime24_avg@32`.

    Each value is a pair of the mean and the half width of its interval.
    """
    rows = {name: row["metrics"] for name, row in summary["benchmarks"].items()}
    if len(rows) > 1:
        rows["average"] = summary["average"]
    return {f"{join_names(name, sampling)}_{key}": pair for name, row in rows.items() for key, pair in row.items()}


def join_names(benchmark: str, sampling: str) -> str:
    """Return a benchmark's name in the log, followed by the sampling's name unless that is empty."""
    return f"{benchmark}_{sampling}" if sampling else benchmark


def _group_by_problem(judged: Sequence[SampleRecord]) -> dict[str, list[list[SampleRecord]]]:
    """Group judged samples by benchmark and then by problem."""
    groups = {}
    for name, samples in groupby(judged, key=lambda record: record.benchmark):
        groups[name] = [list(group) for _, group in groupby(samples, key=lambda record: record.id)]
    return groups


def _measure(problems: list[list[SampleRecord]]) -> dict[str, list[float]]:
    """Return the values of each metric, one for each problem."""
    k = len(problems[0])
    values = values_of_counts(k, [sum(record.correct for record in samples) for samples in problems])
    if k > 1:
        values[f"maj@{k}"] = [_vote(samples) for samples in problems]
        values[f"distinct@{k}"] = [float(len(_correct_texts(samples))) for samples in problems]
    values["unanswered"] = [fmean(record.answer is None for record in samples) for samples in problems]
    for key in ("truncated", "timed_out", "num_tokens"):
        values[key] = [fmean(getattr(record, key) for record in samples) for samples in problems]
    return values


def _vote(samples: Sequence[SampleRecord]) -> float:
    votes = [None if record.answer is None else record.vote for record in samples]
    return majority_vote(votes, [record.correct for record in samples])


def _correct_texts(samples: Sequence[SampleRecord]) -> set[str]:
    return {record.completion.strip() for record in samples if record.correct}


def _rename_common(metrics: Pairs) -> Pairs:
    """Return `avg@k` and `maj@k` under the names `avg` and `maj`.

    The papers average these metrics over benchmarks with different k, so their names must not contain k.
    """
    renamed = {}
    for key, pair in metrics.items():
        kind = key.partition("@")[0]
        if kind in ("avg", "maj"):
            renamed[kind] = pair
    return renamed


def _average(rows: list[Pairs]) -> Pairs:
    """Average the metrics that all benchmarks have.

    The benchmarks are independent, so the squares of their half widths add up.
    """
    averages = {}
    for key in rows[0]:
        pairs = [row[key] for row in rows if key in row]
        if len(pairs) == len(rows) and not key.startswith(OF_THEIR_OWN):
            means, halves = zip(*pairs, strict=True)
            averages[key] = fmean(means), math.hypot(*halves) / len(rows)
    return averages


def table(summary: Mapping[str, Any]) -> str:
    """Return a plain-text table with a column for each benchmark and a row for each metric."""
    # pandas takes a second to import, and only this function needs it.
    from pandas import DataFrame

    columns = {}
    for name, row in summary["benchmarks"].items():
        columns[name] = {"problems": str(row["problems"])} | _cells(row)
    if len(columns) > 1:
        columns["average"] = _cells({"metrics": summary["average"]})
    note = (
        "Percent, ± half width of the 95 % interval over problems; sampling's seed-to-seed variance is not included. "
        "distinct: different correct completions of a problem."
    )
    return f"{DataFrame(columns).fillna('').to_string()}\n\n{note}"


def _cells(row: Mapping[str, Any]) -> dict[str, str]:
    cells = {}
    for key, (mean, half) in row["metrics"].items():
        if key.startswith(COUNTS):
            cells[key] = f"{mean:.2f}"
        else:
            cells[key] = f"{100 * mean:.1f} ±{100 * half:.1f}" if half else f"{100 * mean:.1f}"
    return cells
