"""The claims of STEER's paper (arXiv 2510.10150), in the paper's order, each with our finding."""

from itertools import pairwise
from statistics import mean

from experiments.claims.measured import (
    ACCURACY,
    PASS,
    SHORT_CONFIDENCE,
    Data,
    Estimate,
    estimate,
    greedy,
    reward,
    roughness,
    trend,
)
from experiments.claims.rules import Claim, Finding, falls, keeps, long_runs, matters, more, order, same

RAISING = ("I, mask", "II, double", "III, mask", "IV, double")
LOWERING = ("I, double", "II, mask", "III, double", "IV, mask")
HALFWAY, FEW = 0.85, 0.05
"""Weights below `HALFWAY` count as small, since the smallest is 0.7. Shares of tokens below `FEW` count as few."""


def small_weights(data: Data) -> Finding:
    """Judge whether few weights are small, by Markov's inequality on the mean weight.

    A share s of weights below w lowers the mean by at least s (1 - w).
    """
    tenths = [data.one_step[f"STEER's weight, tenth {i} of |change|"] for i in range(1, 11)]
    share = (1 - mean(tenth.mean for tenth in tenths) + mean(tenth.half for tenth in tenths)) / (1 - HALFWAY)
    return Finding((int(share < FEW),), f"at most {100 * share:.1f} % of the tokens weigh below {HALFWAY} (20)")


def estimates_track(data: Data) -> Finding:
    """Judge whether STEER's estimate correlates better with the realised change than the covariance does."""
    rollout = "512 sequences, learning rate 0.00025, all"
    places = {"512 completions a step": rollout}
    places |= {"one": "one sequence a step, all", "its forks": "one sequence a step, forks"}
    found = {
        name: data.one_step[f"{place}: paper, Spearman"].above(data.one_step[f"{place}: covariance, Spearman"])
        for name, place in places.items()
    }
    linear = ", ".join(f"{kind} {data.one_step[f'{rollout}: {kind}, Pearson']}" for kind in ("paper", "exact"))
    return more("Spearman, estimate above covariance", found).remark(f"Pearson of 512, {linear}")


def added(data: Data, name: str, fraction: float = 0.2) -> Estimate:
    """Return what an intervention on a quadrant's tokens adds to the change of the mean entropy, in 1e-3 nats."""
    return data.one_step[f"quadrant {name} {fraction:g}: added change, 1e-3 nats"]


def with_sign(data: Data, name: str, fraction: float = 0.2) -> Estimate:
    """Return the effect of an intervention, as [`added`] does, but positive if its sign is as predicted."""
    value = added(data, name, fraction)
    return value if name in RAISING else value._replace(mean=-value.mean)


def clipped_tokens(data: Data) -> Finding:
    """Judge the share of tokens with a probability below 0.2 among those clipped at each bound, in GRPO's runs."""
    all_tokens = sum(data.one_step[f"quadrant {quadrant}: share of tokens"].mean for quadrant in ("II", "III"))
    shares = {}
    for bound in ("lower", "upper"):
        clipped = [
            [run["clipped"][f"clip/{bound}_{kind}"] for kind in ("unlikely", "likely")]
            for run in data.short.arms["GRPO"]
        ]
        shares[bound] = estimate([unlikely / (unlikely + likely) for unlikely, likely in clipped], SHORT_CONFIDENCE)
    parts = (value._replace(mean=value.mean - than).sign for value in shares.values() for than in (0.5, all_tokens))
    texts = ", ".join(f"{bound} {share.mean:.3f}±{share.half:.3f} ({share.runs})" for bound, share in shares.items())
    return Finding(tuple(parts), f"share below 0.2 of what each bound clips: {texts}; of all {all_tokens:.3f} (20)")


def claims(data: Data) -> list[Claim]:
    """Return all claims of the paper with our findings."""
    short = data.short

    def ends(*arms: str) -> dict[str, Estimate]:
        return {arm: short.difference(arm) for arm in arms}

    def trends(*arms: str) -> dict[str, Estimate]:
        return {arm: short.mean(arm, trend) for arm in arms}

    tenths = [data.one_step[f"|change|, 1e-3 nats, tenth {i} of entropy"] for i in range(1, 11)]
    kept, hot = "end against GRPO", ("temperature 1.2", "temperature 1.5")
    tuned = {f"long {arm[-3:]}": data.protocol.trend(f"GRPO, dynamic sampling, {arm}") for arm in hot}
    maps = {
        "linear above exponential": short.difference("STEER linear", "STEER 0.7", greedy),
        "binary above linear": short.difference("STEER binary", "STEER linear", greedy),
        "binary above exponential": short.difference("STEER binary", "STEER 0.7", greedy),
    }
    smallest = {
        f"{b} above {a}": short.difference(f"STEER {b}", f"STEER {a}")
        for a, b in (("0.6", "0.7"), ("0.7", "0.8"), ("0.6", "0.8"))
    }
    tenfold = {
        f"{b} above {a}": short.difference(f"entropy bonus {b}", f"entropy bonus {a}")
        for a, b in (("0.0003", "0.003"), ("0.001", "0.01"), ("0.003", "0.03"))
    }
    return [
        Claim(
            "STEER is more accurate than GRPO and ten other methods",
            "Table 1",
            long_runs(data, "STEER, dynamic sampling", ACCURACY),
        ),
        Claim(
            "STEER prevents the collapse of the entropy",
            "Fig. 1, 12",
            keeps(
                trends("STEER 0.8", "STEER 0.7")
                | {"long runs": data.first["STEER, dynamic sampling: change of the entropy"]}
            ),
        ),
        Claim(
            "STEER explores more (pass@k; the paper prints none)",
            "5.2",
            long_runs(data, "STEER, dynamic sampling", PASS),
        ),
        Claim(
            "lambda_min of 0.6 to 0.8 makes no difference",
            "Fig. 13, 17",
            same("end", smallest),
        ),
        Claim(
            "The exponential map is better than the linear, and that than the binary",
            "Table 2",
            more("greedy accuracy", maps, -1),
        ),
        Claim(
            "STEER keeps its entropy where clipping is off (5 / 0.99)",
            "Fig. 14, Table 4",
            keeps(trends("extreme clipping, STEER 0.7")),
        ),
        Claim("Few tokens get a small weight", "4, Fig. 15", small_weights(data)),
        Claim(
            "The estimate follows the true change of the entropy, the covariance does not",
            "Fig. 1, 2, 18 to 21",
            estimates_track(data),
        ),
        Claim(
            "A higher upper clip bound raises the entropy",
            "Fig. 7",
            more(kept, ends("epsilon_high 0.4", "epsilon_high 1")),
        ),
        Claim("A wider lower clip bound lowers it", "Fig. 7", more(kept, ends("epsilon 0.4"), -1)),
        Claim("Clipping hits unlikely tokens", "Fig. 9", clipped_tokens(data)),
        Claim(
            "Training on correct answers only collapses the entropy, on incorrect ones only keeps it",
            "Fig. 8",
            falls(trends("PSR")).also(keeps(trends("NSR"))),
        ),
        Claim(
            "Interventions on the four quadrants move the entropy as predicted",
            "Fig. 6, 22, 23",
            order("20 % of the tokens", [with_sign(data, name) for name in RAISING + LOWERING]),
        ),
        Claim(
            "More so the more tokens are changed",
            "Fig. 6",
            order(
                "20 % above 5 %",
                [with_sign(data, name).above(with_sign(data, name, 0.05)) for name in RAISING + LOWERING],
            ),
        ),
        Claim(
            "The size of a token's change grows with its entropy",
            "Fig. 10",
            order("neighbouring tenths", [above.above(below) for below, above in pairwise(tenths)]).remark(
                f"Spearman {data.one_step['Spearman of |change| with entropy']}"
            ),
        ),
        Claim(
            "Entropy advantage and GTPO fluctuate and collapse sooner",
            "Fig. 11",
            more(kept, ends("entropy advantage", "GTPO"), -1).also(
                more(
                    "change from rollout to rollout",
                    {arm: short.difference(arm, measure=roughness) for arm in ("entropy advantage", "GTPO")},
                )
            ),
        ),
        Claim("Hotter sampling only postpones the collapse", "App. B", falls(trends(*hot) | tuned)),
        Claim("An entropy bonus is sensitive to its coefficient", "App. B", matters("end", tenfold)),
        Claim("Clip-Cov cannot hold the entropy", "App. B", falls(trends("Clip-Cov"))),
        Claim(
            "A KL penalty raises the entropy only by holding back the policy",
            "App. B",
            more(kept, ends("KL 0.05")).also(more("reward", {"": short.difference("KL 0.05", measure=reward)}, -1)),
        ),
        Claim(
            "Likely tokens of correct answers make the collapse",
            "3.2.3",
            more(
                "1e-3 nats kept by masking a fifth of them, above unlikely ones of incorrect answers",
                {"": added(data, "I, mask").above(added(data, "III, mask"))},
            ),
        ),
    ]
