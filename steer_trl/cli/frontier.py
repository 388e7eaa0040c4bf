"""`steer-trl compare --frontier`: compares two models at their best temperatures, as tables, JSON and a picture."""

from argparse import ArgumentParser, Namespace
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pandas import DataFrame

from steer_trl.cli.comparison_file import write_comparisons
from steer_trl.evaluation.comparison import explain_interval
from steer_trl.evaluation.frontier import Row, Sweep, compare_best
from steer_trl.evaluation.sweeps import read_sides
from steer_trl.exceptions import InvalidValueError
from steer_trl.validation import did_you_mean

if TYPE_CHECKING:
    from matplotlib.figure import Figure

OWN = ("validation", "picture")
BEST = "best temperature"
HEAD = "pass@k, each k at its best temperature, chosen on {chosen}; the mean over k is F"


def add_arguments(parser: ArgumentParser) -> None:
    """Add `--frontier` and the flags that need it to the parser."""
    about = "compare sweeps (steer-trl eval --temperatures): pass@k at the best temperature"
    parser.add_argument("--frontier", action="store_true", help=about)
    parser.add_argument("--validation", metavar="BENCHMARK", help="its problems choose the temperatures")
    about = "draw accuracy against pass@k into this .png, .svg or .pdf"
    parser.add_argument("--picture", type=Path, metavar="FILE", help=about)


def complaints(given: Namespace) -> list[str]:
    """Return complaints about flags that need `--frontier`, before any file is read."""
    return [f"{name} needs --frontier." for name in OWN if getattr(given, name) is not None and not given.frontier]


def compare(given: Namespace, paths: tuple[list[str], list[str]]) -> None:
    """Read both sides, print a table for each benchmark, and write the files that were asked for."""
    benchmarks = read_sides(*paths, given.paired)
    chosen = given.validation
    if chosen is not None and (chosen not in benchmarks or len(benchmarks) < 2):
        raise InvalidValueError(
            f"validation must be one of several benchmarks, got {chosen!r}.{did_you_mean(chosen, benchmarks)} "
            f"There are {', '.join(map(repr, benchmarks))}."
        )
    validation = benchmarks.pop(chosen) if chosen is not None else None
    entries: list[dict[str, Any]] = []
    for name, sides in benchmarks.items():
        rows = compare_best(sides, validation)
        head = HEAD.format(chosen=chosen or "the other half of the problems")
        print(f"{name}: {head}\n{_format_rows(rows)}\n")  # noqa: T201
        entries += [{"benchmark": name, "table": BEST} | _make_entry(row) for row in rows]
        several = rows[0].difference.seeds != (1, 1)
        print(f"Per cent. {explain_interval(several, sides.paired)}\n")  # noqa: T201
    if given.json is not None:
        write_comparisons(given.json, paths, entries)
    if given.picture is not None:
        names = [f"{letter}: {_shorten_name(side)}" for letter, side in zip("AB", paths, strict=True)]
        curves = {name: dict(zip(names, (sides.a, sides.b), strict=True)) for name, sides in benchmarks.items()}
        draw_picture(curves).savefig(given.picture, dpi=150)
        print(f"Wrote {given.picture}")  # noqa: T201


def draw_picture(panels: Mapping[str, Mapping[str, Sweep]]) -> "Figure":
    """Draw accuracy against pass@k for the largest k, with one point for each temperature.

    Both are means over problems and runs.
    """
    # pyplot would choose a back end for the user.
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8 * len(panels), 5.2), layout="constrained")
    axes = figure.subplots(1, len(panels), squeeze=False)[0]
    for axis, (title, curves) in zip(axes, panels.items(), strict=True):
        for label, sweep in curves.items():
            k = sweep.tries[-1]
            accuracy, solved = (100 * sweep.pass_at(tries).mean((1, 2)) for tries in (1, k))
            (line,) = axis.plot(accuracy, solved, marker="o", markersize=5, label=label)
            # Labels of neighbouring curves stand on different sides.
            side = (-1) ** len(axis.lines)
            text = {"color": line.get_color(), "fontsize": "x-small", "ha": "center", "va": "center"}
            for temperature, *point in zip(sweep.temperatures, accuracy, solved, strict=True):
                axis.annotate(f"{temperature:g}", point, (10 * side, 6 * side), textcoords="offset points", **text)
        axis.set(title=title, xlabel="accuracy of one try, %", ylabel=f"pass@{k}, %")
        axis.grid(alpha=0.3)
        axis.legend(fontsize="small", title="each point is a temperature", title_fontsize="small")
    return figure


def _shorten_name(paths: Sequence[str]) -> str:
    """Return a side's name for the legend: the last part of its first path that has no leading underscore."""
    name = next(name for name in reversed(Path(paths[0]).resolve().with_suffix("").parts) if name[0] != "_")
    return name[:40] + ", ..." * (len(paths) > 1)


def _format_rows(rows: Sequence[Row]) -> str:
    return DataFrame([_format_row(row) for row in rows]).fillna("").to_string(index=False)


def _format_row(row: Row) -> dict[str, str]:
    one = row.difference
    cells = {name.replace("_", " "): str(value) for name, value in row.about.items()}
    cells |= {"A": f"{100 * one.a:.1f}", "B": f"{100 * one.b:.1f}"}
    return cells | {"B - A": f"{100 * one.difference:+.1f} ±{50 * (one.high - one.low):.1f}", "B is": one.verdict}


def _make_entry(row: Row) -> dict[str, Any]:
    return row.about | asdict(row.difference) | {"verdict": row.difference.verdict}
