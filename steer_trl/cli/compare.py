"""`steer-trl compare`: do two models differ on the same problems, and by how much?

    steer-trl compare runs/eval_grpo runs/eval_held
    steer-trl compare --a runs/grpo_0 runs/grpo_1 --b runs/held_0 runs/held_1 --json held.json

Each is a folder that steer-trl eval has written. Side B is compared with side A.
"""

from dataclasses import asdict
from pathlib import Path
from typing import Any

from pandas import DataFrame

from steer_trl.cli import frontier
from steer_trl.cli.comparison_file import output_complaints, write_comparisons
from steer_trl.cli.errors import OneLineParser
from steer_trl.evaluation.comparison import Difference, explain_interval
from steer_trl.evaluation.folders import compare_samplings, read_evaluations
from steer_trl.exceptions import InvalidValueError
from steer_trl.validation import refuse


def main(arguments: list[str]) -> None:
    """Read both sides, print a table for each sampling, and write what it holds to a file if asked to."""
    parser = OneLineParser(
        "steer-trl compare", allow_abbrev=False, description=__doc__.split("\n", 1)[0].replace("`", "")
    )
    parser.add_argument("folders", nargs="*", metavar="FOLDER", help="two folders, A and B")
    parser.add_argument("--a", nargs="+", default=[], metavar="FOLDER", help="side A, a folder for each seed")
    parser.add_argument("--b", nargs="+", default=[], metavar="FOLDER", help="side B, a folder for each seed")
    parser.add_argument("--paired", action="store_true", help="the n-th of A and the n-th of B belong together")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all differences to this file")
    frontier.add_arguments(parser)
    given = parser.parse_args(arguments)
    sides = _sides(given.folders, given.a, given.b)
    outputs = {"json": given.json, "picture": given.picture}
    refuse(output_complaints(outputs, [*sides[0], *sides[1]]), "steer-trl compare")
    refuse(frontier.complaints(given), "steer-trl compare")
    if given.frontier:
        frontier.compare(given, sides)
        return
    a, b = ([read_evaluations(folder) for folder in side] for side in sides)
    results = compare_samplings(a, b, given.paired)
    for name, differences in results.items():
        print(_text(name, differences, given.paired))  # noqa: T201
    if given.json is not None:
        write_comparisons(given.json, sides, _entries(results))


def _sides(folders: list[str], a: list[str], b: list[str]) -> tuple[list[str], list[str]]:
    if len(folders) == 2 and not a and not b:
        return folders[:1], folders[1:]
    if not folders and a and b:
        return a, b
    raise InvalidValueError(
        "two sides are needed: steer-trl compare A B, or --a A0 A1 ... --b B0 B1 ... with several seeds."
    )


def _text(name: str, results: dict[str, dict[str, Difference]], paired: bool) -> str:
    rows: dict[tuple[str, str], dict[str, str]] = {}
    several = False
    for benchmark, metrics in results.items():
        for metric, found in metrics.items():
            several = found.seeds != (1, 1)
            row = {"A": f"{found.a:.3f}", "B": f"{found.b:.3f}", "difference": f"{found.difference:+.3f}"}
            row |= {"95 % interval": f"{found.low:+.3f} to {found.high:+.3f}", "B is": found.verdict}
            rows[benchmark, metric] = row
    heading = f"{name}\n" if name else ""
    return f"{heading}{DataFrame(rows).T.to_string()}\n\n{explain_interval(several, paired)}\n"


def _entries(results: dict[str, dict[str, dict[str, Difference]]]) -> list[dict[str, Any]]:
    """One entry for each sampling, benchmark and metric."""
    return [
        {"sampling": name, "benchmark": benchmark, "metric": metric} | asdict(found) | {"verdict": found.verdict}
        for name, benchmarks in results.items()
        for benchmark, metrics in benchmarks.items()
        for metric, found in metrics.items()
    ]
