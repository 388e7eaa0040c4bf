"""Makes the tables that compare models at the temperature that is best for k tries."""

from pathlib import Path

from experiments.evidence.pairs import BASELINE, JUDGED, Arms, pairs_of, swept
from experiments.evidence.several import OverStarts, Pairs, compare_at_equal_accuracy, compare_with_fallback
from experiments.lab.picture import draw_picture
from experiments.lab.published import read_published
from experiments.lab.tables import markdown_table
from steer_trl.evaluation.comparison import Difference
from steer_trl.evaluation.frontier import Sweep, compare_best
from steer_trl.evaluation.sweeps import count_sweeps

FOLDER = "temperatures"
CONTROL = "constant level, its mean strength throughout"
TRIES = 16
NAMES = (BASELINE, "entropy held at 0.5", "falling from 0.65 to 0.25")
"""The names of the baseline and the held arms in README."""


def best(arms: Arms, folder: Path) -> str:
    """Return a table of pass@k at its best temperature, for both held arms against the baseline."""
    of_arms = [compare_best(_sides(arms, folder, BASELINE, arm)) for arm in JUDGED]
    rows = []
    for constant, falling in zip(*of_arms, strict=True):
        k, base = constant.about["k"], constant.difference.a
        cells = [f"{base:.3f}{at(constant.about, 'a')}"]
        for row in (constant, falling):
            cells += [
                f"{row.difference.b:.3f}{at(row.about, 'b')}",
                points(row.difference),
                starts_alone(row.difference),
            ]
        rows.append(["F, their mean" if k == "mean" else str(k), *cells])
    head = [cell for arm in JUDGED for cell in (arm, "points more", "starts alone")]
    return markdown_table(["k", BASELINE, *head], rows)


def with_start(arms: Arms, folder: Path) -> str:
    """Return a table of the held arms against the baseline, with m of 16 tries given to their start model."""
    of_arms = [compare_with_fallback(_sides(arms, folder, BASELINE, arm, with_start=True), TRIES) for arm in JUDGED]
    rows = [
        [str(one.about["fallback_a"]), str(one.about["fallback_b"]), f"{one.difference.a:.3f}"]
        + [points(row.difference) for row in (one, other)]
        for one, other in zip(*of_arms, strict=True)
    ]
    return markdown_table(["tries of the start: baseline", "held arm", f"{BASELINE}, with them", *JUDGED], rows)


def above_the_level(arms: Arms, folder: Path) -> str:
    """Return by how many points of pass@16 the constant strength exceeds the level's curve at the same accuracy."""
    pairs = pairs_of(arms, CONTROL, JUDGED[0])
    control = count_sweeps([{1.0: arms[CONTROL][pair].evaluations["t1"]} for pair in pairs])["test"]
    starts = tuple(start for start, _ in pairs)
    (row,) = compare_at_equal_accuracy(Pairs(control, _swept(arms, folder, JUDGED[0], pairs), True, starts), TRIES)
    low, high = getattr(row.difference, "paired_by_seed", None) or (0.0, 0.0)
    return f"{-100 * row.difference.difference:+.1f} ±{50 * (high - low):.1f}"


def draw(arms: Arms, folder: Path, path: Path) -> None:
    """Draw accuracy against pass@16, for both held arms, the baseline and the start models."""
    pairs = pairs_of(arms, BASELINE, JUDGED[0])
    curves = {name: _swept(arms, folder, arm, pairs) for arm, name in zip((BASELINE, *JUDGED), NAMES, strict=True)}
    starts = [{1.0: run.evaluations["t1"]} for run in arms["start"].values()]
    draw_picture({"": {**curves, "the models they began with": count_sweeps(starts)["test"]}}).savefig(path, dpi=100)


def _sides(arms: Arms, folder: Path, a: str, b: str, with_start: bool = False) -> Pairs:
    """Return two arms, over the pairs of start and seed that both have."""
    pairs = pairs_of(arms, a, b)
    both = [_swept(arms, folder, arm, pairs) for arm in (a, b)]
    starts = [next(iter(run for (start, _), run in arms["start"].items() if start == pair[0])) for pair in pairs]
    other = count_sweeps([{1.0: run.evaluations["t1"]} for run in starts])["test"] if with_start else None
    return Pairs(*both, True, tuple(start for start, _ in pairs), other)


def _swept(arms: Arms, folder: Path, arm: str, pairs: list[tuple[int, int]]) -> Sweep:
    """Count the samples of an arm at all temperatures.

    Temperature 1 is in the files of the runs, and the other temperatures are in a folder beside them.
    """
    runs = []
    for pair in pairs:
        own = arms[arm][pair].evaluations["t1"]
        runs.append(swept(read_published(folder / FOLDER / own.folder.name) | {"t1": own}))
    return count_sweeps(runs)["test"]


def at(about: dict[str, float], side: str) -> str:
    """Return the temperature of a side as text for a table cell."""
    return f" at {about[f'temperature_{side}']:g}" if f"temperature_{side}" in about else ""


def points(one: Difference) -> str:
    """Return a difference and half the width of its interval, in points."""
    return f"{100 * one.difference:+.1f} ±{50 * (one.high - one.low):.1f}"


def starts_alone(one: OverStarts) -> str:
    """Return the interval over the starts alone, in points."""
    return " to ".join(f"{100 * bound:+.1f}" for bound in one.over_starts or ())
