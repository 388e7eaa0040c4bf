"""Is an entropy held where the strength acts late? The regulator on synthetic policies: a table of what it misses.

    python experiments/regulator.py                          # the default gains; half a minute
    python experiments/regulator.py --dead_times 0 --proportional 1.5 --integral 0.1

Ten policies, whose answer to a strength is known, with three constant and three falling levels, by a regulator that
keeps and by one that spends: 120 combinations for every dead time. A level is missed unless, after 80 of 400 rollouts,
the mean distance from it is at most 5 % and 90 % of the rollouts are within 10 %.
"""

import argparse
import math
import random
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

from steer_trl.functional import EntropyRegulator

ROLLOUTS, SETTLED = 400, 80
TARGETS = (0.8, 0.65, 0.5)  # of an entropy of 1
FALLING = ((0.8, 0.4, 0.6), (0.5, 0.25, 0.6), (0.65, 0.2, 0.3))  # from, to, after this share of the training
LEVELS = (*((target, target, 0.6) for target in TARGETS), *FALLING)
PLANTS: list[dict[str, Any]] = [
    {},
    {"noise": 0.05},
    {"slow": 0.7},
    {"slow": 0.7, "noise": 0.05},
    {"drift": lambda step: -0.03 + 0.02 * math.sin(step / 40)},  # what pulls the entropy down comes and goes
    {"drift": lambda step: -0.01 if step < 150 else -0.04},  # a step
    {"authority": 0.03},
    {"authority": 0.2},
    {"drift": -0.023, "authority": 0.13, "noise": 0.03},  # fitted to the laptop task
    {"drift": -0.06, "authority": 0.13, "noise": 0.03, "slow": 0.7},
]


def hold(
    regulator: EntropyRegulator,
    steps: int = ROLLOUTS,
    drift: float | Callable[[int], float] = -0.02,
    authority: float = 0.05,
    noise: float = 0.0,
    start: float = 1.0,
    slow: float = 0.0,
    dead: int = 0,
    seed: int = 0,
) -> list[float]:
    """Return the entropies of a policy that loses `-drift` of its log-entropy per rollout.

    It gains `authority * strength`. A share `slow` of what a strength did to the last rollout's change stays for the
    next: momentum. A strength begins to act `dead` rollouts after its own. The entropies are seen with noise.
    """
    rng, log_entropy, speed, entropies = random.Random(seed), math.log(start), 0.0, []
    strengths = [0.0] * dead
    for step in range(steps):
        seen = math.exp(log_entropy + rng.gauss(0, noise))
        strengths.append(regulator.update(seen, step / steps))
        entropies.append(math.exp(log_entropy))
        push = (drift(step) if callable(drift) else drift) + authority * strengths.pop(0)
        speed = slow * speed + (1 - slow) * push
        log_entropy += speed
    return entropies


def distances(level: tuple[float, float, float], low: float, gains: dict[str, float], **plant: Any) -> list[float]:
    """Return the relative distance from the level of the moment, of each rollout after settling."""
    start, final, decay_start = level
    regulator = EntropyRegulator(start, low, 1.0, final=final, decay_start=decay_start, **gains)
    entropies = hold(regulator, **plant)
    return [abs(entropies[k] / regulator.level(k / ROLLOUTS) - 1) for k in range(SETTLED, ROLLOUTS)]


def is_held(errors: list[float]) -> bool:
    """Whether these distances are 5 % on average, and nine of ten within 10 %."""
    return sum(errors) <= 0.05 * len(errors) and sum(error <= 0.1 for error in errors) >= 0.9 * len(errors)


def missed(dead: int, **gains: float) -> Iterator[str]:
    """Yield each combination that is not held at a dead time, in words."""
    for (number, plant), level, low in product(enumerate(PLANTS, 1), LEVELS, (0.0, -1.0)):
        errors = distances(level, low, gains, dead=dead, **plant)
        if not is_held(errors):
            yield f"plant {number}, level {level[0]} to {level[1]}, {'spends' if low else 'keeps'}"


def main() -> None:
    """Print a row for each dead time."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dead_times", nargs="+", type=int, default=range(6), help="rollouts; by default 0 to 5")
    parser.add_argument("--proportional", type=float, default=3.0)
    parser.add_argument("--integral", type=float, default=0.3)
    parser.add_argument("--verbose", action="store_true", help="name what is missed")
    given = parser.parse_args()
    print("| dead time, rollouts | missed, of 120 |\n|---|---|")
    for dead in given.dead_times:
        found = list(missed(dead, proportional=given.proportional, integral=given.integral))
        print(f"| {dead} | {len(found)} |", *(f"\n  {line}" for line in found if given.verbose), sep="", flush=True)


if __name__ == "__main__":
    main()
