"""The page of the published runs: what we conclude, how well entropy was held, what was learned at equal entropy.

The first part, `findings.md`, is written by hand from the tables, which are made of the published runs alone.
Intervals are 95 %, Student's t over seeds. Seeds of two arms share the data's order until dynamic sampling reads it at
another pace, so beside the differences that are paired by seed stands Welch's interval, which pairs nothing.
"""

from collections.abc import Callable, Iterable
from pathlib import Path
from statistics import mean

from arms import RESAMPLED
from measures import (
    QUADRANTS,
    SETTLED,
    Run,
    at_tokens,
    entropy_at_tokens,
    held_error,
    interval,
    judged,
    load,
    settling,
    welch,
)

from steer_trl.evaluation.summary import markdown_table

BASELINE = "GRPO"
SHARES = (0.5, 1.0)
"""Of the shorter run's tokens, where runs of different lengths are compared."""

FINDINGS = Path(__file__).parent / "findings.md"
JUDGED = {
    "accuracy, top-p 0.7": ("top-p 0.7", "accuracy"),
    "accuracy, greedy": ("greedy", "accuracy"),
    "accuracy, T=1": ("T=1", "accuracy"),
    "pass@16, T=1": ("T=1", "pass@16"),
    "distinct, T=1": ("T=1", "distinct"),
}
SAMPLED = ("accuracy, top-p 0.7", "accuracy, greedy", "pass@16, T=1")
COURSE = (("top-p 0.7", "accuracy"), ("T=1", "pass@16"))

Arms = dict[str, list[Run]]


def page(folder: Path) -> str:
    """The page in Markdown."""
    arms = load(folder)
    plain = {arm: runs for arm, runs in arms.items() if not arm.endswith(RESAMPLED)}
    resampled = {arm: runs for arm, runs in arms.items() if arm.endswith(RESAMPLED)}  # of fewer optimizer steps
    parts = [
        _held(arms),
        _like_for_like(arms),
        _sampled(arms),
        _learned("## What was learned with dynamic sampling", resampled, BASELINE + RESAMPLED),
        _learned("## What was learned without dynamic sampling", plain, BASELINE),
        _courses(plain),
        _predicted(arms),
    ]
    return "\n\n".join([FINDINGS.read_text().strip(), *filter(None, parts)]) + "\n"


def _held(arms: Arms) -> str:
    rows = []
    for arm, runs in arms.items():
        if errors := [error for run in runs if (error := held_error(run)) is not None]:
            times = [time for run in runs if (time := settling(run)) is not None]
            rows.append(
                [
                    arm,
                    str(len(runs)),
                    ", ".join(f"{error:.1%}" for error, _ in errors),
                    ", ".join(f"{share:.0%}" for _, share in errors),
                    f"{mean(times):.0f}" if times else "never",
                ]
            )
    text = (
        f"## How well the entropy was held\n\nAfter {SETTLED} rollouts, one number per seed: the mean distance from "
        "the target as a share of it, and the share of rollouts within 10 %. Then the rollouts until it was first "
        "within 10 %, mean of seeds.\n\n"
    )
    return text + markdown_table(["", "seeds", "mean error", "within 10 %", "settled after"], rows)


def _learned(title: str, arms: Arms, baseline: str) -> str:
    rows = []
    for arm, runs in arms.items():
        entropies = [mean(e["entropy"] for e in run["log"][-20:]) for run in runs]
        tokens = mean(run["log"][-1]["num_tokens"] for run in runs) / 1e6
        cells = [arm, str(len(runs)), f"{tokens:.2f}", f"{mean(entropies):.3f}"]
        others = [] if arm == baseline else arms.get(baseline, [])
        cells += [_cell(runs, others, lambda run, m=metric: judged(run, m)) for metric in JUDGED.values()]
        rows.append(cells)
    text = (
        f"{title}\n\nAt the end of each run: millions of tokens of all rollouts, kept and dropped; entropy of the "
        "last twenty rollouts, nats per token; then the mean over seeds and, in brackets, the difference from "
        f"{baseline} after as many optimizer steps, with its 95 % interval over paired seeds.\n\n"
    )
    return text + markdown_table(["", "seeds", "tokens", "entropy", *JUDGED], rows) if rows else ""


def _pairs(base: list[Run], runs: list[Run]) -> list[tuple[Run, Run]]:
    """The runs with those of `base` that have their seed and their start: another processor makes another start."""
    return [(one, run) for run in runs for one in base if (one["seed"], one["start"]) == (run["seed"], run["start"])]


def _cell(runs: list[Run], base: list[Run], value: Callable[[Run], float]) -> str:
    text = f"{mean(map(value, runs)):.3f}"
    pairs = [value(run) - value(one) for one, run in _pairs(base, runs)]
    return f"{text} {_difference(pairs)}" if pairs else text


def _courses(arms: Arms) -> str:
    """Two metrics at every evaluation that all runs have."""
    if not arms:
        return ""
    runs = [run for runs in arms.values() for run in runs]
    steps = sorted(set.intersection(*({point["step"] for point in run["held_out"]} for run in runs)))
    rows = [
        [arm] + [f"{mean(judged(run, metric, step) for run in runs):.3f}" for metric in COURSE for step in steps]
        for arm, runs in arms.items()
    ]
    text = (
        "## Over the run, without dynamic sampling\n\nAt optimizer steps, mean over seeds: accuracy with top-p 0.7, "
        "then pass@16 at temperature 1.\n\n"
    )
    return text + markdown_table(["", *(f"{name} {step}" for name in ("accuracy", "pass@16") for step in steps)], rows)


def _like_for_like(arms: Arms) -> str:
    """The runs with dynamic sampling against GRPO with it, after equally many tokens."""
    baseline = BASELINE + RESAMPLED
    rows = []
    for arm, runs in arms.items():
        pairs = _pairs(arms.get(baseline, []), runs)
        if pairs and arm.endswith(RESAMPLED) and arm != baseline:
            budgets = [min(run["log"][-1]["num_tokens"] for run in pair) / 1e6 for pair in pairs]
            cells = [arm, str(len(pairs)), f"{mean(budgets):.2f}"]
            for metric in JUDGED.values():
                values = [
                    [at_tokens(run, metric, at) for run in pair] for pair, at in zip(pairs, budgets, strict=True)
                ]
                ours, theirs = ([pair[i] for pair in values] for i in (1, 0))
                half = welch(theirs, ours)
                unpaired = "" if half == float("inf") else f", unpaired ±{half:.3f}"
                difference = _difference(b - a for a, b in values).strip("()")
                cells.append(f"{mean(theirs):.3f} → {mean(ours):.3f} ({difference}{unpaired})")
            rows.append(cells)
    text = (
        f"## Against {baseline}, at equal tokens\n\nThe baseline that has everything but the method, of the same "
        "seed, after as many tokens as the shorter run has (millions, prompts included), and behind the arrow the "
        "run. Then the difference with its 95 % interval over seeds, paired, and unpaired (Welch).\n\n"
    )
    return text + markdown_table(["", "seeds", "tokens", *JUDGED], rows) if rows else ""


def _sampled(arms: Arms) -> str:
    """The runs with dynamic sampling against GRPO without, after equally many tokens."""
    rows = [row for arm in arms if arm.endswith(RESAMPLED) for row in _after_tokens(arm, arms)]
    text = (
        f"## Against GRPO without dynamic sampling, at equal tokens\n\n{BASELINE} without dynamic sampling and, "
        "behind the arrow, the run with it, of the same seed after equally many tokens of all rollouts (millions), "
        "kept and dropped: at half of the shorter run's and at its end. Then the difference and its 95 % interval "
        "over paired seeds. "
        "Values between two evaluations are interpolated. The entropies are not comparable: with dynamic sampling "
        "they are of the informative groups alone.\n\n"
        "![Entropy, accuracy and pass@16 over the tokens of all rollouts](evidence.png)\n\n"
    )
    return text + markdown_table(["", "seeds", "tokens", "entropy", *SAMPLED], rows) if rows else ""


def _after_tokens(arm: str, arms: Arms) -> list[list[str]]:
    pairs = _pairs(arms.get(BASELINE, []), arms[arm])
    rows = []
    for share in SHARES if pairs else ():
        budgets = [share * min(run["log"][-1]["num_tokens"] for run in pair) / 1e6 for pair in pairs]
        both = list(zip(pairs, budgets, strict=True))
        values = [[[entropy_at_tokens(run, at) for run in pair] for pair, at in both]]
        values += [[[at_tokens(run, JUDGED[name], at) for run in pair] for pair, at in both] for name in SAMPLED]
        rows.append([arm, str(len(pairs)), f"{mean(budgets):.2f}", *map(_against, values)])
    return rows


def _against(pairs: list[list[float]]) -> str:
    base, other = (mean(values) for values in zip(*pairs, strict=True))
    return f"{base:.3f} → {other:.3f} {_difference(other - base for base, other in pairs)}"


def _difference(values: Iterable[float]) -> str:
    center, half = interval(values)
    return f"({center:+.3f})" if half == float("inf") else f"({center:+.3f} ±{half:.3f})"


def _predicted(arms: Arms) -> str:
    """What predicts the entropy change of tokens, and which quadrant makes it."""
    rows = []
    for arm, runs in arms.items():
        looks = [look for run in runs for look in run["looks"]]
        cells = [_mean(looks, name) for name in ("predicted_correlation", "estimated_correlation")]
        cells += [_mean(looks, f"{quadrant}_change", 1e3) for quadrant in QUADRANTS]
        rows.append([arm, str(len(looks)), *cells])
    text = (
        "## What moves the entropy\n\nOne optimizer step in fifty is looked at closely: the entropy of its tokens is "
        "measured before and after the update. First the correlation over tokens with what the exact change predicts, "
        "and with STEER's estimate (Eq. 9); then what each quadrant adds to the predicted change of the mean entropy, "
        "in thousandths of a nat per unit of step: surprising and expected tokens of good and of bad completions. "
        "Means over all looks of all seeds.\n\n"
    )
    names = ("good, surprising", "good, expected", "bad, surprising", "bad, expected")
    return text + markdown_table(["", "looks", "exact", "estimate", *names], rows)


def _mean(looks: list[dict[str, float]], name: str, unit: float = 1.0) -> str:
    values = [look[name] * unit for look in looks if name in look]
    return f"{mean(values):.2f}" if values else ""
