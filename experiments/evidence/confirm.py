"""The second protocol's tables: does an arm cost nothing at one try, gain over several, and does one beat the other?

    python experiments/evidence/confirm.py

Of the runs in docs/evidence/countdown20/confirm, each arm over the pairs of start and seed that it shares with the
baseline. Every temperature is chosen on the validation problems and judged on the test problems.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import mean

sys.path.insert(0, str(Path(__file__).parents[1]))
from frontier import at, points, starts_alone
from page import holm
from pairs import BASELINE, Arms, entropy_at_end, load, pairs_of, swept

from steer_trl.evaluation.comparison import Difference
from steer_trl.evaluation.frontier import (
    Row,
    Sides,
    at_best_temperature,
    compare_at_equal_accuracy,
    compare_best,
    compare_with_fallback,
)
from steer_trl.evaluation.summary import markdown_table
from steer_trl.evaluation.sweeps import sweeps

FOLDER = Path(__file__).parents[2] / "docs/evidence/countdown20/confirm"
LEVEL, WEIGHT, DIFFICULTY = ARMS = ("level", "constant weight", "difficulty")
MARGIN = 0.01
"""What an arm may lose at one try and still count as free."""
Both = tuple[Sides, Sides]
"""Two arms on the test problems, and on those that choose."""


def main() -> None:
    """Print every table."""
    arms = load(FOLDER)
    for title, table in tables(arms):
        sys.stdout.write(f"{title}\n\n{table}\n\n")


def tables(arms: Arms) -> Iterator[tuple[str, str]]:
    """Each table with its title."""
    compared = {arm: _both(arms, BASELINE, arm) for arm in ARMS if len(pairs_of(arms, arm)) > 1}
    best_of = {arm: compare_best(*both) for arm, both in compared.items()}
    yield "Primary", primary(arms, compared, best_of)
    yield "pass@k, each k at its best temperature", best(best_of)
    yield "Ends", ends(arms)
    for arm, both in compared.items():
        yield f"pass@16 at the baseline's accuracy: {arm}", equal_accuracy(both[0])
        yield f"With tries of the start: {arm}", with_start(arms, arm, both)


def primary(arms: Arms, compared: dict[str, Both], best_of: dict[str, list[Row]]) -> str:
    """H1 and H2 of each arm, and H3, with Holm's correction over the successes and H3.

    An arm succeeds if both of its hypotheses hold, so its p is the larger of the two; that of H1 is against -1 point.
    """
    rows, values = {}, {}
    for arm, lines in best_of.items():
        one_try, gain = lines[0].difference, lines[-1].difference
        rows[arm] = [_cells(one_try), _cells(gain)]
        free = _free(*compared[arm])
        values[arm] = max(free.p, gain.p) if free.difference > 0 and gain.difference > 0 else 1.0
    if LEVEL in compared and WEIGHT in compared:
        against = compare_best(*_both(arms, WEIGHT, LEVEL))[-1].difference
        rows["level, constant weight"] = [["", ""], _cells(against)]
        values["level, constant weight"] = against.p
    corrected = holm(values)
    cells = [
        [key, *one, *several, f"{corrected[key]:.4f}", "yes" if corrected[key] < 0.05 else "no"]
        for key, (one, several) in rows.items()
    ]
    head = ["", "pass@1, points", "starts alone", "F, points", "starts alone", "p, Holm", "holds"]
    return markdown_table(head, cells)


def best(best_of: dict[str, list[Row]]) -> str:
    """Pass@k of the baseline and of each arm, with the temperature that the validation problems choose."""
    rows = []
    for row in zip(*best_of.values(), strict=True):
        first, k = row[0], row[0].about["k"]
        cells = [f"{100 * first.difference.a:.1f}{at(first.about, 'a')}"]
        for one in row:
            cells += [f"{100 * one.difference.b:.1f}{at(one.about, 'b')}", points(one.difference)]
        rows.append(["F" if k == "mean" else str(k), *cells])
    return markdown_table(["k", BASELINE, *(cell for arm in best_of for cell in (arm, "points more"))], rows)


def ends(arms: Arms) -> str:
    """What the runs of each arm ended with; at temperature 1 on the test problems."""
    rows = []
    for arm, runs in arms.items():
        if arm != "start":
            records = [run.record for run in runs.values()]
            curves = sweeps([swept(arms[arm][pair].evaluations) for pair in sorted(runs)])["test"]
            hot = curves.temperatures.index(1.0)
            steps, seconds = (mean(record[name] for record in records) for name in ("steps", "seconds"))
            row = [arm, str(len(runs)), f"{steps:.0f}", f"{seconds / 60:.0f}"]
            row.append(f"{mean(map(entropy_at_end, runs.values())):.3f}")
            rows.append([*row, *(f"{100 * curves.solved(k)[hot].mean():.1f}" for k in (1, 16))])
    return markdown_table(["", "runs", "steps", "minutes", "entropy", "pass@1, T = 1", "pass@16, T = 1"], rows)


def equal_accuracy(test: Sides) -> str:
    """pass@16 where the arm is as accurate as the baseline at each of its temperatures."""
    rows = []
    for row in compare_at_equal_accuracy(test, 16):
        about = row.about
        cells = [f"{about['temperature_a']:g}", f"{100 * about['accuracy_a']:.1f}", str(about["reached"])]
        rows.append([*cells, points(row.difference)])
    return markdown_table(["baseline's temperature", "its accuracy", "runs that reach it", "points more"], rows)


def with_start(arms: Arms, arm: str, both: Both) -> str:
    """pass@16 where 2, 4 or 8 of the tries are those of the model that both began with."""
    test, validation = _fallbacks(arms, arm, both)
    rows = [
        [str(row.about["fallback_a"]), str(row.about["fallback_b"]), points(row.difference)]
        for row in compare_with_fallback(test, 16, validation)
    ]
    return markdown_table(["tries of the start: baseline", "arm", "points more"], rows)


def _free(test: Sides, validation: Sides) -> Difference:
    """pass@1 at its best temperature, with the margin added to the arm's."""
    a, b = (
        at_best_temperature(judged.solved(1), choosing.solved(1))
        for judged, choosing in ((test.a, validation.a), (test.b, validation.b))
    )
    return test.difference(a, b + MARGIN)


def _both(arms: Arms, a: str, b: str) -> Both:
    """Two arms over the pairs that both have."""
    pairs = pairs_of(arms, a, b)
    both = [sweeps([swept(arms[arm][pair].evaluations) for pair in pairs]) for arm in (a, b)]
    starts = [start for start, _ in pairs]
    test, validation = (Sides(*(one[split] for one in both), True, starts) for split in ("test", "validation"))
    return test, validation


def _fallbacks(arms: Arms, arm: str, both: Both) -> Both:
    pairs = pairs_of(arms, arm)
    (of_start,) = {seed for _, seed in arms["start"]}
    others = sweeps([swept(arms["start"][start, of_start].evaluations) for start, _ in pairs])
    test, validation = (
        Sides(one.a, one.b, True, one.starts, others[split], others[split])
        for one, split in zip(both, ("test", "validation"), strict=True)
    )
    return test, validation


def _cells(one: Difference) -> list[str]:
    return [points(one), starts_alone(one)]


if __name__ == "__main__":
    main()
