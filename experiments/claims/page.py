"""Write docs/claims.md: what the two papers claim, and what we found, with the runs behind every number.

    python experiments/claims/page.py

Every number is made from the published files. An answer is "yes" or "no" only where an interval excludes zero, or lies
within the margin of a claim that nothing changes.
"""

import re

from answers import OPEN, SHORT, Claim
from measured import MARGIN, ROOT
from stare import STARE
from steer import STEER

WITH_M = re.compile(r"(W [\d.]+),? M [\d.]+")


def rows(claims: list[Claim], first: int) -> list[str]:
    """A line of the table for each claim."""
    found = []
    for number, (claim, source, answer) in enumerate(claims, first):
        words, numbers = answer()
        numbers = WITH_M.sub(r"\1", numbers)
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

Whether the laptop task, a Qwen2 of 0.36 million parameters on Countdown, bears out the two papers' claims, in our
words. A larger model may answer differently. "Yes" and "no" need a 95 % interval that excludes zero, or, where a claim
is that nothing changes, one within {MARGIN} nats, a fifth of what GRPO loses in the short runs. "At most the margin":
the claimed effect is smaller than that (a category added after seeing the data). Rows undecided after three seeds got
three more, once, and intervals of 97.5 %. Nothing is corrected for there being many. Of {len(answers)} claims
{decided} are answered, {measured} more have an undecided interval, the others no data.

The numbers are of {runs} *short runs* (120 optimizer steps of 128 completions, four a rollout, one start, paired by
seed; mean entropy of the last five rollouts; `python experiments/claims/short_runs.py`), of *one step* (20 rollouts,
an AdamW step on each, every token scored again; `python experiments/claims/one_step.py`), and of the
[long runs](evidence/results.md). Differences are of the final entropy, in nats, unless said. An interval is over three
runs, or the number behind it. M is 1/W where W is named.
This page is written by `python experiments/claims/page.py`."""
    second = (
        "STARE's paper is not public to us: its claims are those of its abstract, of the authors' README, or second "
        "hand, from summaries by others."
    )
    parts = [intro, "## STEER\n\n" + "\n".join(head + rows(STEER, 1))]
    parts.append(f"## STARE\n\n{second}\n\n" + "\n".join(head + rows(STARE, len(STEER) + 1)))
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    (ROOT / "docs/claims.md").write_text(page())
