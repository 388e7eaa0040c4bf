"""`steer-trl compare --frontier`: compares the pass@k of two models, each at its best temperature."""

from collections.abc import Sequence
from typing import Any

from pandas import DataFrame

from steer_trl.evaluation.comparison import explain_interval
from steer_trl.evaluation.frontier import FrontierRow, compare_best
from steer_trl.evaluation.sweeps import read_sides
from steer_trl.support.exceptions import InvalidValueError
from steer_trl.support.validation import did_you_mean

BEST = "best temperature"
HEAD = "pass@k, each k at its best temperature, chosen on {chosen}; the mean over k is F"


def compare_frontiers(
    a: Sequence[str], b: Sequence[str], is_paired: bool, validation: str | None
) -> list[dict[str, Any]]:
    """Read the evaluations of both sides, print a table for each benchmark, and return the rows of all tables.

    `a` and `b` hold the folders of the two sides. If `validation` names a benchmark, the temperatures for all other
    benchmarks are chosen on its problems.
    """
    benchmarks = read_sides(a, b, is_paired)
    if validation is not None and (validation not in benchmarks or len(benchmarks) < 2):
        raise InvalidValueError(
            f"validation must be one of several benchmarks, got {validation!r}."
            f"{did_you_mean(validation, benchmarks)} There are {', '.join(map(repr, benchmarks))}."
        )
    choosing = None if validation is None else benchmarks.pop(validation)
    head = HEAD.format(chosen=validation or "the other half of the problems")
    entries: list[dict[str, Any]] = []
    for name, sides in benchmarks.items():
        rows = compare_best(sides, choosing)
        table = DataFrame([_format_row(row) for row in rows]).fillna("").to_string(index=False)
        explanation = explain_interval(rows[0].difference.seeds != (1, 1), is_paired)
        print(f"{name}: {head}\n{table}\n\nPer cent. {explanation}\n")  # noqa: T201
        for row in rows:
            entries.append({"benchmark": name, "table": BEST} | row.about | row.difference.to_entry())
    return entries


def _format_row(row: FrontierRow) -> dict[str, str]:
    difference = row.difference
    cells = {name.replace("_", " "): str(value) for name, value in row.about.items()}
    cells |= {"A": f"{100 * difference.a:.1f}", "B": f"{100 * difference.b:.1f}"}
    return cells | {
        "B - A": f"{100 * difference.difference:+.1f} ±{50 * (difference.high - difference.low):.1f}",
        "B is": difference.verdict,
    }
