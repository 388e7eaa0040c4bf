"""How large should an attempt of dynamic sampling be? A simulation: no model and no clock.

    python benchmarks/attempts.py

An attempt lasts until its longest completion ends. An engine steps once for all completions that run, and with
`DOUBLES` of them a step takes twice as long as with one. Lengths are lognormal; the mean is a quarter of the longest.

*rollout* has as many prompts as a rollout in each attempt, *missing* as many as are missing over the share that was
informative so far, and *margin* so many that nine of ten attempts suffice, which `dynamic_sampling_factor=0` does.
The table has for each way: the attempts of a rollout, each of which waits for its longest completion; the completions
that are generated for each one that is trained on; the share of a rollout's groups that waited for it since the
rollout before; and how many times as fast as with *rollout* it is generated.
"""

import math
from itertools import product
from typing import NamedTuple

import numpy as np

WANTED, GROUP, LONGEST, ROLLOUTS, MOST = 64, 8, 4096, 200, 3
MARGINS = {"missing": 0.0, "margin": 1.28}
ENGINES = ((1, 20), (1, 133), (8, 133), (8, math.inf))
"""Engines that share a rollout, and the completions on one with which a step takes twice as long."""


class Course(NamedTuple):
    """The means of a run, for each rollout."""

    time: float
    attempts: float
    generated: float
    waited: float

    @property
    def counts(self) -> str:
        """The cells of the table that need no clock."""
        return f"{self.attempts:.2f} | {self.generated:.2f} | {self.waited:.2f}"


def duration(lengths: np.ndarray, engines: int, doubles: float) -> float:
    """Return how long the slowest engine runs, in steps with one completion."""
    return max(part.max() + part.sum() / doubles for part in np.array_split(lengths, engines))


def count_prompts(missing: int, share: float, margin: float) -> int:
    """Return the prompts whose informative groups, less a `margin` of standard deviations, are those missing."""
    spread = margin * math.sqrt(share * (1 - share))
    root = (spread + math.sqrt(spread**2 + 4 * share * missing)) / (2 * share)
    return min(math.ceil(root**2), MOST * WANTED)


def simulate(way: str, informative: float, engines: int, doubles: float) -> Course:
    """Generate rollouts when a share of all groups is `informative`."""
    dice = np.random.default_rng(0)
    share = informative
    waiting = attempts = generated = waited = 0
    time = 0.0
    for _ in range(ROLLOUTS):
        found = waiting
        waited += min(found, WANTED)
        while found < WANTED:
            count = WANTED if way == "rollout" else count_prompts(WANTED - found, share, MARGINS[way])
            chosen = dice.binomial(count, informative)
            share = 0.8 * share + 0.2 * (chosen + 1) / (count + 1)
            lengths = np.minimum(LONGEST, 0.2 * LONGEST * np.exp(0.7 * dice.normal(size=count * GROUP)))
            time += duration(lengths, engines, doubles)
            attempts += 1
            generated += count
            found += chosen
        waiting = max(found - WANTED, 0)
    trained = ROLLOUTS * WANTED
    return Course(time / ROLLOUTS, attempts / ROLLOUTS, generated / trained, waited / trained)


def main() -> None:
    """Print a table."""
    names = ["informative", "engines", "a step doubles with"]
    for way in ("rollout", *MARGINS):
        names += [f"{way}: attempts", "generated", "waited"]
        names += ["times as fast"] if way in MARGINS else []
    print(f"| {' | '.join(names)} |")
    print("|--:" * len(names) + "|")
    for informative, (engines, doubles) in product((0.3, 0.5, 0.7, 0.9), ENGINES):
        today = simulate("rollout", informative, engines, doubles)
        cells = [f"{informative} | {engines} | {doubles:g}", today.counts]
        for way in MARGINS:
            course = simulate(way, informative, engines, doubles)
            cells.append(f"{course.counts} | {today.time / course.time:.2f}")
        print(f"| {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
