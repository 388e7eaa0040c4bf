"""`steer-trl compare`: compares two models on the same problems, with 95 % intervals for the differences.

    steer-trl compare runs/grpo runs/held
    steer-trl compare --a runs/grpo_0 runs/grpo_1 --b runs/held_0 runs/held_1 --json held.json

Each argument is a folder written by steer-trl eval, or the folder of a run that was evaluated. Side B is compared
with side A.
"""

import json
import os
from argparse import RawDescriptionHelpFormatter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pandas import DataFrame

from steer_trl.cli.errors import OneLineParser, say
from steer_trl.cli.frontier import compare_frontiers
from steer_trl.evaluation.comparison import Difference, explain_interval
from steer_trl.evaluation.folders import compare_samplings, find_samplings, read_evaluations
from steer_trl.monitoring import run_files
from steer_trl.report.evaluation_folders import find_saved_evaluations, find_step_evaluations, find_step_folders
from steer_trl.report.read import NoRun, read_run
from steer_trl.support.exceptions import InvalidValueError
from steer_trl.support.system import write_text_whole
from steer_trl.support.validation import refuse

MEASURES = {
    "pass": "pass@k: probability that one of k tries is correct",
    "avg": "avg@k: share of k tries that is correct, the probability of one try",
    "distinct": "distinct@k: different correct completions among k",
    "maj": "maj@k: probability that the most frequent answer of k is correct",
    "cover": "cover@t: share of problems that at least the share t of their tries solves",
    "unanswered": "unanswered: share of tries without an answer, better lower",
    "truncated": "truncated: share of tries cut off at the limit, better lower",
    "timed_out": "timed_out: share of tries whose judgement ran out of time, better lower",
    "num_tokens": "num_tokens: tokens of a try, neither is better",
}
"""Maps the name of each metric, without its k, to an explanation. The table lists the metrics in this order."""


def main(arguments: list[str]) -> None:
    """Read the evaluations of both sides and print their differences.

    With `--json`, the differences are also written to a file.
    """
    description = (__doc__ or "").replace("`", "")
    parser = OneLineParser(
        "steer-trl compare",
        allow_abbrev=False,
        description=description,
        formatter_class=RawDescriptionHelpFormatter,
    )
    parser.add_argument("folders", nargs="*", metavar="FOLDER", help="two folders, A and B")
    parser.add_argument("--a", nargs="+", default=[], metavar="FOLDER", help="side A, a folder for each seed")
    parser.add_argument("--b", nargs="+", default=[], metavar="FOLDER", help="side B, a folder for each seed")
    parser.add_argument("--paired", action="store_true", help="the n-th of A and the n-th of B belong together")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all differences to this file")
    about = "compare sweeps (steer-trl eval --temperatures): pass@k at the best temperature"
    parser.add_argument("--frontier", action="store_true", help=about)
    parser.add_argument("--validation", metavar="BENCHMARK", help="its problems choose the temperatures")
    options = parser.parse_args(arguments)
    if options.validation is not None and not options.frontier:
        parser.error("validation needs --frontier.")
    sides = split_sides(options.folders, options.a, options.b)
    a, b = ([find_evaluation(folder) for folder in side] for side in sides)
    if options.json is not None:
        refuse(find_file_complaints(options.json, [*a, *b]), "steer-trl compare")
    if options.frontier:
        entries = compare_frontiers(a, b, options.paired, options.validation)
    else:
        evaluations_a, evaluations_b = ([read_evaluations(folder) for folder in side] for side in (a, b))
        results = compare_samplings(evaluations_a, evaluations_b, options.paired)
        for name, differences in results.items():
            print(to_text(name, differences, options.paired))  # noqa: T201
        entries = to_entries(results)
    if options.json is not None:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        write_text_whole(options.json, json.dumps({"a": a, "b": b, "comparisons": entries}, indent=1) + "\n")
        print(f"Wrote {options.json}")  # noqa: T201


def split_sides(folders: list[str], a: list[str], b: list[str]) -> tuple[list[str], list[str]]:
    """Return the folders of side A and of side B. The user gives either two folders, or `--a` and `--b`."""
    if len(folders) == 2 and not a and not b:
        return folders[:1], folders[1:]
    if not folders and a and b:
        return a, b
    raise InvalidValueError(
        "two sides are needed: steer-trl compare A B, or --a A0 A1 ... --b B0 B1 ... with several seeds."
    )


def find_file_complaints(path: Path, compared: Sequence[str]) -> list[str]:
    """Return a complaint if writing the comparison to `path` would lose a file or change an evaluation.

    Only an earlier comparison is overwritten. `compared` holds the folders of the evaluations.
    """
    if path.is_dir():
        return [f"json={str(path)!r} is a folder. Give a file."]
    places = [path.resolve(), *path.resolve().parents]
    around = [folder for folder in compared if Path(folder).resolve() in places]
    if around:
        return [f"json={str(path)!r} must not be in {around[0]!r}, which is compared. Give another file."]
    if os.path.lexists(path) and not _is_comparison(path):
        return [f"json={str(path)!r} exists and is not a comparison, so it would be lost. Give another file."]
    return []


def _is_comparison(path: Path) -> bool:
    content = run_files.loads(path.read_bytes()) if path.is_file() else None
    return content is not None and {"a", "b", "comparisons"} <= content.keys()


def find_evaluation(folder: str) -> str:
    """Return `folder` if it is an evaluation; if it is a run, return the evaluation inside it.

    If the run was never evaluated with `steer-trl eval`, this is the last evaluation during training that the run's
    log has, as on the report page. Raises `ValueError` if the run holds several evaluations made with `steer-trl
    eval`, or only evaluations during training that its log does not have.
    """
    place = Path(folder)
    if not place.is_dir() or find_samplings(place):
        return folder
    inside = find_saved_evaluations(place) or _find_last_step(place)
    if len(inside) > 1:
        names = ", ".join(repr(str(path)) for path in inside)
        raise InvalidValueError(f"{folder!r} holds several evaluations: {names}. Give one of them.")
    if not inside:
        return folder
    say(f"steer-trl compare: note: {folder} stands for {inside[0]}")
    return str(inside[0])


def _find_last_step(run: Path) -> list[Path]:
    """Return the folder of the last evaluation during training, or an empty list if the run was never evaluated."""
    folders = [path for _, path in sorted(find_step_folders(run))]
    if not folders:
        return []
    try:
        found = find_step_evaluations(read_run(run, run.name))
    except NoRun:
        # Without a log, nothing tells which of the evaluations are of this run.
        found = []
    if not found:
        names = ", ".join(repr(str(path)) for path in folders)
        raise InvalidValueError(
            f"{str(run)!r} holds evaluations during training, {names}, but its log has none of them: they are of an "
            "earlier run, or unfinished. Give the folder of one of them, or evaluate the model with steer-trl eval."
        )
    return [found[-1].folder]


def to_text(name: str, results: dict[str, dict[str, Difference]], paired: bool) -> str:
    """Return a plain-text table for one sampling, with a row for each benchmark and metric.

    The lines below the table explain the interval and the metrics. `name` is the name of the sampling.
    """
    rows: dict[tuple[str, str], dict[str, str]] = {}
    several = any(difference.seeds != (1, 1) for metrics in results.values() for difference in metrics.values())
    kinds = set()
    for benchmark, metrics in results.items():
        for metric in sorted(metrics, key=_place_in_table):
            difference = metrics[metric]
            kinds.add(metric.partition("@")[0])
            rows[benchmark, metric] = {
                "A": f"{difference.a:.3f}",
                "B": f"{difference.b:.3f}",
                "difference": f"{difference.difference:+.3f}",
                "95 % interval": f"{difference.low:+.3f} to {difference.high:+.3f}",
                "B is": difference.verdict,
            }
    heading = f"{name}\n" if name else ""
    meanings = "\n".join(f"  {meaning}" for kind, meaning in MEASURES.items() if kind in kinds)
    return f"{heading}{DataFrame(rows).T.to_string()}\n\n{explain_interval(several, paired)}\n{meanings}\n"


def _place_in_table(metric: str) -> tuple[int, float]:
    """Return a key that sorts metrics in the order of `MEASURES`, and then from large to small k."""
    kind, _, tries = metric.partition("@")
    kinds = [*MEASURES]
    return kinds.index(kind) if kind in kinds else len(kinds), -float(tries or 0)


def to_entries(results: dict[str, dict[str, dict[str, Difference]]]) -> list[dict[str, Any]]:
    """Return the differences as a list for JSON, with an entry for each sampling, benchmark and metric."""
    entries = []
    for name, benchmarks in results.items():
        for benchmark, metrics in benchmarks.items():
            for metric, difference in metrics.items():
                about = {"sampling": name, "benchmark": benchmark, "metric": metric}
                entries.append(about | difference.to_entry())
    return entries
