"""Writes experiments/results/results2.md and its picture, with the tables of the second protocol's final runs.

    python -m experiments.evidence.confirm

The questions are whether an arm loses nothing with one try, whether it gains with several tries, and whether one arm
is better than another. Each arm is compared over the pairs of start and seed that it shares with the baseline. Every
temperature is chosen on the validation problems, and results are those on the test problems.
"""

import sys
from pathlib import Path
from statistics import mean

from experiments.evidence.frontier import at, points, starts_alone
from experiments.evidence.page import fill, holm
from experiments.evidence.pairs import BASELINE, Arms, entropy_at_end, load, pairs_of, swept
from experiments.evidence.several import Pairs, compare_at_equal_accuracy, compare_with_fallback
from experiments.lab.picture import draw_picture
from experiments.lab.tables import markdown_table
from steer_trl.evaluation.comparison import Difference
from steer_trl.evaluation.frontier import Row, compare_best, pick_best_temperature
from steer_trl.evaluation.sweeps import count_sweeps

ROOT = Path(__file__).parents[2]
EVIDENCE = ROOT / "experiments/results"
FOLDER = EVIDENCE / "countdown20/confirm"
PAGE, PICTURE = EVIDENCE / "results2.md", ROOT / "docs/frontier2.png"
TEXT = Path(__file__).with_name("results2.md.in")
LEVEL, WEIGHT, DIFFICULTY = ARMS = ("level", "constant weight", "difficulty")
SHUFFLED = "level, shuffled weights"
NAMES = ("entropy held at 0.5", "constant weight, W = 1.25", "F-GRPO and that weight")
"""The names of the arms on pages."""
MARGIN = 0.01
"""How much of pass@1 an arm may lose and still count as free."""
Both = tuple[Pairs, Pairs]
"""Two arms on the test problems, and on the validation problems."""


def main() -> None:
    """Write the page and draw the picture."""
    arms = load(FOLDER) | {SHUFFLED: load(FOLDER.with_name("shuffled"))[SHUFFLED]}
    PAGE.write_text(fill(TEXT, tables(arms)))
    draw(arms, PICTURE)
    sys.stdout.write(f"Wrote {PAGE} and {PICTURE}\n")


def tables(arms: Arms) -> dict[str, str]:
    """Return the tables by their names in the page's text."""
    compared = {arm: _both(arms, BASELINE, arm) for arm in ARMS}
    best_of = {arm: compare_best(*both) for arm, both in compared.items()}
    return {
        "primary": primary(arms, compared, best_of),
        "best": best(best_of),
        "shuffled": shuffled(arms),
        "ends": ends(arms),
        "equal accuracy": equal_accuracy({arm: test for arm, (test, _) in compared.items()}),
        "with start": with_start({arm: _fallbacks(arms, arm, both) for arm, both in compared.items()}),
    }


def draw(arms: Arms, path: Path) -> None:
    """Draw accuracy against pass@16, with a curve for all runs of each arm."""
    names = dict(zip((BASELINE, *ARMS, "start"), (BASELINE, *NAMES, "the models they began with"), strict=True))
    curves = {
        name: count_sweeps([swept(run.evaluations) for run in arms[arm].values()])["test"]
        for arm, name in names.items()
    }
    draw_picture({"": curves}).savefig(path, dpi=100)


def primary(arms: Arms, compared: dict[str, Both], best_of: dict[str, list[Row]]) -> str:
    """Return the table of hypotheses H1 and H2 for each arm, and of H3, with Holm's correction.

    An arm succeeds if both H1 and H2 hold, so its p-value is the larger of the two. The p-value of H1 is that against
    a loss of 1 point. Holm's correction is over the arms' p-values and that of H3.
    """
    rows, values = {}, {}
    for arm, lines in best_of.items():
        one_try, gain = lines[0].difference, lines[-1].difference
        rows[arm] = [_cells(one_try), _cells(gain)]
        free = _free(*compared[arm])
        values[arm] = max(free.p, gain.p) if free.difference > 0 and gain.difference > 0 else 1.0
    against = compare_best(*_both(arms, WEIGHT, LEVEL))[-1].difference
    rows["level less constant weight"], values["level less constant weight"] = [["", ""], _cells(against)], against.p
    corrected = holm(values)
    cells = [
        [key, *one, *several, f"{corrected[key]:.4f}", "yes" if corrected[key] < 0.05 else "no"]
        for key, (one, several) in rows.items()
    ]
    head = ["", "pass@1, points", "starts alone", "F, points", "starts alone", "p, Holm", "holds"]
    return markdown_table(head, cells)


def best(best_of: dict[str, list[Row]]) -> str:
    """Return a table of pass@k for the baseline and each arm, at temperatures chosen on the validation problems."""
    rows = []
    for row in zip(*best_of.values(), strict=True):
        first = row[0]
        cells = [f"{100 * first.difference.a:.1f}{at(first.about, 'a')}"]
        for one in row:
            cells += [f"{100 * one.difference.b:.1f}{at(one.about, 'b')}", points(one.difference)]
        rows.append([_tries(first), *cells])
    return markdown_table(["k", BASELINE, *(cell for arm in best_of for cell in (arm, "points more"))], rows)


def shuffled(arms: Arms) -> str:
    """Return a table of the arm with weights on random tokens against the baseline, and of the level against it."""
    first, second = (compare_best(*_both(arms, *pair)) for pair in ((BASELINE, SHUFFLED), (SHUFFLED, LEVEL)))
    rows = [
        [_tries(one), *_cells(one.difference), *_cells(other.difference)]
        for one, other in zip(first, second, strict=True)
        if one.about["k"] in (1, 16, "mean")
    ]
    return markdown_table(["k", "shuffled less baseline", "starts alone", "level less shuffled", "starts alone"], rows)


def ends(arms: Arms) -> str:
    """Return a table of steps, final entropy and results with 16 samples at temperature 1, for each arm."""
    rows = []
    for arm in ("start", BASELINE, *ARMS):
        runs, course = arms[arm], ["", ""]
        if arm != "start":
            steps = mean(run.record["steps"] for run in runs.values())
            course = [f"{steps:.0f}", f"{mean(map(entropy_at_end, runs.values())):.3f}"]
        counted = [run.evaluations["t1"].values["test"] for run in runs.values()]
        solved = (mean(mean(one[metric].values()) for one in counted) for metric in ("avg@16", "pass@16"))
        most = mean(run.record["evaluations"]["t1"]["majority"]["test"]["maj@16"] for run in runs.values())
        distinct = mean(mean(one["distinct@16"].values()) for one in counted)
        rows.append([arm, str(len(runs)), *course, *(f"{100 * x:.1f}" for x in (*solved, most)), f"{distinct:.2f}"])
    head = ["", "runs", "steps", "entropy", "pass@1", "pass@16", "maj@16", "distinct correct"]
    return markdown_table(head, rows)


def equal_accuracy(tests: dict[str, Pairs]) -> str:
    """Return a table of differences in pass@16 where each arm is as accurate as the baseline at its temperatures."""
    rows = []
    for row, *others in zip(*(compare_at_equal_accuracy(test, 16) for test in tests.values()), strict=True):
        cells = [f"{row.about['temperature_a']:g}", f"{100 * row.about['accuracy_a']:.1f}"]
        for one in (row, *others):
            cells.append(f"{points(one.difference)} ({one.about['reached']})")
        rows.append(cells)
    return markdown_table(["baseline's temperature", "its accuracy", *tests], rows)


def with_start(compared: dict[str, Both]) -> str:
    """Return a table of pass@16 with 2, 4 or 8 of the tries given to the start model."""
    rows = []
    for row, *others in zip(
        *(compare_with_fallback(test, 16, chosen) for test, chosen in compared.values()), strict=True
    ):
        cells = [str(row.about["fallback_a"]), str(row.about["fallback_b"]), f"{100 * row.difference.a:.1f}"]
        rows.append(cells + [points(one.difference) for one in (row, *others)])
    return markdown_table(["tries of the start: baseline", "arm", f"{BASELINE}, with them", *compared], rows)


def _free(test: Pairs, validation: Pairs) -> Difference:
    """Return the difference in pass@1 at the best temperatures, with the margin added to the arm's pass@1."""
    a, b = (
        pick_best_temperature(judged.pass_at(1), choosing.pass_at(1))
        for judged, choosing in ((test.a, validation.a), (test.b, validation.b))
    )
    return test.difference(a, b + MARGIN)


def _both(arms: Arms, a: str, b: str) -> Both:
    """Return two arms, over the pairs of start and seed that both have."""
    pairs = pairs_of(arms, a, b)
    both = [count_sweeps([swept(arms[arm][pair].evaluations) for pair in pairs]) for arm in (a, b)]
    starts = tuple(start for start, _ in pairs)
    test, validation = (Pairs(*(one[split] for one in both), True, starts) for split in ("test", "validation"))
    return test, validation


def _fallbacks(arms: Arms, arm: str, both: Both) -> Both:
    pairs = pairs_of(arms, arm)
    (of_start,) = {seed for _, seed in arms["start"]}
    others = count_sweeps([swept(arms["start"][start, of_start].evaluations) for start, _ in pairs])
    test, validation = (
        Pairs(one.a, one.b, True, one.starts, others[split])
        for one, split in zip(both, ("test", "validation"), strict=True)
    )
    return test, validation


def _tries(row: Row) -> str:
    return "F" if row.about["k"] == "mean" else str(row.about["k"])


def _cells(one: Difference) -> list[str]:
    return [points(one), starts_alone(one)]


if __name__ == "__main__":
    main()
