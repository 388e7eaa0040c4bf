"""Tests the entropy regulator on synthetic policies whose entropy reacts late to the strength.

    python experiments/regulator.py
    python experiments/regulator.py --random 120 --seed 1    # random policies, on which nothing was tuned
    python experiments/regulator.py --prompts 1 4 8          # rollouts of few prompts

The dead time is the number of rollouts until a strength begins to act. For every dead time the table counts the missed
levels in 60 combinations: ten policies whose reaction to a strength is known, each with three constant and three
falling target levels. A level counts as held if, after the first 80 of 400 rollouts, the mean distance from it is at
most 5 % and 90 % of the rollouts are within 10 % of it.

With `--prompts`, a rollout has fewer than 32 prompts. The entropy of a rollout of g prompts then varies by
0.05 sqrt(32 / g), and a rollout changes the policy by a share of what it changes with 32 prompts: by g / 32 and, for
one or four prompts, also by four times as much, as with one optimizer step for each rollout instead of four for 64
prompts. A run has more rollouts in proportion, and a level counts as held if the mean distance is at most 10 %.

With `--random`, a policy gains 0.03 to 0.2 of log-entropy per rollout for a strength of 1 (its authority). Its noise
is up to 5 % and its momentum up to 0.7. Its drift is constant, oscillates or changes once. The level is constant or
falls. Policies are drawn so that at each moment the strength that would hold the level lies between 0 and three
quarters of the bound.
"""

import argparse
import math
import random
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any, NamedTuple

from steer_trl.functional import EntropyRegulator

ROLLOUTS, SETTLED = 400, 80
# The change of the log-entropy per rollout, without a strength and per unit of the strength.
DRIFT, AUTHORITY = -0.02, 0.05
TARGETS = (0.8, 0.65, 0.5)  # for an initial entropy of 1
# The first level, the last level, and the share of training after which the level begins to fall.
FALLING = ((0.8, 0.4, 0.6), (0.5, 0.25, 0.6), (0.65, 0.2, 0.3))
LEVELS = (*((target, target, 0.6) for target in TARGETS), *FALLING)
PLANTS: list[dict[str, Any]] = [
    {},
    {"noise": 0.05},
    {"slow": 0.7},
    {"slow": 0.7, "noise": 0.05},
    {"drift": lambda step: -0.03 + 0.02 * math.sin(step / 40)},  # an oscillating pull downwards
    {"drift": lambda step: -0.01 if step < 150 else -0.04},  # one sudden change
    {"authority": 0.03},
    {"authority": 0.2},
    {"drift": -0.023, "authority": 0.13, "noise": 0.03},  # fitted to runs of the laptop task
    {"drift": -0.06, "authority": 0.13, "noise": 0.03, "slow": 0.7},
]


def hold(
    regulator: EntropyRegulator,
    steps: int = ROLLOUTS,
    drift: float | Callable[[float], float] = DRIFT,
    authority: float = AUTHORITY,
    noise: float = 0.0,
    start: float = 1.0,
    slow: float = 0.0,
    dead: int = 0,
    seed: int = 0,
) -> list[float]:
    """Return the entropies of a policy whose log-entropy changes by `drift + authority * strength` per rollout.

    With momentum, a share `slow` of each rollout's change carries over to the next one. A strength begins to act
    `dead` rollouts after it is set. The regulator sees the entropies with noise.
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


def distances(level: tuple[float, float, float], **plant: Any) -> list[float]:
    """Return each rollout's relative distance from the current level, after the first `SETTLED` rollouts."""
    start, final, decay_start = level
    regulator = EntropyRegulator(start, 1.0, final=final, release_start=decay_start)
    entropies = hold(regulator, **plant)
    return [abs(entropies[k] / regulator.path.at(k / ROLLOUTS) - 1) for k in range(SETTLED, ROLLOUTS)]


def distances_of_few(level: tuple[float, float, float], prompts: int, share: float, **plant: Any) -> list[float]:
    """Return the distances of a policy whose rollouts have `prompts` prompts and `share` of the usual effect."""
    start, final, decay_start = level
    rollouts = round(ROLLOUTS / share)
    regulator = EntropyRegulator(start, 1.0, final=final, release_start=decay_start, groups_per_rollout=prompts)
    drift = plant.get("drift", DRIFT)
    slower = {
        "noise": 0.05 * math.sqrt(32 / prompts),
        "authority": share * plant.get("authority", AUTHORITY),
        "drift": lambda step: share * (drift(step * share) if callable(drift) else drift),
    }
    entropies = hold(regulator, rollouts, **plant | slower)
    first = round(SETTLED / share)
    return [abs(entropies[k] / regulator.path.at(k / rollouts) - 1) for k in range(first, rollouts)]


def shares(prompts: int) -> set[float]:
    """Return by how much less a rollout of so few prompts changes the policy."""
    return {prompts / 32} | ({prompts / 8} if prompts <= 4 else set())


def missed_of_few(prompts: int, asked: list["Combination"]) -> Iterator[str]:
    """Yield a description of each combination whose level is missed with rollouts of `prompts` prompts."""
    for share in sorted(shares(prompts)):
        for name, plant, level in asked:
            errors = distances_of_few(level, prompts, share, **plant)
            if sum(errors) > 0.1 * len(errors):
                yield f"{name}, share {share:.3g}, level {level[0]:.3g} to {level[1]:.3g}"


def is_held(errors: list[float]) -> bool:
    """Return whether the mean of the distances is at most 5 % and 90 % of them are within 10 %."""
    return sum(errors) <= 0.05 * len(errors) and sum(error <= 0.1 for error in errors) >= 0.9 * len(errors)


class Combination(NamedTuple):
    """A policy, and the level at which its entropy is to be held."""

    name: str
    plant: dict[str, Any]
    level: tuple[float, float, float]


def combinations() -> Iterator[Combination]:
    """Yield the combinations of the table in the documentation."""
    for (number, plant), level in product(enumerate(PLANTS, 1), LEVELS):
        yield Combination(f"plant {number}", plant, level)


def random_combinations(count: int, seed: int) -> Iterator[Combination]:
    """Yield `count` random combinations."""
    rng, found = random.Random(seed), 0
    while found < count:
        authority = math.exp(rng.uniform(math.log(0.03), math.log(0.2)))
        mean = -rng.uniform(0.1, 0.75) * authority
        start, final = rng.uniform(0.4, 0.85), rng.choice((1.0, rng.uniform(0.3, 0.7)))
        level = (start, start * final, rng.uniform(0.3, 0.7))
        kind, drift = _random_drift(rng, mean)
        plant = {"authority": authority, "noise": rng.uniform(0, 0.05), "slow": rng.choice((0.0, rng.uniform(0, 0.7)))}
        number = rng.randrange(10**6)
        if _can_be_held(level, drift, authority):
            found += 1
            yield Combination(f"{found}, {kind} drift", plant | {"drift": drift, "seed": number}, level)


def _random_drift(rng: random.Random, mean: float) -> tuple[str, Callable[[int], float]]:
    swing, period, phase = rng.uniform(0, 0.8), rng.uniform(15, 80), rng.uniform(0, 2 * math.pi)
    after, moment = rng.uniform(0.3, 3), rng.randrange(SETTLED, 300)
    return rng.choice(
        [
            ("constant", lambda step: mean),
            ("swinging", lambda step: mean * (1 + swing * math.sin(step / period + phase))),
            ("stepping", lambda step: mean if step < moment else mean * after),
        ]
    )


def _can_be_held(level: tuple[float, float, float], drift: Callable[[int], float], authority: float) -> bool:
    """Return whether the entropy falls to the level in 60 rollouts, and a strength in [0, 3/4] can then hold it."""
    of = EntropyRegulator(level[0], 1.0, final=level[1], release_start=level[2]).path.at
    needed = [
        (math.log(of((k + 1) / ROLLOUTS) / of(k / ROLLOUTS)) - drift(k)) / authority for k in range(60, ROLLOUTS - 1)
    ]
    return sum(map(drift, range(60))) < math.log(level[0]) and min(needed) >= 0 and max(needed) <= 0.75


def missed(dead: int, asked: list[Combination]) -> Iterator[str]:
    """Yield a description of each combination whose level is missed at a dead time."""
    for name, plant, level in asked:
        if not is_held(distances(level, dead=dead, **plant)):
            yield f"{name}, level {level[0]:.3g} to {level[1]:.3g}"


def main() -> None:
    """Print a row for each dead time."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dead_times", nargs="+", type=int, default=range(6), help="rollouts; by default 0 to 5")
    parser.add_argument("--random", type=int, metavar="NUMBER", help="so many combinations drawn at random instead")
    parser.add_argument("--seed", type=int, default=0, help="of what is drawn")
    parser.add_argument("--verbose", action="store_true", help="name what is missed")
    parser.add_argument("--prompts", nargs="+", type=int, help="of a rollout, fewer than 32")
    given = parser.parse_args()
    asked = list(random_combinations(given.random, given.seed) if given.random else combinations())
    if given.prompts:
        print("| prompts of a rollout | missed | of |\n|---|---|---|")
        for prompts in given.prompts:
            found = list(missed_of_few(prompts, asked))
            details = [f"\n  {line}" for line in found if given.verbose]
            print(f"| {prompts} | {len(found)} | {len(asked) * len(shares(prompts))} |", *details, sep="")
        return
    print(f"| dead time, rollouts | missed, of {len(asked)} |\n|---|---|")
    for dead in given.dead_times:
        found = list(missed(dead, asked))
        print(f"| {dead} | {len(found)} |", *(f"\n  {line}" for line in found if given.verbose), sep="", flush=True)


if __name__ == "__main__":
    main()
