"""The claims of STEER's paper (arXiv 2510.10150), in its order, each with what answers it."""

from answers import (
    ACCURACY,
    FIRST,
    LATER,
    NO,
    ONE_STEP,
    OPEN,
    PART,
    PASS,
    PROTOCOL,
    SAMPLED,
    SHORT,
    YES,
    Answer,
    Claim,
    all_have,
    entropy,
    listed,
    moved,
    of_long_runs,
    same_entropy,
)


def steer_prevents_collapse() -> Answer:
    """Two kinds of runs."""
    answer, text = moved(1, "STEER 0.8", "STEER 0.7")
    ends = [(arm, FIRST.get(f"{arm}: final entropy")) for arm in ("STEER, dynamic sampling", SAMPLED)]
    long = ", ".join(f"{arm} {value.mean:.3f}" for arm, value in ends if value)
    tuned = PROTOCOL.entropy("STEER, dynamic sampling", SAMPLED)
    more = f"; with the tuned learning rate, STEER against it {tuned}" if tuned else ""
    return answer, f"{text}; at the end of the long runs, nats: {long}{more}"


def maps() -> Answer:
    """Each map against the better ones."""
    pairs = (
        ("linear against exponential", "STEER linear", "STEER 0.7"),
        ("binary against linear", "STEER binary", "STEER linear"),
        ("binary against exponential", "STEER binary", "STEER 0.7"),
    )
    found = [(name, SHORT.difference(arm, better)) for name, arm, better in pairs]
    known = [(name, value) for name, value in found if value is not None]
    return all_have(known, -1), f"of accuracy nothing; {listed(known)}"


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
        f"more ({tokens} of all tokens); so it was in the first long runs"
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


def rough(*arms: str) -> Answer:
    """Entropy lost faster than GRPO, and less steadily."""
    values = entropy(*arms)
    if not values:
        return OPEN, LATER
    steps = [(arm, SHORT.roughness(arm)) for arm in ("GRPO", *arms)]
    texts = ", ".join(f"{arm} {value.mean:.4f}" for arm, value in steps if value)
    return all_have(values, -1), f"against GRPO: {listed(values)}; change from rollout to rollout: {texts}"


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
            f"against GRPO: {listed(entropy('PSR', 'NSR'))}" if entropy("PSR", "NSR") else LATER,
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
