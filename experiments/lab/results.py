"""Reads the results of an experiment's runs: the table, and the verdicts of `steer-trl compare`."""

import json
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf
from pathlib import Path
from statistics import mean
from typing import Any

from pandas import DataFrame

from experiments.lab.published import DIGITS
from experiments.lab.runs import SAMPLES, START, TEST, Experiment
from steer_trl.curves import series
from steer_trl.evaluation import mean_and_interval
from steer_trl.evaluation.folders import Evaluation, compare_evaluations, read_evaluations
from steer_trl.evaluation.records import SUMMARY
from steer_trl.monitoring import run_files
from steer_trl.monitoring.key_names import GENERATED_TOKENS
from steer_trl.monitoring.start import entropy_ends

COLUMNS = {
    "accuracy T=1": ("t1", f"avg@{SAMPLES}"),
    "accuracy top-p 0.7": ("papers", f"avg@{SAMPLES}"),
    "accuracy greedy": ("greedy", "avg@1"),
    f"pass@{SAMPLES} T=1": ("t1", f"pass@{SAMPLES}"),
    f"pass@{SAMPLES} top-p 0.7": ("papers", f"pass@{SAMPLES}"),
    f"distinct@{SAMPLES} T=1": ("t1", f"distinct@{SAMPLES}"),
}
"""Maps a column to its sampling and metric.

A lower entropy alone raises the accuracy at temperature 1, so the papers' top-p of 0.7 and greedy are shown as well.
"""


@dataclass(frozen=True)
class Result:
    """The results of a finished run, read from its folder."""

    folder: Path

    @cached_property
    def log(self) -> list[dict[str, Any]]:
        """All entries of the run's log."""
        path = self.folder / run_files.LOGS / run_files.METRICS
        return [entry for entry in run_files.lines(path) if entry is not None]

    @cached_property
    def test(self) -> dict[str, Evaluation]:
        """Maps sampling names to the evaluations on the test split."""
        return read_evaluations(self.folder / TEST)

    @property
    def seconds(self) -> float:
        """The seconds that training took, since its start or since it was last resumed."""
        return float(series(self.log, "train_runtime")[-1][1])

    def tokens_until(self) -> Callable[[float], float]:
        """Return a function from an optimizer step to the millions of tokens generated until then.

        Tokens of dropped groups are included.
        """
        steps, totals = zip((0, 0), *series(self.log, GENERATED_TOKENS), strict=True)
        return lambda step: totals[bisect_right(steps, step) - 1] / 1e6

    def validation(self, sampling: str, metric: str) -> list[tuple[int, float, float]]:
        """Return step, mean and half width of the interval of each evaluation on the validation split, in order."""
        found = []
        for path in self.folder.glob(f"benchmarks/step-*/{sampling}/{SUMMARY}"):
            metrics = json.loads(path.read_text())["benchmarks"]["validation"]["metrics"]
            if metric in metrics:
                value, half = metrics[metric]
                found.append((int(path.parents[1].name.removeprefix("step-")), value, half or 0.0))
        return sorted(found)


def read_results(experiment: Experiment, names: Sequence[str]) -> dict[str, Result]:
    """Return the results of the start model and of the runs in `names`, by name."""
    return {name: Result(experiment.folder(name)) for name in (START, *names)}


def frame(results: Mapping[str, Result], timed_against: str | None = None) -> DataFrame:
    """Return a table with a row per run: generated tokens, entropy at start and end, metrics with 95 % intervals.

    With `timed_against`, a last column shows times relative to this run. Use it only if each run had the machine to
    itself.
    """
    rows = {}
    for name, result in results.items():
        trained = name != START
        ends = entropy_ends(result.log) if trained else None
        row = {"generated tokens": f"{result.tokens_until()(inf):.2f} M" if trained else ""}
        row["entropy"] = "{:.3f} -> {:.3f}".format(*ends) if ends else ""
        for column, (sampling, metric) in COLUMNS.items():
            values = list(result.test[sampling].values["test"][metric].values())
            row[column] = "{:.3f} ±{:.3f}".format(*mean_and_interval(values))
        if timed_against:
            row["time"] = f"{result.seconds / results[timed_against].seconds:.2f}" if trained else ""
        rows[name] = row
    return DataFrame(rows).T


def table(results: Mapping[str, Result], timed_against: str | None = None) -> str:
    """Return the result of [`frame`] as text, with an explanation of its numbers."""
    problems = len(results[START].test["greedy"].values["test"]["avg@1"])
    return (
        f"{frame(results, timed_against).to_string()}\n\n"
        f"{problems} problems of the test split, {SAMPLES} samples of each, one if greedy. Entropy in nats per token: "
        "what the run began with, and the mean of its last ten steps.\n"
        "± is the half width of the 95 % interval over problems; it does not include seed-to-seed variance."
    )


def verdicts(results: Mapping[str, Result], baseline: str, names: Sequence[str] = ()) -> str:
    """List the metrics in which each run differs from the baseline, and those in which no difference is decided.

    `names` selects some of the runs. The differences and the words are those of `steer-trl compare`.
    """
    lines = [f"Against {baseline}, paired over the same problems, difference and 95 % interval:"]
    for name in names or [name for name in results if name not in (START, baseline)]:
        found: dict[str, list[str]] = {"higher": [], "lower": [], "not decided": []}
        sides = results[baseline].test, results[name].test
        compared = {one: compare_evaluations([sides[0][one]], [sides[1][one]])["test"] for one in sides[0]}
        for column, (sampling, metric) in COLUMNS.items():
            one = compared[sampling][metric]
            found[one.verdict].append(f"{column} {one.difference:+.3f} ({one.low:+.3f} to {one.high:+.3f})")
        lines += [f"{name}: {verdict} in {', '.join(texts)}." for verdict, texts in found.items() if texts]
    return "\n".join(lines)


def smoothed(values: Sequence[float], window: int = 8) -> list[float]:
    """Return the running mean of values, over at most `window` values up to each one."""
    return [mean(values[max(0, i - window + 1) : i + 1]) for i in range(len(values))]


def packed(benchmarks: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return the counts of every benchmark in the short form of published files, with strings instead of lists."""
    found = {}
    for name, counts in benchmarks.items():
        prefix = counts["ids"][0].removesuffix("0")
        is_counted = counts["ids"] == [f"{prefix}{i}" for i in range(len(counts["ids"]))]
        few = counts["samples"] < len(DIGITS)
        numbers = {key: counts[key] for key in ("correct", "distinct") if key in counts}
        texts = {key: "".join(DIGITS[one] for one in column) if few else column for key, column in numbers.items()}
        found[name] = counts | {"ids": prefix if is_counted else counts["ids"]} | texts
    return found
