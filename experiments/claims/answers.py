"""How a claim is answered from published runs: the parts that both papers' claims share."""

from collections.abc import Callable

from measured import ROOT, Estimate, ProtocolRuns, Published, ShortRuns, ToolRuns

CLAIMS = ROOT / "docs/claims"
SHORT = ShortRuns(CLAIMS / "short_runs.json")
ONE_STEP, FIRST = Published(CLAIMS / "one_step.json"), Published(CLAIMS / "first_runs.json")
PROTOCOL = ProtocolRuns(ROOT / "docs/evidence/countdown")
TOOLS = ToolRuns(CLAIMS / "tools.json")

ACCURACY, PASS = ("top-p 0.7", "accuracy"), ("T=1", "pass@16")
MEASURES = {ACCURACY: "accuracy, top-p 0.7", PASS: "pass@16, temperature 1"}
"""What the first long runs call a measure, and what those of the protocol call it."""
SAMPLED = "GRPO, dynamic sampling"
YES, NO, PART, OPEN = "**yes**", "**no**", "in part", "not decided"
SMALL = "at most the margin"
LATER = "no run yet"

Answer = tuple[str, str]
"""The answer, and the numbers behind it."""
Claim = tuple[str, str, Callable[[], Answer]]
"""The claim in our words, where the paper makes it, and what answers it."""


def entropy(*arms: str, baseline: str = "GRPO") -> list[tuple[str, Estimate]]:
    """Final entropies against the baseline's, of the arms that have runs."""
    found = ((arm, SHORT.difference(arm, baseline)) for arm in arms)
    return [(arm, value) for arm, value in found if value is not None]


def listed(values: list[tuple[str, Estimate]]) -> str:
    """Name and number of each."""
    return ", ".join(f"{name} {value}" for name, value in values)


def all_have(values: list[tuple[str, Estimate]], sign: int) -> str:
    """Yes if every interval lies on that side of 0, in part if some do, no if only the other side has any."""
    signs = [value.sign for _, value in values]
    if sign in signs:
        return YES if all(found == sign for found in signs) else PART
    return NO if -sign in signs else OPEN


def moved(sign: int, *arms: str, baseline: str = "GRPO") -> Answer:
    """Whether the arms end with more (1) or less (-1) entropy than the baseline."""
    values = entropy(*arms, baseline=baseline)
    if not values:
        return OPEN, LATER
    answer = all_have(values, sign)
    if answer == OPEN and all(value.is_none for _, value in values):
        answer = SMALL
    return answer, f"against {baseline}: {listed(values)}"


def of_long_runs(arm: str, metric: tuple[str, str], baseline: str = SAMPLED) -> Answer:
    """Whether an arm has more than the baseline at equal tokens: the protocol's runs decide, the first are named."""
    tuned, first = (
        PROTOCOL.difference(arm, baseline, MEASURES[metric]),
        FIRST.get(f"{arm} against {baseline}: {' '.join(metric)}"),
    )
    found = [(name, value) for name, value in (("", tuned), ("in the first runs, untuned,", first)) if value]
    if not found:
        return OPEN, LATER
    text = "; ".join(f"{name} {value}".strip() for name, value in found)
    return all_have(found[:1], 1), f"{' '.join(metric)} against {baseline}: {text}"


def same_entropy(baseline: str, *arms: str) -> Answer:
    """Settings that are said to make no difference: all within the margin, or one of them outside of zero."""
    values = entropy(*arms, baseline=baseline)
    if not values:
        return OPEN, LATER
    same = all(value.is_none for _, value in values)
    differs = any(value.sign for _, value in values)
    return YES if same else NO if differs else OPEN, f"against {baseline}: {listed(values)}"


def no_measure(why: str) -> Callable[[], Answer]:
    """A claim that nothing here can decide."""
    return lambda: (OPEN, why)
