"""The rules for judging claims: one for each kind of statement, and one that combines the parts of a claim."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from experiments.claims.measured import Data, Estimate

MARGIN, POINT = 0.024, 0.01
"""The largest differences that count as none: in entropy and in the share of solved problems.

The first is in nats per token, and is a fifth of the entropy that GRPO loses in a short run.
"""
SAMPLED = "GRPO, dynamic sampling"
YES, NO, PART, OPEN = "**yes**", "**no**", "in part", "not decided"

Values = Mapping[str, Estimate]


class Finding(NamedTuple):
    """The parts of a claim, each 1 (as claimed), -1 (against it) or 0 (not decided), and the numbers behind them."""

    parts: tuple[int, ...]
    text: str

    def also(self, other: "Finding") -> "Finding":
        """Return the finding with the parts and the text of another one added."""
        return Finding(self.parts + other.parts, f"{self.text}; {other.text}")

    def remark(self, text: str) -> "Finding":
        """Return the finding with a text added that does not affect the verdict."""
        return Finding(self.parts, f"{self.text}; {text}")

    @property
    def verdict(self) -> str:
        """The verdict on the claim.

        It is yes if all parts are as claimed and in part if some are. It is no if none is as claimed and some are
        against it. Otherwise the claim is not decided.
        """
        if 1 in self.parts:
            return YES if set(self.parts) == {1} else PART
        return NO if -1 in self.parts else OPEN


class Claim(NamedTuple):
    """A claim in our words, its place in the paper, and our finding."""

    words: str
    source: str
    finding: Finding


def listed(values: Values) -> str:
    """Return names and numbers as text. The number of runs follows the last of several that share it."""
    texts = [f"{name} {value.mean:+.3f}±{value.half:.3f}".strip() for name, value in values.items()]
    runs = [f" ({value.runs})" for value in values.values()]
    return ", ".join(
        text + (now if now != after else "") for text, now, after in zip(texts, runs, [*runs[1:], ""], strict=True)
    )


def more(what: str, values: Values, sign: int = 1) -> Finding:
    """Judge a difference or a correlation: its interval must lie on the side of zero that the claim names."""
    found = Finding(tuple(sign * value.sign for value in values.values()), f"{what}: {listed(values)}")
    bound = max(value.bound for value in values.values())
    return found.remark(f"at most {bound:.3f}") if bound <= MARGIN and not any(found.parts) else found


def same(what: str, values: Values, margin: float = MARGIN) -> Finding:
    """Judge that there is no difference.

    The answer is yes if the interval is within the margin, and no if it is not and excludes zero.
    """
    parts = (1 if value.bound <= margin else -abs(value.sign) for value in values.values())
    return Finding(tuple(parts), f"{what}: {listed(values)}")


def matters(what: str, values: Values) -> Finding:
    """Judge that there is a difference of either sign."""
    parts, text = same(what, values)
    return Finding(tuple(-part for part in parts), text)


def keeps(trends: Values) -> Finding:
    """Judge that the entropy of a run does not fall.

    The answer is no if it falls, and yes if it does not and the interval excludes a fall by more than the margin.
    """
    parts = (-1 if value.sign == -1 else int(value.mean - value.half >= -MARGIN) for value in trends.values())
    return Finding(tuple(parts), f"trend: {listed(trends)}")


def falls(trends: Values) -> Finding:
    """Judge that the entropy of a run falls, by the rule of [`keeps`]."""
    parts, text = keeps(trends)
    return Finding(tuple(-part for part in parts), text)


def order(what: str, steps: Sequence[Estimate]) -> Finding:
    """Judge an order. `steps` has, for each pair, by how much the one claimed to be larger exceeds the other."""
    parts = tuple(step.sign for step in steps)
    decided = f"{parts.count(1)} of {len(parts)} as claimed, {parts.count(-1)} against"
    return Finding(parts, f"{what}: {decided} ({steps[0].runs})")


def no_run(why: str) -> Finding:
    """Return the finding for a claim that none of our runs can decide."""
    return Finding((), why)


def long_runs(data: Data, arm: str, measure: str, baseline: str = SAMPLED) -> Finding:
    """Judge whether a measure is higher for an arm than for the baseline, at equal numbers of tokens.

    The runs of the protocol decide. If there are none, the first, untuned runs do.
    """
    what = f"{measure} against {baseline}"
    untuned = data.first[f"{arm} against {baseline}: {measure}"]
    tuned = data.protocol.difference(arm, baseline, measure)
    if tuned is None:
        return more(f"{what}, untuned", {"": untuned})
    return more(what, {"": tuned}).remark(f"untuned {untuned}")
