"""Simulates how many prompts an attempt of dynamic sampling should have, without a model or a clock.

    python benchmarks/attempts.py

An attempt lasts until its longest completion ends. An engine advances all running completions by one token in each
step. The number of completions with which a step takes twice as long as with one is given in `ENGINES`. Lengths are
lognormal, and their mean is a quarter of the longest.

Three rules for the number of prompts in an attempt are compared. *rollout* always tries as many as a rollout has.
*missing* tries the number of missing groups divided by the share of groups that was informative so far. *margin* tries
so many that nine of ten attempts suffice, as `dynamic_sampling_factor=0` does. The columns of each rule are:

attempts        attempts for each rollout; each waits for its longest completion
generated       completions that are generated for each completion that is trained on
waited          share of a rollout's groups that were left over from the previous rollout
times as fast   how many times as fast as with *rollout* a rollout is generated
"""

import math
from itertools import product
from typing import NamedTuple

import numpy as np

WANTED, GROUP, LONGEST, ROLLOUTS, MOST = 64, 8, 4096, 200, 3
MARGINS = {"missing": 0.0, "margin": 1.28}
ENGINES = ((1, 20), (1, 133), (8, 133), (8, math.inf))
"""Pairs of the number of engines and the number of completions that double the duration of an engine's step."""


class Course(NamedTuple):
    """The means over rollouts that the table shows."""

    time: float
    attempts: float
    generated: float
    waited: float

    @property
    def counts(self) -> str:
        """The table cells of the columns that do not depend on time."""
        return f"{self.attempts:.2f} | {self.generated:.2f} | {self.waited:.2f}"


def duration(lengths: np.ndarray, engines: int, doubles: float) -> float:
    """Return how long the slowest engine runs, in units of a step with one completion."""
    return max(part.max() + part.sum() / doubles for part in np.array_split(lengths, engines))


def count_prompts(missing: int, share: float, margin: float) -> int:
    """Return how many prompts to try, so that enough of them are informative.

    The expected number of informative groups, less `margin` standard deviations, is the number of `missing` groups.
    """
    spread = margin * math.sqrt(share * (1 - share))
    root = (spread + math.sqrt(spread**2 + 4 * share * missing)) / (2 * share)
    return min(math.ceil(root**2), MOST * WANTED)


def simulate(way: str, informative: float, engines: int, doubles: float) -> Course:
    """Simulate rollouts with the rule `way`, if each group is informative with the probability `informative`."""
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
    """Print the table."""
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
