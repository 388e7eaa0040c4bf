"""Recompute the tables of results3.md from the published files, with nothing but the standard library.

    python tests/support/dial_recomputed.py

It shares no line with the analysis, and reads the page itself: every number of the registered comparison, of the price
lists, of the arms against another arm, of the one table, of equal temperatures, of the tries needed (but for the
mixture) and of the mixtures must be the one that is found here, to its printed digits. Exits 1 if one is not, or if a
row is missing.
"""

import json
import lzma
import math
import re
import sys
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory

RESULTS = Path(__file__).parents[2] / "experiments/results"
KS = (1, 2, 4, 8, 16)
# Student's t, two-sided 95 %, by degrees of freedom.
T = {1: 12.7062, 2: 4.30265, 3: 3.18245, 4: 2.77645, 5: 2.57058, 6: 2.44691, 7: 2.36462, 8: 2.30600, 9: 2.26216}


def read(path):
    """Return sampling -> split -> (samples, counts correct, counts distinct)."""
    found = {}
    for sampling, one in json.loads(path.read_text())["evaluations"].items():
        for split, counts in one["benchmarks"].items():
            columns = []
            for key in ("correct", "distinct"):
                column = counts.get(key, counts["correct"])
                columns.append([int(digit, 36) for digit in column] if isinstance(column, str) else column)
            found.setdefault(sampling, {})[split] = (counts["samples"], *columns)
    return found


@lru_cache(None)
def fails(samples, correct, k):
    """Return the probability that `k` draws without replacement are all incorrect."""
    value = 1.0
    for drawn in range(k):
        value *= max(samples - correct - drawn, 0) / (samples - drawn)
    return value


def failures(run, sampling, split, k):
    """Return that probability of each problem."""
    samples, correct, _ = run[sampling][split]
    return [fails(samples, count, k) for count in correct]


def read_entropies(path):
    """Return the tokens generated so far and the entropy of each rollout, as pairs, and the last target or `None`."""
    rollouts = json.loads(path.read_text())["rollouts"]
    entropies = rollouts["rollout_entropy" if "rollout_entropy" in rollouts else "entropy"]
    pairs = [pair for pair in zip(rollouts["generated_tokens"], entropies, strict=True) if pair[1] is not None]
    targets = [one for one in rollouts.get("hold_entropy/target", []) if one is not None]
    return pairs, targets[-1] if targets else None


def holds(path, level=0.65):
    """Return whether the entropy in the second half is within a tenth of the target.

    A run without a target is compared with the share `level` of its initial entropy.
    """
    pairs, target = read_entropies(path)
    if target is None:
        target = level * mean([entropy for _, entropy in pairs[:4]])
    late = mean([entropy for tokens, entropy in pairs if tokens > pairs[-1][0] / 2])
    return abs(late / target - 1) <= 0.1


def mean(values):
    """Return the mean."""
    return sum(values) / len(values)


def usable(run, k):
    """Return the samplings with enough samples for `k` tries."""
    return [name for name in run if run[name]["test"][0] >= k]


def best(run, k):
    """Return the share of test problems solved at the sampling that the validation problems choose."""
    chosen = min(usable(run, k), key=lambda name: round(mean(failures(run, name, "validation", k)), 12))
    return 1 - mean(failures(run, chosen, "test", k))


def mixed(run, start, k):
    """Return the same for the best split of `k` tries between a run and its start."""
    options = []
    for m in range(k + 1):
        for name in usable(run, m) if m else [None]:
            for other in usable(start, k - m) if k > m else [None]:
                scores = []
                for split in ("validation", "test"):
                    size = len(next(iter(run.values()))[split][1])
                    ours = failures(run, name, split, m) if m else [1.0] * size
                    others = failures(start, other, split, k - m) if k > m else [1.0] * size
                    scores.append(mean([a * b for a, b in zip(ours, others, strict=True)]))
                options.append(scores)
    # Of equal scores on the validation problems the first one counts, whatever it scores on the test problems.
    return 1 - min(options, key=lambda scores: round(scores[0], 12))[1]


def needed(curve, goal):
    """Return how many tries solve the share `goal`, interpolated between whole tries; None if 16 do not."""
    before = 0.0
    for k, solved in enumerate(curve, 1):
        if solved >= goal:
            return k - 1 + (goal - before) / (solved - before)
        before = solved
    return None


def at_one(run, k):
    """Return the share of test problems solved at temperature 1."""
    return 1 - mean(failures(run, "t1", "test", k))


MEASURES = [
    lambda run, start: 100 * best(run, 1),
    lambda run, start: 100 * best(run, 16),
    lambda run, start: 100 * mean([best(run, k) for k in KS]),
    lambda run, start: 100 * mean([mixed(run, start, k) for k in KS]),
    lambda run, start: 100 * at_one(run, 1),
    lambda run, start: 100 * at_one(run, 16),
    lambda run, start: mean(run["t1"]["test"][2]),
]


def standard_error(values):
    """Return the standard error of the mean of at least two values."""
    middle = mean(values)
    return math.sqrt(sum((one - middle) ** 2 for one in values) / (len(values) - 1) / len(values))


def interval(values):
    """Return the mean and half of the interval, if there is one."""
    if len(values) < 2:
        return [mean(values)]
    return [mean(values), T[len(values) - 1] * standard_error(values)]


def p_value(values):
    """Return the two-sided p of Student's t for a mean of 0, by Simpson's rule over the density."""
    if len(values) < 2:
        return 1.0
    middle, freedom = mean(values), len(values) - 1
    error = standard_error(values)
    if error == 0:
        return float(middle == 0)
    log_scale = math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2) - 0.5 * math.log(freedom * math.pi)
    steps = 20_000
    width = abs(middle) / error / steps
    total = 0.0
    for i in range(steps + 1):
        weight = 1 if i in (0, steps) else 4 if i % 2 else 2
        total += weight * math.exp(log_scale - (freedom + 1) / 2 * math.log1p((i * width) ** 2 / freedom))
    return 1 - 2 * total * width / 3


def correct_by_holm(p_values):
    """Return p-values by name, corrected by Holm's method."""
    corrected, largest = {}, 0.0
    for rank, name in enumerate(sorted(p_values, key=p_values.get)):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[name]))
        corrected[name] = largest
    return corrected


def is_rounded(printed, numbers):
    """Return whether a cell has these numbers, each rounded to its printed digits. A tie may be rounded either way."""
    texts = re.findall(r"[+-]?\d+\.\d+", printed)
    if len(texts) != len(numbers):
        return False
    units = [10.0 ** -len(text.partition(".")[2]) for text in texts]
    return all(
        abs(float(text) - number) <= 0.5 * unit + 1e-9
        for text, number, unit in zip(texts, numbers, units, strict=True)
    )


MIXTURE = "baseline mixed with the start"
BLOCKS = {
    "long": [("dial 0.5", "dial 0.8", "C2 0.65", "F-GRPO", "placebo 0.65")],
    "short": [("baseline", "dial 0.5", "dial 0.65", "dial 0.8", "dial 0.95")],
    "short-again": [
        (
            *("baseline", "dial 0.65", "C2 0.65", "C2 shuffled 0.65", "REPO-R 0.65", "entropy change 0.65"),
            *("entropy bonus 0.65", "KL to the start", "F-GRPO", "F-GRPO, W 1.25", "MaxRL", "MaxRL 0.65", "pass@4"),
        )
    ],
}
"""Arms that count only from starts that have all of them."""
SAMPLINGS_OF_THE_TABLE = ("greedy", "t0.25", "t0.5", "t0.75", "t1")
"""The samplings of the table of every method."""


class Regime:
    """The published runs of a regime."""

    def __init__(self, folder):
        self.folder = folder
        self.runs = {}
        self.values = {}

    def path(self, arm, start):
        """Return where a run is published."""
        slug = re.sub(r"[^a-z0-9.]+", "-", arm.lower()).strip("-")
        return self.folder / f"{slug}-start{start}.json"

    def starts(self, *arms):
        """Return the starts with a run of each arm, and of each other arm of their blocks."""
        blocks = [block for block in BLOCKS[self.folder.name] if set(block) & set(arms)]
        needed = {"start", *arms}.union(*blocks)
        return [n for n in range(41, 51) if all(self.path(arm, n).exists() for arm in needed)]

    def run(self, arm, start):
        """Return a run."""
        if (arm, start) not in self.runs:
            self.runs[arm, start] = read(self.path(arm, start))
        return self.runs[arm, start]

    def value(self, arm, start, i):
        """Return a measure of a run."""
        key = arm, start, i
        if key not in self.values:
            self.values[key] = MEASURES[i](self.run(arm, start), self.run("start", start))
        return self.values[key]

    def differences(self, arm, than, starts, i):
        """Return a measure of `arm` less that of `than`, for each start."""
        return [self.value(arm, n, i) - self.value(than, n, i) for n in starts]


def tables(page, heading):
    """Return the tables below a heading, each as rows of cells."""
    text = page.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    found = []
    for block in re.findall(r"(?:^\|.*\n?)+", text, re.MULTILINE):
        found.append([[cell.strip() for cell in line.strip("| \n").split(" | ")] for line in block.splitlines()])
    return found


def check(page, folder):
    """Return what differs, and how many cells are equal."""
    wrong, equal = [], 0

    def compare(place, printed, numbers):
        nonlocal equal
        if is_rounded(printed, numbers):
            equal += 1
        else:
            wrong.append(f"{place}: printed {printed!r}, found {numbers}")

    def compare_rows(name, regime, table, starts, arms):
        rows = {row[0]: row for row in table}
        for arm in arms:
            for i in range(7):
                found = regime.differences(arm, "baseline", starts, i)
                compare(f"{name}, {arm}, {table[0][i + 2]}", rows[arm][i + 2], interval(found))

    long, short, again = (Regime(folder / name) for name in ("long", "short", "short-again"))
    starts = long.starts("dial 0.65", "baseline")
    if starts:
        table, whole = tables(page, "The registered comparison")
        for row, i in zip(table[2:4], (1, 0), strict=True):
            compare(row[0], row[1], interval(long.differences("dial 0.65", "baseline", starts, i)))
        found = [long.value("dial 0.65", n, 2) - long.value("baseline", n, 3) for n in starts]
        compare(table[4][0], table[4][1], interval(found))
        compare_rows("registered", long, whole, starts, ("start", "dial 0.65"))
    levels = {"long": ("dial 0.5", "dial 0.65", "dial 0.8")}
    levels["short"] = ("dial 0.5", "dial 0.65", "dial 0.8", "dial 0.95")
    lists = tables(page, "What each level costs and buys")
    regimes = {name: one for name, one in (("long", long), ("short", short)) if one.starts("baseline", *levels[name])}
    for (name, regime), table in zip(regimes.items(), lists, strict=True):
        starts = regime.starts("baseline", *levels[name])
        compare_rows(name, regime, table, starts, ("start", *levels[name]))
    regimes = {one.folder.name: one for one in (long, short, again) if one.starts("baseline")}
    for (name, regime), table in zip(regimes.items(), tables(page, "Mixtures with the start"), strict=True):
        for row in table[2:]:
            starts = regime.starts(row[0], "baseline")
            alone, both = ([regime.value(row[0], n, i) for n in starts] for i in (2, 3))
            compare(f"{name}, {row[0]}, F", row[2], [mean(alone)])
            compare(f"{name}, {row[0]}, F mixed", row[3], [mean(both)])
            found = [regime.value(row[0], n, 2) - regime.value("baseline", n, 3) for n in starts]
            compare(f"{name}, {row[0]}, F less mixture", row[5], interval(found))
    for (name, regime), table in zip(regimes.items(), tables(page, "Tries needed"), strict=True):
        for row in table[2:]:
            if row[0] == MIXTURE:  # 16 times as slow as all other rows together
                continue
            starts = regime.starts(row[0], "baseline")
            pairs = [(regime.run(row[0], n), regime.run("baseline", n)) for n in starts]
            curves = [[best(run, k) for k in range(1, 17)] for run, _ in pairs]
            for column, k in enumerate((4, 8, 16), 2):
                goals = [best(baseline, k) for _, baseline in pairs]
                found = [needed(curve, goal) for curve, goal in zip(curves, goals, strict=True)]
                reached = [one for one in found if one is not None]
                if not reached:
                    continue
                middle, *half = interval(reached)
                bounds = [middle - half[0], middle + half[0]] if half else []
                printed = row[column].partition(", not")[0]
                compare(f"{name}, {row[0]}, tries for {k}", printed, [middle, *bounds])
    check_against(page, long, again, compare)
    check_one_table(page, again, compare)
    check_temperatures(page, long, compare)
    return wrong, equal


def check_against(page, long, again, compare):
    """Check the tables that compare arms with one other arm."""
    headings = (
        ("How it is held", long),
        ("Difficulty", again),
        ("Ways to hold the entropy and weights by difficulty, against the baseline", again),
    )
    for heading, regime in headings:
        for table in tables(page, heading):
            than = table[0][3].partition(" less ")[2]
            if table[0][3].startswith("one try"):
                for row in table[2:]:
                    starts = regime.starts(row[0], than)
                    for i, printed in enumerate(row[3:]):
                        found = regime.differences(row[0], than, starts, i)
                        compare(f"{heading}, {row[0]}, {table[0][i + 3]}", printed, interval(found))
            else:
                check_hands(table, again if than == "C2 0.65" else long, than, compare)


def check_hands(table, regime, than, compare):
    """Check a table that compares each arm with the arm `than`, over the starts from which both held the level."""
    for column, i in ((3, 2), (4, 0)):
        found = {}
        for row in table[2:]:
            both = [n for n in regime.starts(row[0], than) if all(holds(regime.path(a, n)) for a in (row[0], than))]
            found[row[0]] = regime.differences(row[0], than, both, i)
        corrected = correct_by_holm({arm: p_value(values) for arm, values in found.items()})
        for row in table[2:]:
            values = found[row[0]]
            place = f"hands, {row[0]}, {table[0][column]}"
            printed, _, p = row[column].partition(" (p = ") if len(row) > column else ("", "", "")
            compare(place, printed, interval(values) if values else [])
            if len(values) > 1:
                compare(f"{place}, p", p, [corrected[row[0]]])


def check_one_table(page, regime, compare):
    """Check the table of every method, for which each arm has the same samplings."""

    def measures(arm, start):
        run = regime.run(arm, start)
        run = {name: run[name] for name in SAMPLINGS_OF_THE_TABLE if name in run}
        tries = {k: 100 * best(run, k) for k in KS}
        return [tries[1], tries[16], mean(list(tries.values())), mean(run["t1"]["test"][2])]

    for table in tables(page, "Every method at its authors' constants"):
        baseline = {}
        starts = regime.starts("baseline", *(row[0] for row in table[2:]))
        for row in table[2:]:
            baseline |= {n: measures("baseline", n) for n in starts if n not in baseline}
            found = [[a - b for a, b in zip(measures(row[0], n), baseline[n], strict=True)] for n in starts]
            for i, printed in enumerate(row[3:]):
                place = f"one table, {row[0]}, {table[0][i + 3]}"
                compare(place, printed, interval([one[i] for one in found]))


def check_temperatures(page, regime, compare):
    """Check the differences at the same temperature."""
    starts = regime.starts("dial 0.65", "baseline")
    for table in tables(page, "One temperature for both"):
        for row in table[2:]:
            sampling = row[0] if row[0] == "greedy" else f"t{row[0]}"
            for column, k in ((1, 1), (2, 16)):
                if len(row) <= column or not row[column]:
                    continue
                solved = {
                    arm: [100 * (1 - mean(failures(regime.run(arm, n), sampling, "test", k))) for n in starts]
                    for arm in ("dial 0.65", "baseline")
                }
                found = [a - b for a, b in zip(solved["dial 0.65"], solved["baseline"], strict=True)]
                compare(f"{row[0]}, {table[0][column]}", row[column], interval(found))


def main():
    """Check the page."""
    with TemporaryDirectory() as folder:
        for line in lzma.decompress((RESULTS / "dial.jsonl.xz").read_bytes()).decode().splitlines():
            run = json.loads(line)
            path = Path(folder, run["file"])
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(run["record"]))
        wrong, equal = check((RESULTS / "results3.md").read_text(), Path(folder))
    sys.stdout.write("".join(f"{line}\n" for line in wrong))
    sys.stdout.write(f"{equal} numbers are equal, {len(wrong)} are not.\n")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
