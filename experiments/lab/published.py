"""Reads and writes the published file of an evaluation, which has only a few kilobytes.

For every problem it holds the number of correct samples, and how many of these are different. avg@k, pass@j, cover@t
and distinct@k depend on nothing else:

    {"start": 0, "seed": 0, "evaluations": {"t1": {"settings": {...}, "benchmarks": {
        "test": {"samples": 16, "ids": ["0", ...], "correct": [3, ...], "distinct": [2, ...]}}}}}

A greedy evaluation, with one sample of each problem, has no `distinct`. In a large file, numbers are stored as the
digits of a string (`0` to `z` for 0 to 35). If the ids are numbered, only their prefix is stored: `"ids": "test-"`.
"""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from steer_trl.evaluation.benchmarks import ids_as_texts
from steer_trl.evaluation.folders import Evaluation, Values, read_evaluations
from steer_trl.evaluation.metrics import values_of_counts
from steer_trl.monitoring import run_files
from steer_trl.support.exceptions import InvalidValueError

EVALUATIONS = "evaluations"
DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


@dataclass(frozen=True)
class Published(Evaluation):
    """An evaluation in a published file.

    Attributes:
        counts (`dict[str, dict]`): the counts of each benchmark.
        run (`tuple[int, int]`, *optional*): the seeds of the start model and of the training run.
    """

    counts: dict[str, dict[str, Any]]
    run: tuple[int, int] | None

    @cached_property
    def values(self) -> Values:
        """Maps each benchmark, metric and problem id to a value."""
        return values_of(self.counts)


def read_published(path: str | Path) -> dict[str, Evaluation]:
    """Return a mapping from sampling names to the evaluations of a published file or of a folder."""
    path = Path(path)
    if path.suffix != ".json":
        return read_evaluations(path)
    return {name: Published(path, **one) for name, one in sorted(read_counts(path).items())}


def entropies_of(rollouts: dict[str, list[float | None]]) -> list[float | None]:
    """Return the mean entropy of every rollout of a published run, in nats.

    A run without a method does not log `rollout_entropy`. Then it is TRL's `entropy`, which is measured at the
    optimizer steps on the same tokens.
    """
    return rollouts.get("rollout_entropy") or rollouts["entropy"]


def counts_of(values: Values) -> dict[str, dict[str, Any]]:
    """Compute the counts of every benchmark from values by benchmark, metric and problem id."""
    found: dict[str, dict[str, Any]] = {}
    for name, metrics in values.items():
        average, shares = next(iter(metrics.items()))
        samples = int(average.removeprefix("avg@"))
        correct = [round(share * samples) for share in shares.values()]
        found[name] = {"samples": samples, "ids": list(shares), "correct": correct}
        if samples > 1:
            found[name]["distinct"] = [round(value) for value in metrics[f"distinct@{samples}"].values()]
    return found


def values_of(benchmarks: dict[str, dict[str, Any]]) -> Values:
    """Compute values by benchmark, metric and problem id from the counts of every benchmark."""
    found: Values = {}
    for name, counts in benchmarks.items():
        k, ids, correct = counts["samples"], counts["ids"], counts["correct"]
        metrics = values_of_counts(k, correct)
        if k > 1:
            metrics[f"distinct@{k}"] = list(map(float, counts["distinct"]))
        found[name] = {metric: dict(zip(ids, values, strict=True)) for metric, values in metrics.items()}
    return found


def read_counts(path: Path) -> dict[str, dict[str, Any]]:
    """Read the `settings`, `counts` and `run` of each evaluation in a published file, by the name of its sampling.

    `run` has the seeds of the start model and of the training run. It is `None` if the file has no seeds.
    """
    try:
        record = run_files.loads(path.read_bytes()) or {}
        run = (record["start"], record["seed"]) if "start" in record else None
        if not all(seed is None or isinstance(seed, int) for seed in run or ()):
            raise InvalidValueError(f"it must have whole numbers as start and seed, got {run}")
        found = {
            name: {
                "settings": dict(one["settings"]),
                "counts": {of: unpacked(f"{name} {of}", counts) for of, counts in one["benchmarks"].items()},
                "run": run,
            }
            for name, one in record[EVALUATIONS].items()
        }
        if not (found and all(one["counts"] for one in found.values())):
            raise InvalidValueError("it must have a benchmark in each of its evaluations")
        return found
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise InvalidValueError(
            f"{str(path)!r} must be a published file with its counts, and cannot be read "
            f"as one: {error!r}. Give another one."
        ) from error


def unpacked(name: str, counts: dict[str, Any]) -> dict[str, Any]:
    """Return the counts of a benchmark as lists, and its ids as a list of strings."""
    k, ids, correct = counts["samples"], counts["ids"], _numbers(counts["correct"])
    distinct = _numbers(counts["distinct"]) if k != 1 else correct
    ids = ids_as_texts([f"{ids}{i}" for i in range(len(correct))] if isinstance(ids, str) else ids)
    if not (ids and len(ids) == len(correct) == len(distinct)):
        raise InvalidValueError(f"{name}: it must have a count and an id of its own per problem")
    are_whole = all(isinstance(number, int) for number in (k, *correct, *distinct))
    if not are_whole or not all(0 <= some <= count <= k for some, count in zip(distinct, correct, strict=True)):
        raise InvalidValueError(f"{name}: it must have whole numbers, 0 <= distinct <= correct <= samples")
    return {"samples": k, "ids": ids, "correct": correct, "distinct": distinct}


def _numbers(column: str | list[int]) -> list[int]:
    return [int(digit, len(DIGITS)) for digit in column] if isinstance(column, str) else column
