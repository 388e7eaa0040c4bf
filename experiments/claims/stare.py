"""The claims of STARE's paper (arXiv 2606.19236), in its order, each with what answers it."""

from answers import (
    ACCURACY,
    FIRST,
    LATER,
    NO,
    OPEN,
    PART,
    PASS,
    SAMPLED,
    SHORT,
    TOOLS,
    YES,
    Answer,
    Claim,
    all_have,
    entropy,
    listed,
    moved,
    no_measure,
    of_long_runs,
    same_entropy,
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
    long = FIRST.get("STARE C2 gate, dynamic sampling: final entropy")
    ends = ", ".join(f"{name} {value.plain}" for name, value in known)
    text = f"target {target:.3f} nats, a fifth below the start; final entropy after 120 steps {ends}"
    if long:
        text += f"; at the end of the long runs, W 1.1 M 0.9 {long.plain}"
        missed += ["long runs"] * (long.mean + long.half < 0.9 * target)
    return NO if missed and not kept else PART if missed else YES if len(kept) == len(known) else OPEN, text


def robust_up_to_four() -> Answer:
    """The gate with strong weights."""
    answer, text = same_entropy("C2 gate, W 2.5 M 0.4", "C2 gate, W 4 M 0.25")
    return answer, text if text == LATER else f"{text}; no run exploded"


def off_policy() -> Answer:
    """Weights without a gate, at one optimizer step a rollout and at four."""
    pairs = (
        ("one step a rollout", "one step a rollout, C2 W 2.5 M 0.4", "one step a rollout, GRPO"),
        ("four", "C2 W 2.5 M 0.4", "GRPO"),
    )
    found = [(name, value) for name, *arms in pairs if (value := SHORT.difference(*arms)) is not None]
    if len(found) < 2:
        return OPEN, LATER
    return all_have(found[1:], 1), f"W 2.5, M 0.4 against GRPO: {listed(found)}"


def shares() -> Answer:
    """Three shares against a tenth, without a gate."""
    values = entropy("C2 top 0.05", "C2 top 0.2", "C2 top 0.4", baseline="C2 W 2.5 M 0.4")
    if len(values) < 3:
        return OPEN, LATER
    few, last = [value for _, value in values[:2]], values[2][1]
    answer = YES if last.sign and all(value.is_none for value in few) else OPEN
    if any(value.sign for value in few) or last.is_none:
        answer = PART if last.sign else NO
    return answer, f"against P 0.1: {listed([(name[7:], value) for name, value in values])}"


def fixed_threshold() -> Answer:
    """Tokens below a probability of 0.1 in the place of a tenth of them."""
    answer, text = moved(-1, "C2 fixed probability 0.1", baseline="C2 W 2.5 M 0.4")
    return PART if answer == YES else answer, text if text == LATER else f"of accuracy nothing; {text}"


def sampling_helps() -> Answer:
    """In accuracy, and in 16 tries."""
    parts = [of_long_runs(SAMPLED, measure, "GRPO") for measure in (ACCURACY, PASS)]
    answers = {answer for answer, _ in parts}
    return answers.pop() if len(answers) == 1 else PART, "; ".join(text for _, text in parts)


def with_tools() -> Answer:
    """The calculator of `examples/`: what is learned, and what the weights add."""
    learned, more, kept = TOOLS.gain("STARE", "reward"), TOOLS.difference("reward"), TOOLS.difference("entropy")
    if learned is None or more is None or kept is None:
        return OPEN, LATER
    works, adds = learned.sign == 1, 1 in (more.sign, kept.sign)
    return YES if works and adds else PART if works else OPEN, (
        f"a small model learns to call [a calculator](tools.md) with it: {learned} correct in 60 steps; against GRPO "
        f"{more}, entropy {kept} nats"
    )


def variants() -> Answer:
    """All eight, without a gate: what the first solves more than each of the others, and what entropy each keeps."""
    first, *others = arms = (
        *("O1 W 2.5", "O2 M 0.4", "O3 W 2.5", "O4 M 0.4"),
        *("C1 W 2.5", "C2 W 2.5 M 0.4", "C3 W 2.5 M 0.4", "C4 M 0.4"),
    )
    gained = [(arm, SHORT.difference(first, arm, of="accuracy")) for arm in others]
    known = [(arm, value) for arm, value in gained if value]
    if not known:
        return OPEN, LATER
    ranked = sorted(entropy(*arms), key=lambda item: -item[1].mean)
    return all_have(known, 1), (
        f"without a gate, O1's accuracy (temperature 1) against {listed(known)}; "
        f"final entropy against GRPO, most first: {listed(ranked)}"
    )


def levels() -> Answer:
    """Long runs of three levels."""
    values = [
        (
            level,
            FIRST.get(
                f"REPO-R held at {level}, earlier regulator, dynamic sampling against {SAMPLED}: top-p 0.7 accuracy"
            ),
        )
        for level in ("0.8", "0.65", "0.5")
    ]
    text = listed([(level, value) for level, value in values if value])
    return (
        "by another mechanism",
        f"the level trades accuracy for variety; held at, accuracy against {SAMPLED}: {text}",
    )


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
        shares,
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
        fixed_threshold,
    ),
    (
        "It also holds off-policy",
        "second hand",
        off_policy,
    ),
    ("GRPO with dynamic sampling is better than GRPO", "second hand", sampling_helps),
    (
        "Length and reflection tokens grow together",
        "abstract",
        no_measure("the laptop task's answers have a fixed length"),
    ),
    (
        "It works with tools",
        "abstract",
        with_tools,
    ),
    (
        "It works on long reasoning, over thousands of steps",
        "abstract",
        no_measure("the longest run here has 1,000 steps"),
    ),
]
