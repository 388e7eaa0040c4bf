"""How a claim is judged: one rule for each kind of statement, and one that joins a claim's parts."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from experiments.claims.measured import Data, Estimate

MARGIN, POINT = 0.024, 0.01
"""What counts as no difference: nats per token, a fifth of what GRPO loses in a short run; a share of problems."""
SAMPLED = "GRPO, dynamic sampling"
YES, NO, PART, OPEN = "**yes**", "**no**", "in part", "not decided"

Values = Mapping[str, Estimate]


class Finding(NamedTuple):
    """The parts of a claim, each 1 (as claimed), -1 (against it) or 0 (not decided), and the numbers behind them."""

    parts: tuple[int, ...]
    text: str

    def also(self, other: "Finding") -> "Finding":
        """With further parts of the claim."""
        return Finding(self.parts + other.parts, f"{self.text}; {other.text}")

    def remark(self, text: str) -> "Finding":
        """With numbers that decide nothing."""
        return Finding(self.parts, f"{self.text}; {text}")

    @property
    def verdict(self) -> str:
        """Yes if all is as claimed, in part if some is; no if something is against it and nothing for it."""
        if 1 in self.parts:
            return YES if set(self.parts) == {1} else PART
        return NO if -1 in self.parts else OPEN


class Claim(NamedTuple):
    """A claim in our words, where the paper makes it, and what is found."""

    words: str
    source: str
    finding: Finding


def listed(values: Values) -> str:
    """Name and number of each, and the runs of those before where the next has others."""
    texts = [f"{name} {value.mean:+.3f}±{value.half:.3f}".strip() for name, value in values.items()]
    runs = [f" ({value.runs})" for value in values.values()]
    return ", ".join(
        text + (now if now != after else "") for text, now, after in zip(texts, runs, [*runs[1:], ""], strict=True)
    )


def more(what: str, values: Values, sign: int = 1) -> Finding:
    """A difference, or a correlation: the interval lies on the side of zero that the claim says."""
    found = Finding(tuple(sign * value.sign for value in values.values()), f"{what}: {listed(values)}")
    bound = max(value.bound for value in values.values())
    return found.remark(f"at most {bound:.3f}") if bound <= MARGIN and not any(found.parts) else found


def same(what: str, values: Values, margin: float = MARGIN) -> Finding:
    """No difference: yes if the interval lies within the margin, no if it does not and excludes zero."""
    parts = (1 if value.bound <= margin else -abs(value.sign) for value in values.values())
    return Finding(tuple(parts), f"{what}: {listed(values)}")


def matters(what: str, values: Values) -> Finding:
    """That there is a difference, of whichever sign."""
    parts, text = same(what, values)
    return Finding(tuple(-part for part in parts), text)


def keeps(trends: Values) -> Finding:
    """A trend: the run's own entropy does not fall (no if it does, yes if not and by the margin at worst)."""
    parts = (-1 if value.sign == -1 else int(value.mean - value.half >= -MARGIN) for value in trends.values())
    return Finding(tuple(parts), f"trend: {listed(trends)}")


def falls(trends: Values) -> Finding:
    """The opposite."""
    parts, text = keeps(trends)
    return Finding(tuple(-part for part in parts), text)


def order(what: str, steps: Sequence[Estimate]) -> Finding:
    """An order: of each pair, how much the one that is claimed to be larger exceeds the other."""
    parts = tuple(step.sign for step in steps)
    decided = f"{parts.count(1)} of {len(parts)} as claimed, {parts.count(-1)} against"
    return Finding(parts, f"{what}: {decided} ({steps[0].runs})")


def no_run(why: str) -> Finding:
    """A claim that nothing here can decide."""
    return Finding((), why)


def long_runs(data: Data, arm: str, measure: str, baseline: str = SAMPLED) -> Finding:
    """Whether an arm has more at equal tokens: the protocol's runs decide, else the untuned first ones."""
    what = f"{measure} against {baseline}"
    untuned = data.first[f"{arm} against {baseline}: {measure}"]
    tuned = data.protocol.difference(arm, baseline, measure)
    if tuned is None:
        return more(f"{what}, untuned", {"": untuned})
    return more(what, {"": tuned}).remark(f"untuned {untuned}")
