"""An evaluation in a few kilobytes: of every problem, how many samples are correct, and how many of these differ.

That is all that avg@k, pass@j, cover@t and distinct@k depend on, so `steer-trl compare` reads a published file of
counts as it reads a folder of completions:

    {"start": 0, "seed": 0, "evaluations": {"t1": {"settings": {...}, "benchmarks": {
        "test": {"samples": 16, "ids": ["0", ...], "correct": [3, ...], "distinct": [2, ...]}}}}}

A greedy evaluation, of one sample of each problem, has no `distinct`. A large file has the numbers as digits of a
text (`0` to `z` for 0 to 35), and of ids that are counted only what they begin with: `"ids": "test-"`.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from steer_trl import runlog
from steer_trl.evaluation.metrics import values_of_counts
from steer_trl.exceptions import InvalidValueError

EVALUATIONS = "evaluations"
DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
Values = dict[str, dict[str, dict[str, float]]]


def counts_of(values: Values) -> dict[str, dict[str, Any]]:
    """Return the counts of every benchmark, of values by benchmark, metric and id of a problem."""
    found = {}
    for name, metrics in values.items():
        average = next(metric for metric in metrics if metric.startswith("avg@"))
        samples = int(average.removeprefix("avg@"))
        counts: dict[str, Any] = {"samples": samples, "ids": list(metrics[average])}
        counts["correct"] = [round(value * samples) for value in metrics[average].values()]
        if samples > 1:
            counts["distinct"] = [round(value) for value in metrics[f"distinct@{samples}"].values()]
        found[name] = counts
    return found


def values_of(benchmarks: dict[str, dict[str, Any]]) -> Values:
    """Return values by benchmark, metric and id of a problem, of the counts of every benchmark."""
    found: Values = {}
    for name, counts in benchmarks.items():
        k, ids, correct = counts["samples"], counts["ids"], counts["correct"]
        metrics = values_of_counts(k, correct)
        if k > 1:
            metrics[f"distinct@{k}"] = list(map(float, counts["distinct"]))
        found[name] = {metric: dict(zip(ids, values, strict=True)) for metric, values in metrics.items()}
    return found


def packed(benchmarks: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return the counts of every benchmark, each list as a text where it can be one."""
    found = {}
    for name, counts in benchmarks.items():
        prefix = counts["ids"][0].removesuffix("0")
        is_counted = counts["ids"] == [f"{prefix}{i}" for i in range(len(counts["ids"]))]
        few = counts["samples"] < len(DIGITS)
        numbers = {key: counts[key] for key in ("correct", "distinct") if key in counts}
        texts = {key: "".join(DIGITS[one] for one in column) if few else column for key, column in numbers.items()}
        found[name] = counts | {"ids": prefix if is_counted else counts["ids"]} | texts
    return found


def _unpacked(counts: dict[str, Any]) -> dict[str, Any]:
    texts = {key: text for key, text in counts.items() if isinstance(text, str) and key != "ids"}
    found = counts | {key: [int(digit, len(DIGITS)) for digit in text] for key, text in texts.items()}
    if isinstance(counts["ids"], str):
        found["ids"] = [f"{counts['ids']}{i}" for i in range(len(found["correct"]))]
    return found


def read_counts(path: Path) -> dict[str, dict[str, Any]]:
    """Return `settings`, `counts` and `run` of each evaluation in a published file, by the name of its sampling.

    `run` is the seed of the start and that of the training, `None` where the file has none.

    Raises:
        `ValueError`: it cannot be read, holds no evaluation, or counts that cannot be.
    """
    try:
        record = runlog.loads(path.read_bytes()) or {}
        run = (record["start"], record["seed"]) if "start" in record else None
        if not all(seed is None or isinstance(seed, int) for seed in run or ()):
            raise InvalidValueError(f"it must have whole numbers as start and seed, got {run}")
        return {
            name: {"settings": dict(one["settings"]), "counts": _checked(name, one["benchmarks"]), "run": run}
            for name, one in record[EVALUATIONS].items()
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise InvalidValueError(
            f"{str(path)!r} must be a folder that steer-trl eval has written, or a published file with its counts, "
            f"and cannot be read as one: {error!r}. Give another one."
        ) from error


def ids_as_texts(ids: Iterable[Any]) -> list[str]:
    """Return the ids of problems as texts, or nothing where they do not name each problem: a repeated or empty one."""
    found = list(ids)
    texts = list(map(str, found))
    return texts if None not in found and len(set(texts)) == len(texts) else []


def _checked(sampling: str, benchmarks: dict[str, Any]) -> dict[str, Any]:
    """The counts of every benchmark, ids as texts."""
    found = {}
    for name, packed_counts in benchmarks.items():
        counts = _unpacked(packed_counts)
        k, correct, ids = counts["samples"], counts["correct"], ids_as_texts(counts["ids"])
        distinct = counts["distinct"] if k != 1 else correct
        if not (ids and len(ids) == len(correct) == len(distinct)):
            raise InvalidValueError(f"{sampling} {name}: it must have a count and an id of its own per problem")
        if not all(0 <= some <= count <= k for some, count in zip(distinct, correct, strict=True)):
            raise InvalidValueError(f"{sampling} {name}: it must have 0 <= distinct <= correct <= samples")
        found[name] = counts | {"ids": ids}
    return found
