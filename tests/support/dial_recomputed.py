"""Recompute the tables of results3.md from the published files, with nothing but the standard library.

    python tests/support/dial_recomputed.py

It shares no line with the analysis, and reads the page itself: every number of the registered comparison, of the price
lists, of the tries needed and of the mixtures must be the one that is found here, to its printed digits. Exits 1 if
one is not, or if a row is missing.
"""

import json
import math
import re
import sys
from functools import lru_cache
from pathlib import Path

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


def mean(values):
    """Return the mean."""
    return sum(values) / len(values)


def usable(run, k):
    """Return the samplings with enough samples for `k` tries."""
    return [name for name in run if run[name]["test"][0] >= k]


def best(run, k):
    """Return the share of test problems solved at the sampling that the validation problems choose."""
    chosen = min(usable(run, k), key=lambda name: mean(failures(run, name, "validation", k)))
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
    return 1 - min(options)[1]


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


def shown(values, digits=1):
    """Return mean and half of the interval as the page prints them."""
    middle = mean(values)
    if len(values) < 2:
        return f"{middle:+.{digits}f}"
    spread = math.sqrt(sum((one - middle) ** 2 for one in values) / (len(values) - 1))
    return f"{middle:+.{digits}f} ±{T[len(values) - 1] * spread / math.sqrt(len(values)):.{digits}f}"


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
        """Return the starts with a run of each arm."""
        return [n for n in range(41, 51) if all(self.path(arm, n).exists() for arm in ("start", *arms))]

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

    def compare(place, printed, expected):
        nonlocal equal
        if printed == expected:
            equal += 1
        else:
            wrong.append(f"{place}: printed {printed!r}, found {expected!r}")

    long, short = Regime(folder / "long"), Regime(folder / "short")
    starts = long.starts("dial 0.65", "baseline")
    if starts:
        (table,) = tables(page, "The registered comparison")
        for row, i in zip(table[2:4], (1, 0), strict=True):
            found = [long.value("dial 0.65", n, i) - long.value("baseline", n, i) for n in starts]
            compare(row[0], row[1], shown(found))
        found = [long.value("dial 0.65", n, 2) - long.value("baseline", n, 3) for n in starts]
        compare(table[4][0], table[4][1], shown(found))
    levels = {"long": ("dial 0.5", "dial 0.65", "dial 0.8")}
    levels["short"] = ("dial 0.5", "dial 0.65", "dial 0.8", "dial 0.95")
    lists = tables(page, "What each level costs and buys")
    for name, regime, table in zip(levels, (long, short), lists, strict=True):
        starts = regime.starts("baseline", *levels[name])
        rows = {row[0]: row for row in table}
        for arm in ("start", *levels[name]) if starts else ():
            for i in range(7):
                found = [regime.value(arm, n, i) - regime.value("baseline", n, i) for n in starts]
                compare(f"{name}, {arm}, {table[0][i + 2]}", rows[arm][i + 2], shown(found, 2 if i == 6 else 1))
    for name, regime, table in zip(levels, (long, short), tables(page, "Mixtures with the start"), strict=True):
        for row in table[2:]:
            starts = regime.starts(row[0], "baseline")
            if starts:
                alone, both = ([regime.value(row[0], n, i) for n in starts] for i in (2, 3))
                compare(f"{name}, {row[0]}, F", row[2], f"{mean(alone):.1f}")
                compare(f"{name}, {row[0]}, F mixed", row[3], f"{mean(both):.1f}")
                found = [regime.value(row[0], n, 2) - regime.value("baseline", n, 3) for n in starts]
                compare(f"{name}, {row[0]}, F less mixture", row[5], shown(found))
    return wrong, equal


def main():
    """Check the page."""
    wrong, equal = check((RESULTS / "results3.md").read_text(), RESULTS / "dial")
    sys.stdout.write("".join(f"{line}\n" for line in wrong))
    sys.stdout.write(f"{equal} numbers are equal, {len(wrong)} are not.\n")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
