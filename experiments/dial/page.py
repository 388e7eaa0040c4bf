"""Writes results3.md and its picture from the runs of protocol 3 that are published so far.

python -m experiments.dial.page
"""

import math
import sys
from collections.abc import Callable, Sequence
from itertools import combinations
from pathlib import Path
from tempfile import TemporaryDirectory

from experiments.dial import analysis
from experiments.dial.analysis import TRIES, Interval, Run, best, best_mixture, frontier, mixture_frontier, over_starts
from experiments.dial.picture import draw
from experiments.dial.pilots import HELD, chosen_coefficient, read_ends
from experiments.dial.plan import jobs_of, read_plan
from experiments.dial.published import unpack
from experiments.dial.regime import START, Regime
from experiments.lab.runs import ROOT
from experiments.lab.tables import markdown_table

PAGE, PICTURE = ROOT / "experiments/results/results3.md", ROOT / "docs/dial.png"
TEXT = Path(__file__).with_name("results3.md.in")
BASELINE = "baseline"
DIAL = "dial 0.65"
MIXTURE = "baseline mixed with the start"
LEVELS = {"long": (0.5, 0.65, 0.8), "short": (0.5, 0.65, 0.8, 0.95)}
HANDS = ("C2 shuffled 0.65", "REPO-R 0.65", "entropy change 0.65", "entropy bonus 0.65", "KL to the start")
"""Ways to hold the entropy that are compared with C2."""
DIFFICULTY = ("F-GRPO", "F-GRPO, W 1.25", "MaxRL", "MaxRL 0.65", "pass@4")
"""Arms that weigh problems by their difficulty."""
TABLE = ("greedy", "t0.25", "t0.5", "t0.75", "t1")
"""The samplings of the table of all methods, for the methods and for the baseline."""

NOT_RUN = "Not run yet."

Measure = Callable[[Run, Run], float]
"""A number computed from a run and its start model."""
SOLVED: dict[str, Measure] = {
    "one try": lambda run, start: 100 * best(run, 1).value,
    "16 tries": lambda run, start: 100 * best(run, 16).value,
    "F": lambda run, start: 100 * frontier(run),
    "F, mixed with the start": lambda run, start: 100 * mixture_frontier(run, start),
    "one try, T = 1": lambda run, start: 100 * analysis.at_temperature_one(run)[0],
    "16 tries, T = 1": lambda run, start: 100 * analysis.at_temperature_one(run)[1],
    "different of 16, T = 1": lambda run, start: analysis.at_temperature_one(run)[2],
}
SHORT = ("one try", "16 tries", "F", "F, mixed with the start")
IN_THE_TABLE: dict[str, Measure] = {
    "one try": lambda run, start: 100 * best(run, 1, TABLE).value,
    "16 tries": lambda run, start: 100 * best(run, 16, TABLE).value,
    "F": lambda run, start: 100 * frontier(run, TABLE),
}


def values(regime: Regime, arm: str, starts: Sequence[int], measure: Measure) -> list[float]:
    """Return the measure of an arm for each start."""
    pairs = zip(regime.of(arm, starts), regime.of(START, starts), strict=True)
    return [measure(run, start) for run, start in pairs]


def difference(regime: Regime, arm: str, than: str, measure: Measure, starts: Sequence[int] | None = None) -> Interval:
    """Return the difference of the measure between `arm` and `than`, over the starts that both have."""
    starts = regime.starts(arm, than) if starts is None else starts
    sides = [values(regime, name, starts, measure) for name in (arm, than)]
    return over_starts([a - b for a, b in zip(*sides, strict=True)])


def cell(interval: Interval, digits: int = 1) -> str:
    """Return a table cell with the mean and half the width of an interval."""
    if not interval.starts:
        return ""
    half = f" ±{interval.half:.{digits}f}" if math.isfinite(interval.half) else ""
    return f"{interval.mean:+.{digits}f}{half}"


def progress(folder: Path) -> str:
    """Return a table of how many runs of each block are published, and how many starts have all of them."""
    rows, done, planned = [], 0, 0
    plan = read_plan()
    for name in plan["blocks"]:
        jobs = jobs_of(plan, [name])
        missing = [job for job in jobs if not (folder / job.folder / job.file).exists()]
        starts = {job.start for job in jobs}
        whole = len(starts - {job.start for job in missing})
        rows.append([f"`{name}`", len(jobs) - len(missing), len(jobs), f"{whole} of {len(starts)}"])
        done, planned = done + len(jobs) - len(missing), planned + len(jobs)
    state = "All runs are there." if done == planned else "No decision is taken from an unfinished block."
    table = markdown_table(["block", "runs", "planned", "starts with all arms"], rows)
    return f"**{done} of {planned} runs are there.** {state}\n\n{table}"


def primary(regime: Regime) -> str:
    """Return the registered comparison with its verdicts."""
    starts = regime.starts(DIAL, BASELINE)
    against = {name: difference(regime, DIAL, BASELINE, SOLVED[name], starts) for name in ("16 tries", "one try")}
    ours = values(regime, DIAL, starts, SOLVED["F"])
    mixture = values(regime, BASELINE, starts, SOLVED["F, mixed with the start"])
    beyond = over_starts([a - b for a, b in zip(ours, mixture, strict=True)])
    higher = against["16 tries"].low > 0
    bounded = against["one try"].low > -2
    rows = [
        ["pass@16 is higher", cell(against["16 tries"]), yes(higher)],
        ["pass@1 is not lower by 2 points", cell(against["one try"]), yes(bounded)],
        ["F is above the best mixture of the baseline with its start", cell(beyond), yes(beyond.low > 0)],
    ]
    table = markdown_table(["claim, dial at 0.65 against the baseline", "points", "holds"], rows)
    return f"{sentence(against, beyond, starts)}\n\n{table}\n\n{prices(regime, (0.65,))}"


def yes(holds: bool) -> str:
    """Return a verdict as a word."""
    return "yes" if holds else "no"


def sentence(against: dict[str, Interval], beyond: Interval, starts: Sequence[int]) -> str:
    """Return a sentence about the gain and the cost of the dial at 0.65."""
    if len(starts) < 2:
        return "Too few starts for an interval."
    many, one = (spell_interval(against[name]) for name in ("16 tries", "one try"))
    return (
        f"Over {len(starts)} starts, and each model at its best, the dial at 0.65 differs from GRPO with the same "
        f"dynamic sampling by {many} in 16 tries and by {one} in one try. Its F differs by {spell_interval(beyond)} "
        "from that of the best mixture of GRPO with the start."
    )


def spell_interval(interval: Interval) -> str:
    """Return a mean and its interval as words."""
    return f"{interval.mean:+.1f} points ({interval.low:+.1f} to {interval.high:+.1f})"


def prices(regime: Regime, levels: Sequence[float]) -> str:
    """Return the table of each level of the dial against the baseline, over the starts that all levels have."""
    arms = [f"dial {level:g}" for level in levels]
    starts = regime.starts(BASELINE, *arms)
    if not starts:
        return NOT_RUN
    rows = [[BASELINE, "", *absolute(regime, BASELINE, starts, SOLVED)], [START, "", *against(regime, START, starts)]]
    rows.append([MIXTURE, "", *mixed(regime, starts)])
    rows += [[arm, held(regime, arm, starts), *against(regime, arm, starts)] for arm in arms]
    if len(levels) > 1:
        rows.append(["slope, for 0.1 of the level", "", *slopes(regime, levels, starts)])
    return f"{len(starts)} starts.\n\n" + markdown_table(["arm", "held", *SOLVED], rows)


def mixed(regime: Regime, starts: Sequence[int]) -> list[str]:
    """Return what the best mixture of the baseline with its start gains over the baseline alone, as table cells."""
    pairs = list(zip(regime.of(BASELINE, starts), regime.of(START, starts), strict=True))
    cells = []
    for name, k in (("one try", 1), ("16 tries", 16)):
        gains = [100 * best_mixture(run, start, k).value - SOLVED[name](run, start) for run, start in pairs]
        cells.append(cell(over_starts(gains)))
    frontiers = [100 * (mixture_frontier(run, start) - frontier(run)) for run, start in pairs]
    return [*cells, cell(over_starts(frontiers)), *[""] * (len(SOLVED) - 3)]


def absolute(regime: Regime, arm: str, starts: Sequence[int], measures: dict[str, Measure]) -> list[str]:
    """Return the means of an arm as table cells."""
    found = [over_starts(values(regime, arm, starts, measure)) for measure in measures.values()]
    return [f"{one.mean:.{digits(name)}f}" if one.starts else "" for name, one in zip(measures, found, strict=True)]


def against(regime: Regime, arm: str, starts: Sequence[int], than: str = BASELINE) -> list[str]:
    """Return the differences between `arm` and `than` as table cells."""
    return [cell(difference(regime, arm, than, measure, starts), digits(name)) for name, measure in SOLVED.items()]


def digits(measure: str) -> int:
    """Return the number of decimals to print for a measure: two for a count of answers, one for others."""
    return 2 if measure.startswith("different") else 1


def held(regime: Regime, arm: str, starts: Sequence[int]) -> str:
    """Return in how many runs the level was held, and the mean entropy as a share of the initial entropy."""
    runs = regime.of(arm, starts)
    if not runs:
        return ""
    share = sum(map(analysis.entropy_share, runs)) / len(runs)
    verdicts = [analysis.is_held(run) for run in runs]
    count = f"{sum(map(bool, verdicts))} of {len(runs)}, " if None not in verdicts else ""
    return f"{count}{share:.2f}"


def slopes(regime: Regime, levels: Sequence[float], starts: Sequence[int]) -> list[str]:
    """Return the least-squares slopes over the levels, fitted for each start, as table cells."""
    middle = sum(levels) / len(levels)
    spread = sum((level - middle) ** 2 for level in levels)
    cells = []
    for name, measure in SOLVED.items():
        of_levels = [values(regime, f"dial {level:g}", starts, measure) for level in levels]
        fitted = [
            sum((level - middle) * one[i] for level, one in zip(levels, of_levels, strict=True)) / spread / 10
            for i in range(len(starts))
        ]
        cells.append(cell(over_starts(fitted), digits(name)))
    return cells


def hands(regime: Regime, arms: Sequence[str], than: str) -> str:
    """Return a table of ways to hold the entropy, each compared with the arm `than`.

    Only starts where both arms held their levels are compared. p-values have Holm's correction.
    """
    found: dict[str, dict[str, Interval]] = {"F": {}, "one try": {}}
    rows = []
    for arm in _published(regime, arms, than):
        starts = [
            n
            for n in regime.starts(arm, than)
            if all(analysis.is_held(run, HELD) for name in (arm, than) for run in regime.of(name, [n]))
        ]
        for measure, of_arm in found.items():
            of_arm[arm] = difference(regime, arm, than, SOLVED[measure], starts)
        rows.append([arm, f"{len(starts)} of {len(regime.starts(arm, than))}", held(regime, arm, regime.starts(arm))])
    corrected = {
        measure: analysis.holm({arm: one.p for arm, one in of_arm.items()}) for measure, of_arm in found.items()
    }
    for row in rows:
        for measure, of_arm in found.items():
            p = f" (p = {corrected[measure][row[0]]:.3f})" if of_arm[row[0]].starts > 1 else ""
            row.append(cell(of_arm[row[0]]) + p)
    head = ["arm", "starts where both held", "held", *(f"{name} less {than}" for name in found)]
    return markdown_table(head, rows) if rows else NOT_RUN


def _published(regime: Regime, arms: Sequence[str], than: str = BASELINE) -> list[str]:
    """Return the arms that share a start with the arm `than`."""
    return [arm for arm in arms if regime.starts(than if arm == MIXTURE else arm, than)]


def compared(regime: Regime, arms: Sequence[str], than: str) -> str:
    """Return a table of arms, each compared with the arm `than` over the starts that both have."""
    rows = [
        [arm, len(regime.starts(arm, than)), held(regime, arm, regime.starts(arm)), *against_own(regime, arm, than)]
        for arm in _published(regime, arms, than)
    ]
    head = ["arm", "starts", "held", *(f"{name} less {than}" for name in SOLVED)]
    return markdown_table(head, rows) if rows else NOT_RUN


def against_own(regime: Regime, arm: str, than: str) -> list[str]:
    """Return the differences between two arms over the starts that both have, as table cells."""
    return against(regime, arm, regime.starts(arm, than), than)


def one_table(regime: Regime) -> str:
    """Return the table of every method with its authors' constants against the baseline."""
    arms = read_plan()["blocks"]["short_table"]["arms"]
    rows = []
    for arm in _published(regime, arms):
        starts = regime.starts(arm, BASELINE)
        cells = [cell(difference(regime, arm, BASELINE, measure, starts)) for measure in IN_THE_TABLE.values()]
        distinct = difference(regime, arm, BASELINE, SOLVED["different of 16, T = 1"], starts)
        rows.append([arm, len(starts), held(regime, arm, starts), *cells, cell(distinct, 2)])
    head = ["method", "starts", "entropy at the end", *IN_THE_TABLE, "different of 16, T = 1"]
    return markdown_table(head, rows) if rows else NOT_RUN


def needed(regime: Regime, arms: Sequence[str]) -> str:
    """Return a table of how many tries each arm needs to solve what the baseline solves in 4, 8 and 16."""
    rows = []
    for arm in _published(regime, [START, MIXTURE, *arms]):
        starts = regime.starts(BASELINE) if arm == MIXTURE else regime.starts(arm, BASELINE)
        curves = [_solved_by_tries(regime, arm, start) for start in starts]
        cells = []
        for k in (4, 8, 16):
            goals = [best(baseline, k).value for baseline in regime.of(BASELINE, starts)]
            found = [analysis.tries_needed(curve, goal) for curve, goal in zip(curves, goals, strict=True)]
            beyond = sum(map(math.isinf, found))
            interval = over_starts([one for one in found if math.isfinite(one)])
            parts = [f"{interval.mean:.1f}"] if interval.starts else []
            if interval.starts > 1:
                parts[0] += f" ({interval.low:.1f} to {interval.high:.1f})"
            if beyond:
                parts.append(f"not in 16: {beyond} of {len(found)}")
            cells.append(", ".join(parts))
        rows.append([arm, len(starts), *cells])
    head = ["solved by the baseline in", "starts", "4 tries", "8 tries", "16 tries"]
    return markdown_table(head, rows) if rows else NOT_RUN


def _solved_by_tries(regime: Regime, arm: str, start: int) -> list[float]:
    """Return the share of test problems that an arm, or the baseline's mixture, solves in 0 to 16 tries."""
    begun = regime.of(START, [start])[0]
    if arm == MIXTURE:
        baseline = regime.of(BASELINE, [start])[0]
        return [0.0, *(best_mixture(baseline, begun, k).value for k in range(1, 17))]
    return [0.0, *(best(regime.of(arm, [start])[0], k).value for k in range(1, 17))]


def at_each_temperature(regime: Regime) -> str:
    """Return a table of the dial at 0.65 against the baseline, both with the same sampling."""
    starts = regime.starts(DIAL, BASELINE)
    pairs = list(zip(regime.of(DIAL, starts), regime.of(BASELINE, starts), strict=True))
    rows = []
    for sampling in pairs[0][0].samplings if pairs else ():
        cells = []
        for k in (1, 16):
            if pairs[0][0].counts[analysis.JUDGE][sampling].samples < k:
                cells.append("")
                continue
            solved = [[run.solved(analysis.JUDGE, sampling, k).mean() for run in pair] for pair in pairs]
            cells.append(cell(over_starts([100 * (dial - baseline) for dial, baseline in solved])))
        rows.append([sampling.removeprefix("t"), *cells])
    return markdown_table(["temperature of both", "one try", "16 tries"], rows) if rows else NOT_RUN


def pairs_of_models(regime: Regime) -> str:
    """Return a table that compares one or two models of the dial with two of the baseline, for pairs of starts."""
    starts = regime.starts(DIAL, BASELINE)
    if len(starts) < 3:
        return NOT_RUN
    dials, baselines = regime.of(DIAL, starts), regime.of(BASELINE, starts)
    measures: dict[str, Callable[[list[float]], float]] = {
        "2 tries": lambda solved: solved[1],
        "16 tries": lambda solved: solved[-1],
        "F": lambda solved: sum(solved) / len(solved),
    }
    one, two, ours = {}, {}, {}
    for pair in combinations(range(len(starts)), 2):
        alone = [[best(dials[i], k).value for k in TRIES] for i in pair]
        one[pair] = [sum(solved) / 2 for solved in zip(*alone, strict=True)]
        two[pair] = [best_mixture(*(baselines[i] for i in pair), k).value for k in TRIES]
        ours[pair] = [best_mixture(*(dials[i] for i in pair), k).value for k in TRIES]
    rows = []
    for name, found in (("one of the dial", one), ("two of the dial", ours)):
        differences = [
            {pair: 100 * (measure(found[pair]) - measure(two[pair])) for pair in two} for measure in measures.values()
        ]
        rows.append([name, *(cell(analysis.over_pairs(values)) for values in differences)])
    return markdown_table(["models, less two of the baseline", *measures], rows)


def mixtures(regime: Regime, arms: Sequence[str]) -> str:
    """Return a table of F for each arm and for its best mixture with the start model.

    It also shows how many of 16 tries the best mixture gives to the start model.
    """
    rows = []
    for arm in _published(regime, [BASELINE, *arms]):
        starts = regime.starts(arm, BASELINE)
        alone, mixed = (values(regime, arm, starts, SOLVED[name]) for name in ("F", "F, mixed with the start"))
        of_baseline = values(regime, BASELINE, starts, SOLVED["F, mixed with the start"])
        given = [
            16 - best_mixture(run, start, 16).choice[0]
            for run, start in zip(regime.of(arm, starts), regime.of(START, starts), strict=True)
        ]
        rows.append(
            [
                arm,
                len(starts),
                *(f"{over_starts(one).mean:.1f}" if one else "" for one in (alone, mixed)),
                ", ".join(map(str, given)),
                cell(over_starts([a - b for a, b in zip(alone, of_baseline, strict=True)])),
                cell(over_starts([a - b for a, b in zip(mixed, of_baseline, strict=True)])),
            ]
        )
    head = ["arm", "starts", "F", "F, mixed", "of 16 tries, the start's"]
    head += ["F less the baseline's mixture", "mixture less the baseline's"]
    return markdown_table(head, rows) if rows else NOT_RUN


def on_the_way(folder: Path) -> str:
    """Return a table of the baseline and the dial at every half million tokens, on fewer problems."""
    regime = Regime(folder, "long-way")
    starts = regime.starts(BASELINE, DIAL)
    if not starts:
        return NOT_RUN
    names = ("one try", "16 tries", "F", "F, mixed with the start")
    rows = []
    for place in range(5):
        sides = []
        for arm in (BASELINE, DIAL):
            checkpoints = [analysis.read_checkpoints(run) for run in regime.of(arm, starts)]
            pairs = [
                (of_run[place], start)
                for of_run, start in zip(checkpoints, regime.of(START, starts), strict=True)
                if place < len(of_run)
            ]
            sides.append(pairs)
        if not sides[0] or len(sides[0]) != len(sides[1]):
            continue
        found = {
            name: [[SOLVED[name](run, first_problems(start, run)) for run, start in side] for side in sides]
            for name in names
        }
        row = [f"{(place + 1) / 2:g} M"]
        for name in names[:3]:
            a, b = found[name]
            row += [f"{over_starts(a).mean:.1f}", cell(over_starts([y - x for x, y in zip(a, b, strict=True)]))]
        beyond = [ours - mixed for ours, mixed in zip(found["F"][1], found["F, mixed with the start"][0], strict=True)]
        rows.append([*row, cell(over_starts(beyond))])
    head = ["tokens", *(text for name in names[:3] for text in (f"baseline, {name}", "dial 0.65 less it"))]
    return f"{len(starts)} starts.\n\n" + markdown_table([*head, "F less the baseline's mixture"], rows)


def first_problems(start: Run, run: Run) -> Run:
    """Return a start model's results, limited to the problems and samplings of a checkpoint."""
    sizes = {split: len(next(iter(one.values())).correct) for split, one in run.counts.items()}
    counts = {
        split: {
            name: analysis.Counts(one.samples, one.correct[: sizes[split]], one.distinct[: sizes[split]])
            for name, one in start.counts[split].items()
            if name in run.counts[split]
        }
        for split in run.counts
    }
    return Run(start.record, counts)


def six_million(folder: Path) -> str:
    """Return a table of the baseline and the dial after six million tokens."""
    longer = Regime(folder, "long-6m")
    starts = longer.starts(BASELINE, DIAL)
    if not starts:
        return NOT_RUN
    rows = [
        [BASELINE, held(longer, BASELINE, starts), *absolute(longer, BASELINE, starts, SOLVED)],
        [DIAL, held(longer, DIAL, starts), *against(longer, DIAL, starts)],
    ]
    return f"{len(starts)} of 3 starts.\n\n" + markdown_table(["arm", "held", *SOLVED], rows)


def pilots(folder: Path) -> str:
    """Return a table of the pilots from start 40, on the validation problems. They are used only for choosing."""
    rows = []
    for regime in ("long", "short"):
        for path in sorted((folder / f"pilot-{regime}").glob("*.json")):
            run = analysis.read_run(path)
            solved = [100 * best(run, k, judge=analysis.CHOOSE).value for k in TRIES]
            entropy = f"{analysis.entropy_share(run):.2f}" if "rollouts" in run.record else ""
            row = [regime, run.record["arm"], entropy, *(f"{one:.1f}" for one in (*solved, sum(solved) / len(solved)))]
            rows.append(row)
    table = markdown_table(["regime", "run", "entropy at the end", *map(str, TRIES), "F"], rows)
    ends = read_ends(folder / "pilot-short")
    return f"{table}\n\nThe coefficient of the KL penalty that follows: {chosen_coefficient(ends)}." if ends else table


def tables(folder: Path) -> dict[str, str]:
    """Return the tables of the page by name."""
    long, short, again = (Regime(folder, name) for name in ("long", "short", "short-again"))
    others = ["dial 0.5", DIAL, "dial 0.8", "C2 0.65", "F-GRPO", "placebo 0.65"]
    of_short = [f"dial {level:g}" for level in LEVELS["short"]]
    of_again = [DIAL, "C2 0.65", *HANDS, *DIFFICULTY]
    return {
        "progress": progress(folder),
        "primary": primary(long),
        "long prices": prices(long, LEVELS["long"]),
        "short prices": prices(short, LEVELS["short"]),
        "hands": hands(again, HANDS, "C2 0.65"),
        "long placebo": hands(long, ["placebo 0.65"], DIAL),
        "long against the baseline": compared(long, ["C2 0.65", "F-GRPO", "placebo 0.65"], BASELINE),
        "long against the dial": compared(long, ["C2 0.65", "F-GRPO", "placebo 0.65"], DIAL),
        "difficulty": compared(again, DIFFICULTY, DIAL),
        "short again against the baseline": compared(again, of_again, BASELINE),
        "one table": one_table(again),
        "long needed": needed(long, others),
        "short needed": needed(short, of_short),
        "short again needed": needed(again, of_again),
        "at each temperature": at_each_temperature(long),
        "pairs of models": pairs_of_models(long),
        "long mixtures": mixtures(long, others),
        "short mixtures": mixtures(short, of_short),
        "short again mixtures": mixtures(again, of_again),
        "on the way": on_the_way(folder),
        "six million": six_million(folder),
        "pilots": pilots(folder),
    }


def page(folder: Path) -> str:
    """Return the text of the page."""
    text = TEXT.read_text()
    for name, table in tables(folder).items():
        text = text.replace(f"{{{name}}}", table)
    return text


def main() -> None:
    """Write the page and its picture."""
    with TemporaryDirectory() as folder:
        runs = unpack(Path(folder))
        PAGE.write_text(page(runs))
        draw(Regime(runs, "long"), PICTURE)
    sys.stdout.write(f"Wrote {PAGE} and {PICTURE}\n")


if __name__ == "__main__":
    main()
