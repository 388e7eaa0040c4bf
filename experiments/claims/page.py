"""Write docs/claims.md: what the two papers claim, and what we found, with the runs behind every number.

    python experiments/claims/page.py

Every number is made from the published files. An answer is "yes" or "no" only where an interval excludes zero.
"""

from collections.abc import Callable
from pathlib import Path

from measured import ROOT, Estimate, LongRuns, OneStep, ShortRuns

CLAIMS = ROOT / "docs/claims"
SHORT = ShortRuns(CLAIMS / "short_runs.json")
ONE_STEP = OneStep(CLAIMS / "one_step.json")
LONG = LongRuns(ROOT / "docs/evidence")

ACCURACY, PASS = ("top-p 0.7", "accuracy"), ("T=1", "pass@16")
SAMPLED = "GRPO, dynamic sampling"
YES, NO, PART, OPEN = "**yes**", "**no**", "in part", "not decided"
Answer = tuple[str, str]
LATER = "no run yet"


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
    return all_have(values, sign), f"final entropy against {baseline}, nats: {listed(values)}"


def of_long_runs(arm: str, metric: tuple[str, str], sign: int = 1) -> Answer:
    """Whether an arm of the long runs has more than GRPO with dynamic sampling at equal tokens."""
    value = LONG.difference(arm, SAMPLED, metric)
    if value is None:
        return OPEN, LATER
    return all_have([(arm, value)], sign), f"{' '.join(metric)} against {SAMPLED} at equal tokens: {value}"


def steer_prevents_collapse() -> Answer:
    """Two kinds of runs."""
    answer, text = moved(1, "STEER 0.8", "STEER 0.7")
    ends = [(arm, LONG.final_entropy(arm)) for arm in ("STEER, dynamic sampling", SAMPLED)]
    long = ", ".join(f"{arm} {value.mean:.3f}" for arm, value in ends if value)
    return answer, f"{text}; at the end of the long runs, nats: {long}"


def estimates_track() -> Answer:
    """Correlations of one step."""
    place = "512 sequences, learning rate 0.00025, all"
    single, forks = "one sequence a step, all", "one sequence a step, forks"
    parts = []
    for where, name in (
        (place, "512 completions a step"),
        (single, "one completion a step"),
        (forks, "its forks (H > 0.1)"),
    ):
        found = [
            (kind, ONE_STEP.get(f"{where}: {kind}, Spearman"), ONE_STEP.get(f"{where}: {kind}, Pearson"))
            for kind in ("paper", "exact", "covariance")
        ]
        parts.append(
            f"{name}: "
            + ", ".join(
                f"{kind} {rank.mean:+.2f} / {linear.mean:+.2f}" for kind, rank, linear in found if rank and linear
            )
        )
    if not ONE_STEP.found:
        return OPEN, LATER
    return PART, "Spearman / Pearson with the realised change, all tokens; " + "; ".join(parts)


PREDICTED = {"I, mask": 1, "II, double": 1, "III, mask": 1, "IV, double": 1}
PREDICTED |= {"I, double": -1, "II, mask": -1, "III, double": -1, "IV, mask": -1}


def quadrants() -> Answer:
    """All eight interventions, in one step and over the short runs."""
    one = {name: ONE_STEP.get(f"quadrant {name} 0.2: added change, 1e-3 nats") for name in PREDICTED}
    runs = {name: SHORT.difference(f"quadrant {name}, 0.2", "epsilon_high 0.2") for name in PREDICTED}
    texts, decided = [], []
    for what, found in (("in one step", one), ("over 120 steps", runs)):
        known = {name: value for name, value in found.items() if value is not None}
        right = [name for name, value in known.items() if value.sign == PREDICTED[name]]
        wrong = [name for name, value in known.items() if value.sign == -PREDICTED[name]]
        decided.append((len(right), len(wrong), len(known)))
        if known:
            texts.append(f"{what}, {len(right)} of {len(known)} as predicted, {len(wrong)} against it")
    right, wrong, known = decided[0]
    return YES if right == known == 8 else NO if wrong > right else PART if right else OPEN, "; ".join(texts)


def stronger_with_more() -> Answer:
    """The share of the tokens that is masked or doubled."""
    bigger, known = 0, 0
    for name, sign in PREDICTED.items():
        few, many = (ONE_STEP.get(f"quadrant {name} {share}: added change, 1e-3 nats") for share in ("0.05", "0.2"))
        if few and many:
            known += 1
            bigger += sign * many.mean > sign * few.mean
    if not known:
        return OPEN, LATER
    return (
        YES if bigger == known else PART,
        f"in one step, a larger effect at 20 % than at 5 % in {bigger} of {known}",
    )


def likely_tokens() -> Answer:
    """What the entropy's fall is made of: a fifth of a quadrant's tokens masked."""
    likely, unlikely = (ONE_STEP.get(f"quadrant {name}, mask 0.2: added change, 1e-3 nats") for name in ("I", "III"))
    shares = [ONE_STEP.get(f"quadrant {name}: share of tokens") for name in ("I", "III")]
    whole = ONE_STEP.get("change of the mean entropy, 1e-3 nats")
    if not likely or not unlikely or not whole:
        return OPEN, LATER
    tokens = " and ".join(f"{share.mean:.0%}" for share in shares if share)
    return NO if unlikely.mean - unlikely.half > likely.mean + likely.half else OPEN, (
        f"in one step, 1e-3 nats: the entropy changes by {whole.mean:+.1f}; without a fifth of the likely tokens of "
        f"correct answers by {likely} more, without a fifth of the unlikely tokens of incorrect ones by {unlikely} "
        f"more ({tokens} of all tokens); [the long runs](evidence/index.md#what-moves-the-entropy) agree"
    )


def change_grows_with_entropy() -> Answer:
    """Rank correlation over tokens."""
    value = ONE_STEP.get("Spearman of |change| with entropy")
    tenths = [ONE_STEP.get(f"|change|, 1e-3 nats, tenth {i} of entropy") for i in (1, 5, 10)]
    if value is None or any(tenth is None for tenth in tenths):
        return OPEN, LATER
    sizes = ", ".join(f"{tenth.mean:.3f}" for tenth in tenths if tenth)
    return all_have(
        [("", value)], 1
    ), f"Spearman {value}; mean size in the 1st, 5th, 10th tenth of H, 1e-3 nats: {sizes}"


def clipping_hits_unlikely() -> Answer:
    """Of the tokens that are clipped at each bound, how many had a probability below 0.2."""
    texts, above_half = [], []
    for bound in ("lower", "upper"):
        unlikely, likely = (SHORT.clipped("GRPO", f"clip/{bound}_{kind}") for kind in ("unlikely", "likely"))
        if unlikely and likely:
            share = unlikely.mean / (unlikely.mean + likely.mean)
            above_half.append(share > 0.5)
            texts.append(f"{share:.0%} of those clipped at the {bound} bound")
    quadrants_of = [ONE_STEP.get(f"quadrant {q}: share of tokens") for q in ("II", "III")]
    share_of_all = sum(value.mean for value in quadrants_of if value)
    if not texts:
        return OPEN, LATER
    answer = YES if all(above_half) else PART
    return answer, (
        f"probability below 0.2: {', '.join(texts)}; of all tokens with an advantage about {share_of_all:.0%} of the "
        "rollout are. So unlikely tokens are clipped far more often each, and are the smaller part of what is clipped"
    )


def critical_strength() -> Answer:
    """Where the entropy neither falls nor rises without a gate."""
    arms = sorted((arm for arm in SHORT.runs if arm.startswith("C2 W ")), key=lambda arm: float(arm.split()[2]))
    found = [(arm.removeprefix("C2 "), SHORT.trend(arm)) for arm in arms]
    known = [(name, value) for name, value in found if value is not None]
    if not known:
        return OPEN, LATER
    weakest = dict(known).get("W 1.1 M 0.9")
    answer = OPEN if weakest is None else NO if weakest.sign == -1 else YES if weakest.sign == 1 else OPEN
    zetas = [(arm, SHORT.trend(arm)) for arm in SHORT.runs if arm.startswith("REPO-R zeta")]
    return answer, (
        f"change of the entropy over 120 steps without a gate: {listed(known)}; GRPO {SHORT.trend('GRPO')}; "
        + listed([(arm, value) for arm, value in zetas if value])
    )


def diverges_above_two() -> Answer:
    """Ungated runs of W of 2 and more."""
    found = [(f"W {w} M {m}", SHORT.trend(f"C2 W {w} M {m}")) for w, m in (("2", "0.5"), ("3", "0.33"), ("4", "0.25"))]
    known = [(name, value) for name, value in found if value]
    return (all_have(known, 1), f"change over 120 steps: {listed(known)}") if known else (OPEN, LATER)


def gate_holds() -> Answer:
    """At the paper's constants and beyond them, within a tenth of the target."""
    found = [
        (f"W {w} M {m}", SHORT.end(f"C2 gate, W {w} M {m}"))
        for w, m in (("1.1", "0.9"), ("2.5", "0.4"), ("4", "0.25"))
    ]
    known = [(name, value) for name, value in found if value]
    first = SHORT.first("GRPO")
    if not known or not first:
        return OPEN, LATER
    target = 0.8 * first.mean
    missed = [name for name, value in known if value.mean + value.half < 0.9 * target]
    kept = [name for name, value in known if abs(value.mean - target) + value.half < 0.1 * target]
    long = LONG.final_entropy("STARE C2 gate, dynamic sampling")
    ends = ", ".join(f"{name} {value.plain}" for name, value in known)
    text = f"target {target:.3f} nats, a fifth below the start; final entropy after 120 steps {ends}"
    if long:
        text += f"; at the end of the long runs, W 1.1 M 0.9 {long.plain}"
        missed += ["long runs"] * (long.mean + long.half < 0.9 * target)
    return NO if missed and not kept else PART if missed else YES if len(kept) == len(known) else OPEN, text


def robust_up_to_four() -> Answer:
    """The gate with strong weights."""
    values = entropy("C2 gate, W 4 M 0.25", baseline="C2 gate, W 2.5 M 0.4")
    if not values:
        return OPEN, LATER
    return OPEN if values[0][
        1
    ].sign == 0 else NO, f"W 4 against W 2.5, final entropy: {listed(values)}; no run exploded"


def variants() -> Answer:
    """All eight, without a gate."""
    arms = ("O1 W 2.5", "O2 M 0.4", "O3 W 2.5", "O4 M 0.4", "C1 W 2.5", "C2 W 2.5 M 0.4", "C3 W 2.5 M 0.4", "C4 M 0.4")
    values = entropy(*arms)
    if not values:
        return OPEN, LATER
    ranked = sorted(values, key=lambda item: -item[1].mean)
    return OPEN, f"of accuracy; final entropy against GRPO, most first: {listed(ranked)}"


def maps() -> Answer:
    """Each map against the better ones."""
    pairs = (
        ("linear against exponential", "STEER linear", "STEER 0.7"),
        ("binary against linear", "STEER binary", "STEER linear"),
        ("binary against exponential", "STEER binary", "STEER 0.7"),
    )
    found = [(name, SHORT.difference(arm, better)) for name, arm, better in pairs]
    known = [(name, value) for name, value in found if value is not None]
    return all_have(known, -1), f"of accuracy nothing; final entropy, nats: {listed(known)}"


def same_entropy(baseline: str, *arms: str) -> Answer:
    """Settings that are said to make no difference."""
    values = entropy(*arms, baseline=baseline)
    if not values:
        return OPEN, LATER
    differs = any(value.sign for _, value in values)
    return NO if differs else OPEN, f"final entropy against {baseline}: {listed(values)}"


def rough(*arms: str) -> Answer:
    """Entropy lost faster than GRPO, and less steadily."""
    values = entropy(*arms)
    if not values:
        return OPEN, LATER
    steps = [(arm, SHORT.roughness(arm)) for arm in ("GRPO", *arms)]
    texts = ", ".join(f"{arm} {value.mean:.4f}" for arm, value in steps if value)
    return all_have(
        values, -1
    ), f"final entropy against GRPO: {listed(values)}; change from rollout to rollout: {texts}"


def hotter() -> Answer:
    """The entropy over the run, at the temperature that the rollouts are drawn at."""
    found = [(arm, SHORT.trend(arm)) for arm in ("GRPO", "temperature 1.2", "temperature 1.5")]
    known = [(arm, value) for arm, value in found if value]
    if len(known) < 2:
        return OPEN, LATER
    firsts = (SHORT.first(arm) for arm, _ in known)
    begins = ", ".join(f"{first.mean:.2f}" for first in firsts if first)
    return all_have(known, -1), f"change over 120 steps, nats: {listed(known)}; of {begins} at first"


def bonus_is_sensitive() -> Answer:
    """A factor of a hundred."""
    values = [(c, SHORT.end(f"entropy bonus {c}")) for c in ("0.0003", "0.001", "0.003", "0.01", "0.03")]
    known = [(name, value) for name, value in values if value]
    if len(known) < 2:
        return OPEN, LATER
    first, last = known[0][1], known[-1][1]
    apart = abs(last.mean - first.mean) > first.half + last.half
    return YES if apart else OPEN, "final entropy, nats: " + ", ".join(f"{n} {v.plain}" for n, v in known)


def kl_penalty() -> Answer:
    """More entropy at the end, and less learned."""
    kept, learned = SHORT.difference("KL 0.05"), SHORT.difference("KL 0.05", of="reward")
    if not kept or not learned:
        return OPEN, LATER
    answer = YES if kept.sign == 1 and learned.sign == -1 else PART if kept.sign == 1 else OPEN
    return answer, f"KL 0.05 against GRPO: final entropy {kept} nats, final reward {learned}"


def few_tokens() -> Answer:
    """STEER's weight over tenths of the change."""
    weights = [ONE_STEP.get(f"STEER's weight, tenth {i} of |change|") for i in (1, 5, 10)]
    if any(weight is None for weight in weights):
        return OPEN, LATER
    return YES, "mean weight (lambda_min 0.7) in the 1st, 5th, 10th tenth of the change's size: " + ", ".join(
        f"{weight.mean:.4f}" for weight in weights if weight
    )


def levels() -> Answer:
    """Long runs of three levels."""
    values = [
        (level, LONG.difference(f"REPO-R held at {level}, earlier regulator, dynamic sampling", SAMPLED, ACCURACY))
        for level in ("0.8", "0.65", "0.5")
    ]
    text = listed([(level, value) for level, value in values if value])
    return (
        "by another mechanism",
        f"the level trades accuracy for variety; held at, accuracy against {SAMPLED}: {text}",
    )


def no_measure(why: str) -> Callable[[], Answer]:
    """A claim that nothing here can decide."""
    return lambda: (OPEN, why)


Claim = tuple[str, str, Callable[[], Answer]]
STEER: list[Claim] = [
    (
        "STEER is more accurate than GRPO and ten other methods",
        "Table 1",
        lambda: of_long_runs("STEER, dynamic sampling", ACCURACY),
    ),
    ("STEER prevents the collapse of the entropy", "Fig. 1, 12", steer_prevents_collapse),
    (
        "STEER explores more (pass@k; the paper prints none)",
        "5.2",
        lambda: of_long_runs("STEER, dynamic sampling", PASS),
    ),
    (
        "lambda_min of 0.6 to 0.8 makes no difference",
        "Fig. 13, 17",
        lambda: same_entropy("STEER 0.7", "STEER 0.6", "STEER 0.8"),
    ),
    (
        "The exponential map is better than the linear, and that than the binary",
        "Table 2",
        maps,
    ),
    (
        "STEER keeps its entropy where clipping is off (5 / 0.99)",
        "Fig. 14, Table 4",
        lambda: moved(1, "extreme clipping, STEER 0.7", baseline="extreme clipping, GRPO"),
    ),
    ("Few tokens get a small weight", "4, Fig. 15", few_tokens),
    (
        "The estimate follows the true change of the entropy, the covariance does not",
        "Fig. 1, 2, 18 to 21",
        estimates_track,
    ),
    ("A higher upper clip bound raises the entropy", "Fig. 7", lambda: moved(1, "epsilon_high 0.4", "epsilon_high 1")),
    ("A wider lower clip bound lowers it", "Fig. 7", lambda: moved(-1, "epsilon 0.4")),
    ("Clipping hits unlikely tokens", "Fig. 9", clipping_hits_unlikely),
    (
        "Training on correct answers only collapses the entropy, on incorrect ones only keeps it",
        "Fig. 8",
        lambda: (
            all_have(entropy("PSR"), -1) if all_have(entropy("PSR"), -1) == all_have(entropy("NSR"), 1) else OPEN,
            f"final entropy against GRPO: {listed(entropy('PSR', 'NSR'))}" if entropy("PSR", "NSR") else LATER,
        ),
    ),
    ("Interventions on the four quadrants move the entropy as predicted", "Fig. 6, 22, 23", quadrants),
    ("More so the more tokens are changed", "Fig. 6", stronger_with_more),
    ("The size of a token's change grows with its entropy", "Fig. 10", change_grows_with_entropy),
    (
        "Entropy advantage and GTPO fluctuate and collapse sooner",
        "Fig. 11",
        lambda: rough("entropy advantage", "GTPO"),
    ),
    (
        "Hotter sampling only postpones the collapse",
        "App. B",
        hotter,
    ),
    ("An entropy bonus is sensitive to its coefficient", "App. B", bonus_is_sensitive),
    ("Clip-Cov cannot hold the entropy", "App. B", lambda: same_entropy("GRPO", "Clip-Cov")),
    ("A KL penalty keeps entropy only by holding back the policy", "App. B", kl_penalty),
    (
        "Likely tokens of correct answers make the collapse",
        "3.2.3",
        likely_tokens,
    ),
]
STARE: list[Claim] = [
    ("STARE keeps the entropy in the target's band", "abstract", gate_holds),
    (
        "STARE is 4 to 8 % more accurate than DAPO and others",
        "abstract",
        lambda: of_long_runs("STARE C2 gate, dynamic sampling", ACCURACY),
    ),
    ("Near criticality: small weights (1.1 / 0.9) flip the entropy's trend", "abstract, README", critical_strength),
    ("Without a gate the entropy diverges for W of 2 and more", "authors' README", diverges_above_two),
    ("With the gate, W up to 4 is harmless", "second hand", robust_up_to_four),
    ("Eight variants, of which O1 is best", "second hand", variants),
    (
        "Gates by batch, completion and token do alike",
        "second hand",
        lambda: same_entropy("C2 gate, W 2.5 M 0.4", "C2 gate by sample", "C2 gate by token"),
    ),
    (
        "The share P of 5 to 20 % makes no difference, 40 % does",
        "second hand",
        lambda: same_entropy("C2 W 2.5 M 0.4", "C2 top 0.05", "C2 top 0.2", "C2 top 0.4"),
    ),
    ("A target of 0.3 nats is best", "second hand", levels),
    (
        "The adaptive schedule does as well as fixed weights",
        "second hand",
        lambda: same_entropy("C2 gate, W 1.1 M 0.9", "C2 adaptive"),
    ),
    (
        "A fixed threshold of probability is worse than a share",
        "second hand",
        lambda: same_entropy("C2 W 2.5 M 0.4", "C2 fixed probability 0.1"),
    ),
    (
        "It also holds off-policy",
        "second hand",
        lambda: moved(1, "one step a rollout, C2 W 2.5 M 0.4", baseline="one step a rollout, GRPO"),
    ),
    ("GRPO with dynamic sampling is better than GRPO", "second hand", lambda: _sampling_helps()),
    (
        "Length and reflection tokens grow together",
        "abstract",
        no_measure("the laptop task's answers have a fixed length"),
    ),
    (
        "It works with tools",
        "abstract",
        no_measure("a small model learns to call [a calculator](tools.md); nothing measures what the weights add"),
    ),
    (
        "It works on long reasoning, over thousands of steps",
        "abstract",
        no_measure("the longest run here has 1,000 steps"),
    ),
]


def _sampling_helps() -> Answer:
    value = LONG.difference(SAMPLED, "GRPO", ACCURACY)
    return (all_have([("", value)], 1), f"top-p 0.7 accuracy at equal tokens: {value}") if value else (OPEN, LATER)


def rows(claims: list[Claim], first: int) -> list[str]:
    """A line of the table for each claim."""
    found = []
    for number, (claim, source, answer) in enumerate(claims, first):
        words, numbers = answer()
        found.append(f"| {number} | {claim} | {source} | {words} | {numbers} |")
        assert found[-1].count("|") == 6, found[-1]  # a bar in a text would be a column
    return found


def page() -> str:
    """The page in Markdown."""
    head = ["| | claim | where | here | numbers |", "|---|---|---|---|---|"]
    runs = sum(map(len, SHORT.runs.values()))
    answers = [answer() for *_, answer in STEER + STARE]
    decided = sum(words != OPEN for words, _ in answers)
    measured = sum(words == OPEN and "±" in numbers for words, numbers in answers)
    intro = f"""# What the papers claim, and what we found

Every claim of the two papers that can be put as one sentence, in our words, and whether the laptop task bears it out:
a Qwen2 of 0.36 million parameters on Countdown. A model a thousand times its size may answer differently. "Yes" and
"no" need a 95 % interval that excludes zero; "not decided" is neither. Nothing is corrected for there being many. Of
{len(answers)} claims {decided} are answered, {measured} more have an undecided interval, the others no data.

The numbers are of three kinds: {runs} *short runs* (120 optimizer steps of 128 completions, four a rollout, one start,
paired by seed; mean entropy of the last five rollouts; `python experiments/claims/short_runs.py`), *one step* (20
rollouts, an AdamW step on each, every token scored again; `python experiments/claims/one_step.py`), and the
[long runs](evidence/index.md). Behind an interval stands how many runs it is over. `python experiments/claims/page.py`
writes this page."""
    second = (
        "STARE's paper is not public to us: its claims are those of its abstract, of the authors' README, or second "
        "hand, from summaries by others, and are marked so."
    )
    parts = [intro, "## STEER\n\n" + "\n".join(head + rows(STEER, 1))]
    parts.append(f"## STARE\n\n{second}\n\n" + "\n".join(head + rows(STARE, len(STEER) + 1)))
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    Path(ROOT / "docs/claims.md").write_text(page())
