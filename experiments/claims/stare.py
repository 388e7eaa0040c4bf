"""The claims of STARE's paper (arXiv 2606.19236), in the paper's order, each with our finding."""

from statistics import mean

from experiments.claims.arms import STRENGTHS
from experiments.claims.measured import (
    ACCURACY,
    PASS,
    Data,
    Estimate,
    end,
    estimate,
    first,
    greedy,
    later_trend,
    trend,
)
from experiments.claims.rules import (
    POINT,
    SAMPLED,
    Claim,
    Finding,
    keeps,
    listed,
    long_runs,
    matters,
    more,
    no_run,
    order,
    same,
)

VARIANTS = ("O2 M 0.4", "O3 W 2.5", "O4 M 0.4", "C1 W 2.5", "C2 W 2.5 M 0.4", "C3 W 2.5 M 0.4", "C4 M 0.4")
WEAK, STRONG, GATE = "1.1/0.9", "C2 W 2.5 M 0.4", "C2 gate, W 2.5 M 0.4"
TEN = 10  # steps averaged at the beginning and at the end of a run


def above_target(data: Data, ending: Estimate) -> Estimate:
    """Return by how much the final entropy exceeds the gate's target, which is 0.8 of the initial entropy."""
    return ending._replace(mean=ending.mean - 0.8 * data.short.mean("GRPO", first).mean)


def with_tools(data: Data) -> Finding:
    """Judge STARE on the calculator example: what it gains, and its difference from GRPO."""
    pairs = [(data.tools["STARE", seed], data.tools["GRPO", seed]) for arm, seed in data.tools if arm == "STARE"]
    gained = estimate([mean(ours["reward"][-TEN:]) - mean(ours["reward"][:TEN]) for ours, _ in pairs])
    against = {
        key: estimate([mean(ours[key][-TEN:]) - mean(theirs[key][-TEN:]) for ours, theirs in pairs])
        for key in ("reward", "entropy")
    }
    return more("[calculator](data.md#tools-and-several-turns), correct after 60 steps", {"": gained}).also(
        more("against GRPO", against)
    )


def claims(data: Data) -> list[Claim]:
    """Return all claims of the paper with our findings."""
    short = data.short
    arms = {f"{w:g}/{m:g}": f"W {w:g} M {m:g}" for w, m in STRENGTHS}
    trends = {name: short.mean(f"C2 {arm}", trend) for name, arm in arms.items()}
    weak = trends.pop(WEAK)
    later = {name: short.mean(f"C2 {arm}", later_trend) for name, arm in arms.items() if float(arm.split()[1]) >= 2}
    gated = {name: f"C2 gate, {arm}" for name, arm in arms.items() if f"C2 gate, {arm}" in short.arms}
    target = {name: above_target(data, short.mean(arm, end)) for name, arm in gated.items()}
    target["long runs"] = above_target(data, data.first["STARE C2 gate, dynamic sampling: final entropy"])
    harm = short.difference(gated["4/0.25"], gated[WEAK], greedy)
    adaptive = short.difference("C2 adaptive", gated[WEAK], greedy)
    gates = {
        "completion above batch": short.difference("C2 gate by sample", GATE),
        "token above batch": short.difference("C2 gate by token", GATE),
        "completion above token": short.difference("C2 gate by sample", "C2 gate by token"),
    }
    shares = {share: short.difference(f"C2 top {share}", STRONG) for share in ("0.05", "0.2", "0.4")}
    largest = {"0.4": shares.pop("0.4")}
    variants = [short.difference("O1 W 2.5", variant, greedy) for variant in VARIANTS]
    start = short.mean("GRPO", first)
    starts = data.protocol.over_starts(SAMPLED, "GRPO", PASS)
    return [
        Claim(
            "STARE keeps the entropy in the target's band",
            "abstract",
            same("end above target, W/M", target),
        ),
        Claim(
            "STARE is 4 to 8 % more accurate than DAPO and others",
            "abstract",
            long_runs(data, "STARE C2 gate, dynamic sampling", ACCURACY),
        ),
        Claim(
            "Near criticality: small weights (1.1 / 0.9) flip the entropy's trend",
            "abstract, README",
            keeps({f"W/M {WEAK}": weak}).remark(listed(trends)),
        ),
        Claim(
            "Without a gate the entropy diverges for W of 2 and more",
            "authors' README",
            more("second half", later),
        ),
        Claim(
            "With the gate, W up to 4 is harmless",
            "second hand",
            same("greedy accuracy, W/M 4/0.25 above 1.1/0.9", {"": harm}, POINT),
        ),
        Claim(
            "Eight variants, of which O1 is best",
            "second hand",
            order("greedy accuracy of O1 above others", variants).remark(
                f"above GRPO {short.difference('O1 W 2.5', measure=greedy)}"
            ),
        ),
        Claim("Gates by batch, completion and token do alike", "second hand", same("end", gates)),
        Claim(
            "The share P of 5 to 20 % makes no difference, 40 % does",
            "second hand",
            same("end against P 0.1", shares).also(matters("and", largest)),
        ),
        Claim(
            "A target of 0.3 nats is best",
            "second hand",
            no_run(f"the start has {start}; no run held it"),
        ),
        Claim(
            "The adaptive schedule does as well as fixed weights",
            "second hand",
            same("greedy accuracy", {"": adaptive}, POINT).remark(
                f"end above target, adaptive {above_target(data, short.mean('C2 adaptive', end))}"
            ),
        ),
        Claim(
            "A fixed threshold of probability is worse than a share",
            "second hand",
            more("greedy accuracy", {"": short.difference("C2 fixed probability 0.1", STRONG, greedy)}, -1),
        ),
        Claim(
            "It also holds off-policy",
            "second hand",
            keeps({"no gate, 2.5/0.4": trends["2.5/0.4"]}).also(same("end above target, gate", {WEAK: target[WEAK]})),
        ),
        Claim(
            "GRPO with dynamic sampling is better than GRPO",
            "second hand",
            long_runs(data, SAMPLED, ACCURACY, "GRPO")
            .also(long_runs(data, SAMPLED, PASS, "GRPO"))
            .remark(f"over starts {starts}{'' if starts.sign else ': these starts only'}"),
        ),
        Claim(
            "Length and reflection tokens grow together",
            "abstract",
            no_run("answers have a fixed length"),
        ),
        Claim("It works with tools", "abstract", with_tools(data)),
        Claim(
            "It works on long reasoning, over thousands of steps",
            "abstract",
            no_run("at most 1,000 steps"),
        ),
    ]
