"""Writes experiments/results/claims.md: the claims of the two papers, our findings, and the runs behind each number.

    python -m experiments.claims.page

Every number and every verdict is computed from the published files. `experiments/results/claims/before.json` has the
verdicts from before the current rules, and the reason for each that has changed.
"""

import json

from experiments.claims import stare, steer
from experiments.claims.measured import ROOT, SHORT_CONFIDENCE, Data, end, greedy, sampled
from experiments.claims.rules import MARGIN, OPEN, POINT, Claim

BEFORE = ROOT / "experiments/results/claims/before.json"
HEAD = ["| | claim | where | here | numbers |", "|---|---|---|---|---|"]


def rows(claims: list[Claim], start: int) -> str:
    """Return the table of a paper's claims."""
    lines = [
        f"| {number} | {claim.words} | {claim.source} | {claim.finding.verdict} | {claim.finding.text} |"
        for number, claim in enumerate(claims, start)
    ]
    assert all(line.count("|") == 6 for line in lines)  # a bar in a text would start a new column
    return "\n".join(HEAD + lines)


def changed(claims: list[Claim]) -> dict[str, list[int]]:
    """Return the changed verdicts: the old one, the new one and the reason, with the numbers of their claims."""
    found: dict[str, list[int]] = {}
    for number, (claim, (old, *why)) in enumerate(zip(claims, json.loads(BEFORE.read_text()), strict=True), 1):
        if old != claim.finding.verdict:
            found.setdefault(f"{old} | {claim.finding.verdict} | {why[0]}", []).append(number)
    return found


def page(data: Data) -> str:
    """Return the page in Markdown."""
    claims = [steer.claims(data), stare.claims(data)]
    findings = [claim.finding for claim in [*claims[0], *claims[1]]]
    decided = sum(finding.verdict != OPEN for finding in findings)
    measured = sum(finding.verdict == OPEN and bool(finding.parts) for finding in findings)
    changes = changed([*claims[0], *claims[1]])
    short = data.short
    spread, freedom = short.spread(end)
    return f"""# What the papers claim, and what we found

Whether the laptop task, a Qwen2 of 0.36 million parameters on Countdown, bears out the two papers' claims, in our
words. A larger model may answer differently. Of {len(findings)} claims {decided} are answered, {measured} have an
undecided interval, the others no data.

## Rules

* **Trend** (prevents, keeps, collapses): the change of a run's own entropy over its training. It falls if the interval
  lies below zero, and is kept if it does not and lies above -{MARGIN} nats. *Diverges*: it still rises in the second
  half.
* **Difference** (raises, better), **correlation**, **effect of one step**: the interval excludes zero.
* **Order** (best, grows): a difference for every pair.
* **No difference** (alike, harmless): yes if the interval lies within a margin, no if it does not and excludes zero.
  The margins were set after most runs were seen: {MARGIN} nats, a fifth of what GRPO loses in a short run, and {POINT}
  of accuracy, as in [the second protocol](protocol2.md).

A claim is answered *yes* if all its parts are as claimed, *in part* if some are, *no* if none is and some are against
it. Better, worse and harmless mean accuracy, in short runs greedy: at temperature 1 it follows the entropy
(r = {short.correlation(sampled):.2f}; greedy {short.correlation(greedy):.2f}).

Intervals are of 95 %, those of *all* short runs of {100 * SHORT_CONFIDENCE:g} %: rows that three seeds left undecided
got three more, once, and every row pays for two looks. Their standard deviation is pooled over all arms
({spread:.4f} nats, {freedom} degrees of freedom), not paired by seed: three pairs cannot tell it, and Bartlett's test
finds only C3's to differ. In brackets: the runs, of both arms where there are two (3+6), or rollouts. Nothing is
corrected for there being many claims.

The numbers are of {len(short.runs)} *short runs* (120 optimizer steps of 128 completions, four a rollout, one start;
*end* is the entropy of the last five rollouts; `python -m experiments.claims.short_runs`), *one step* on each of 20
rollouts (`python -m experiments.claims.one_step`), and [long runs](results.md), of which the untuned came
first. This page is written by `python -m experiments.claims.page`.

## STEER

{rows(claims[0], 1)}

## STARE

Its paper is not public to us: *second hand* is a summary by others.

{rows(claims[1], len(claims[0]) + 1)}

## Verdicts that changed

Each row had a test of its own. Under these rules {sum(map(len, changes.values()))} verdicts are different:

| | before | now | why |
|---|---|---|---|
""" + "".join(f"| {str(numbers)[1:-1]} | {change} |\n" for change, numbers in changes.items())


if __name__ == "__main__":
    (ROOT / "experiments/results/claims.md").write_text(page(Data.read()))
