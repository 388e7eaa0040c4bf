"""Analyses the published files of a block of protocol 4, start by start.

solved       the share of the test problems that k tries solve, by the unbiased estimator of pass@k, in per cent
different    the mean number of different correct answers of 16
a start      counts once. If it has two runs, its value is the mean of both
difference   between two arms, paired by start and run; its interval is Student's t over starts
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from pathlib import Path
from statistics import mean
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from experiments.dial.analysis import Interval, over_starts, pass_at
from experiments.lab.published import DIGITS, entropies_of
from experiments.lab.runs import START
from experiments.letgo import published
from experiments.letgo.plan import BASELINE, NAMED, Plan, block_units, unit_name
from experiments.letgo.runs import differences

SAMPLES = 16
SAMPLINGS = {"t0.25": "T = 0.25", "t0.5": "T = 0.5", "t1": "T = 1"}
"""Maps the name of a sampling to how it is shown."""
STOPPED_EARLY = ", stopped early"
"""Added to an arm's name, it names the arm's checkpoint that is best on validation problems."""
TOLERANCE = 0.1
"""How far from its level the entropy is still held, as a share of the level."""
BOUND = 3.0
"""The largest strength of `hold_entropy` with STARE's C2."""
Array = NDArray[np.float64]


@dataclass(frozen=True)
class Model:
    """A published model: a start model, a model at the end of a run, or a checkpoint."""

    record: dict[str, Any]
    split: str = "test"

    def solved(self, sampling: str, k: int) -> float:
        """Return the share of the problems that is solved in `k` tries, in per cent."""
        return 100 * float(self.solved_by_problem(sampling, k).mean())

    def solved_by_problem(self, sampling: str, k: int) -> Array:
        """Return pass@k of every problem."""
        return pass_at(SAMPLES, k)[self._counts(sampling, "correct")]

    def different(self, sampling: str) -> float:
        """Return the mean number of different correct answers of 16."""
        return float(self._counts(sampling, "distinct").mean())

    @cached_property
    def at_equal_steps(self) -> "Model | None":
        """The checkpoint nearest to the baseline's number of steps, if it was evaluated."""
        return Model(self.record["at_equal_steps"]) if "at_equal_steps" in self.record else None

    def fallen(self, step: int) -> float:
        """Return which share of its fall the level had fallen, in the rollout that a step was on."""
        rollouts, settings = self.record["rollouts"], self.record["settings"]
        pairs = zip(rollouts["step"], rollouts["hold_entropy/target"], strict=True)
        *_, target = [target for of, target in pairs if of <= step and target is not None]
        level = max(target for target in rollouts["hold_entropy/target"] if target is not None)
        final = settings["hold_entropy_final"] / settings["hold_entropy"]
        return float((1 - target / level) / (1 - final))

    @property
    def steps(self) -> float:
        """The number of optimizer steps."""
        return float(self.record["steps"])

    @property
    def tokens(self) -> float:
        """The number of generated tokens."""
        return float(self.record["generated_tokens"])

    @property
    def seconds(self) -> float:
        """The seconds of the training, since it was last resumed."""
        return float(self.record["seconds"])

    def tokens_per_trained_token(self, from_share: float = 0.0) -> float:
        """Return how many tokens were generated for each token that was trained on, after a share of the tokens."""
        rollouts = self.record["rollouts"]
        totals = rollouts["generated_tokens"]
        of_rollout = [total - before for total, before in zip(totals, [0, *totals], strict=False)]
        ratios = rollouts["dynamic_sampling/tokens_per_trained_token"]
        late = [
            (tokens, tokens / ratio)
            for tokens, ratio, total in zip(of_rollout, ratios, totals, strict=True)
            if total > from_share * totals[-1] and ratio is not None
        ]
        return sum(tokens for tokens, _ in late) / sum(trained for _, trained in late)

    def entropy_by_sixths(self) -> list[float]:
        """Return the mean entropy of the rollouts in each sixth of the tokens, in nats."""
        rollouts = self.record["rollouts"]
        totals = rollouts["generated_tokens"]
        pairs = [pair for pair in zip(totals, entropies_of(rollouts), strict=True) if pair[1] is not None]
        sixth = [min(int(6 * total / totals[-1]), 5) for total, _ in pairs]
        return [mean(value for (_, value), at in zip(pairs, sixth, strict=True) if at == i) for i in range(6)]

    def held(self) -> tuple[float, float]:
        """Return the shares of the held part in which the level was kept, and in which the strength was at its bound.

        The held part begins when the entropy has first come down to the level, and ends where the level falls.
        """
        rollouts = self.record["rollouts"]
        end = self.record["settings"]["hold_entropy_decay_start"] * rollouts["generated_tokens"][-1]
        of_hold = [rollouts[f"hold_entropy/{key}"] for key in ("target", "strength")]
        columns = (rollouts["generated_tokens"], entropies_of(rollouts), *of_hold)
        rows = [row for row in zip(*columns, strict=True) if row[0] <= end and None not in row]
        below = [i for i, (_, entropy, target, _) in enumerate(rows) if entropy <= (1 + TOLERANCE) * target]
        part = rows[below[0] :] if below else []
        if not part:
            return float("nan"), float("nan")
        kept = mean(abs(entropy / target - 1) <= TOLERANCE for _, entropy, target, _ in part)
        return kept, mean(strength >= 0.999 * BOUND for _, _, _, strength in part)

    def _counts(self, sampling: str, key: str) -> NDArray[np.int64]:
        column = self.record["evaluations"][sampling]["benchmarks"][self.split][key]
        return np.array([int(digit, len(DIGITS)) for digit in column])


Measure = Callable[[Model], float]
"""A number computed from a model."""


class Block:
    """The published units of a block, with those of the block beside it. Only a unit with all of its arms counts.

    Attributes:
        arms (`list[str]`): the arms, and those that are also judged where they would have been stopped early.
        claims (`list[Claim]`): the registered sentences.
        planned (`list`), units (`dict`): the starts and runs of the plan, and the models of those that are there.
    """

    def __init__(self, plan: Plan, name: str, folder: Path) -> None:
        self.name = name
        block = plan["blocks"][name]
        of_blocks = [block["beside"], name] if "beside" in block else [name]
        trained: list[str] = [arm for of in of_blocks for arm in plan["blocks"][of]["arms"]]
        stopped = [arm for arm in trained if arm in block.get("stop_early", {}).get("arms", ())]
        self.arms = trained + [f"{arm}{STOPPED_EARLY}" for arm in stopped]
        self.claims = [CLAIMS[i] for i in block.get("claims", ())]
        self.planned = sorted(block_units(plan, name))
        self.units: dict[tuple[int, int], dict[str, Model]] = {}
        for start, run in self.planned:
            records = {}
            for of in of_blocks:
                records |= published.read_unit(folder, unit_name(of, start, run))
            if set(trained) <= set(records):
                refuse_unequal(records)
                models = {arm: Model(record) for arm, record in records.items()}
                models |= {f"{arm}{STOPPED_EARLY}": Model(records[arm]["stopped_early"]) for arm in stopped}
                self.units[start, run] = models

    @property
    def is_whole(self) -> bool:
        """Whether all units of the plan are there."""
        return len(self.units) == len(self.planned)

    @property
    def starts(self) -> list[int]:
        """The starts that have a whole unit."""
        return sorted({start for start, _ in self.units})

    def models(self, arm: str, start: int) -> list[Model]:
        """Return the models of an arm from a start, one for each run."""
        return [arms[arm] for (of, _), arms in sorted(self.units.items()) if of == start]

    def values(self, arm: str, measure: Measure, starts: Sequence[int] | None = None) -> list[float]:
        """Return the measure of an arm for each start, or for each of some starts."""
        return [mean(measure(model) for model in self.models(arm, start)) for start in starts or self.starts]

    def difference(self, arm: str, than: str, measure: Measure) -> list[float]:
        """Return the measure of `arm` less that of `than`, for each start."""
        sides = zip(self.values(arm, measure), self.values(than, measure), strict=True)
        return [ours - theirs for ours, theirs in sides]

    def spread_of_runs(self, arm: str, measure: Measure) -> float | None:
        """Return the standard deviation between runs from one start, from the starts that have two."""
        pairs = [[measure(model) for model in self.models(arm, start)] for start in self.starts]
        squares = [(pair[0] - pair[1]) ** 2 / 2 for pair in pairs if len(pair) == 2]
        return mean(squares) ** 0.5 if squares else None


def refuse_unequal(records: Mapping[str, dict[str, Any]]) -> None:
    """Raise `ValueError` if runs of a unit differ in their start, processor or first rollout."""
    first, *others = (record for arm, record in records.items() if arm != START)
    for other in others:
        if found := differences(first, other):
            raise ValueError(f"{other['arm']}, start {other['start']} cannot be compared: {', '.join(found)}")


def solved(sampling: str, k: int) -> Measure:
    """Return the measure of what is solved in `k` tries, in per cent."""
    return lambda model: model.solved(sampling, k)


class Claim(NamedTuple):
    """A registered sentence: the named form's `arm` less `than` in `k` tries is above `margin`, in points."""

    sentence: str
    than: str
    sampling: str
    k: int
    margin: float = 0.0


EARLY = f"{BASELINE}{STOPPED_EARLY}"
CLAIMS = (
    Claim("at temperature 1, 16 tries solve more than GRPO's", BASELINE, "t1", 16),
    Claim("at temperature 1, 16 tries solve more than F-GRPO's", "F-GRPO", "t1", 16),
    Claim("at temperature 1, 16 tries solve more than those of the KL penalty", "KL 0.03", "t1", 16),
    Claim("at temperature 1, one try is not lower than GRPO's by 1.5 points", BASELINE, "t1", 1, -1.5),
    Claim("at temperature 0.25, one try solves more than GRPO's", BASELINE, "t0.25", 1),
    Claim("at temperature 1, 16 tries solve more than GRPO's stopped early", EARLY, "t1", 16),
    Claim("at temperature 1, one try is not lower by 1.5 points than GRPO's stopped early", EARLY, "t1", 1, -1.5),
)


class Verdict(NamedTuple):
    """What became of a claim."""

    interval: Interval
    holds: bool
    p: float
    """Two-sided, for a difference that is equal to the margin; 1 if it is on the wrong side."""


def judge(block: Block, arm: str, claim: Claim) -> Verdict:
    """Judge a claim by the whole starts of a block."""
    differences = block.difference(arm, claim.than, solved(claim.sampling, claim.k))
    interval = over_starts(differences)
    beyond = over_starts([one - claim.margin for one in differences])
    return Verdict(interval, interval.low > claim.margin, beyond.p if beyond.mean > 0 else 1.0)


class Mixture(NamedTuple):
    """The best mixture of an arm with its start: how many tries go to the arm, the samplings, and what is solved."""

    tries: int
    sampling: str
    sampling_of_start: str
    solved: list[float]


def best_mixture(block: Block, arm: str, samplings: Sequence[str]) -> Mixture:
    """Return the mixture of 16 tries that solves most, for the mean over starts, chosen on the problems judged by."""
    options = product(range(SAMPLES + 1), samplings, samplings)
    return max((_mixture(block, arm, *option) for option in options), key=lambda one: round(mean(one.solved), 9))


def _mixture(block: Block, arm: str, tries: int, sampling: str, sampling_of_start: str) -> Mixture:
    values = []
    for start in block.starts:
        pairs = zip(block.models(arm, start), block.models(START, start), strict=True)
        values.append(mean(_mixed(*pair, tries, sampling, sampling_of_start) for pair in pairs))
    return Mixture(tries, sampling, sampling_of_start, values)


def _mixed(model: Model, start: Model, tries: int, sampling: str, sampling_of_start: str) -> float:
    failed = 1 - model.solved_by_problem(sampling, tries)
    failed_too = 1 - start.solved_by_problem(sampling_of_start, SAMPLES - tries)
    return 100 * float(1 - (failed * failed_too).mean())


WITH_F_GRPO = f"F-GRPO and {NAMED}"
SIMPLE_FIRST = (EARLY, "KL 0.03", NAMED, "F-GRPO", WITH_F_GRPO)
"""The arms that can be advised: the simplest first, and those that need to know what is correct after the others."""
NEED_CORRECT = SIMPLE_FIRST[3:]
LARGEST_LOSS = 1.5


def passing(block: Block, arms: Sequence[str]) -> list[str]:
    """Return those `arms` that at temperature 1 are not behind the best of them in 16 tries, and lose less than 1.5
    points in one.

    *Not behind* means that the interval of the difference reaches 0.
    """
    many = solved("t1", SAMPLES)
    arms = [arm for arm in arms if arm in block.arms]
    best = max(arms, key=lambda arm: mean(block.values(arm, many)))
    found = []
    for arm in arms:
        behind = over_starts(block.difference(arm, best, many))
        loss = over_starts(block.difference(arm, BASELINE, solved("t1", 1)))
        if (arm == best or behind.high >= 0) and loss.low > -LARGEST_LOSS:
            found.append(arm)
    return found


def advised(block: Block) -> tuple[str | None, str | None]:
    """Return the arm that the protocol's rules advise, and the one that they advise where nothing knows what is
    correct. `None` stands for no arm.

    An arm that needs to know what is correct must be ahead of the one that is advised without it, if there is one.
    """
    without = next(iter(passing(block, [arm for arm in SIMPLE_FIRST if arm not in NEED_CORRECT])), None)
    for arm in passing(block, SIMPLE_FIRST):
        is_ahead = without is None or over_starts(block.difference(arm, without, solved("t1", SAMPLES))).low > 0
        if arm in NEED_CORRECT and is_ahead:
            return arm, without
    return without, without
