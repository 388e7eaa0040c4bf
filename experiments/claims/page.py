"""Write docs/claims.md: what the two papers claim, and what we found, with the runs behind every number.

    python experiments/claims/page.py

Every number is made from the published files. An answer is "yes" or "no" only where an interval excludes zero, or lies
within the margin of a claim that nothing changes.
"""

from answers import OPEN, SHORT, Claim
from measured import MARGIN, ROOT
from stare import STARE
from steer import STEER


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
"no" need a 95 % interval that excludes zero, or, where a claim is that nothing changes, one that lies within
{MARGIN} nats, a fifth of what GRPO loses in the short runs; "not decided" is neither. "At most the margin": a claimed
effect whose interval lies within it, an answer that we thought of afterwards. Rows that three seeds left undecided
were given three more, once, and their intervals are of 97.5 %. Nothing is corrected for there being many.
Of {len(answers)} claims {decided} are answered, {measured} more have an undecided interval, the others no data.

The numbers are of three kinds: {runs} *short runs* (120 optimizer steps of 128 completions, four a rollout, one start,
paired by seed; mean entropy of the last five rollouts; `python experiments/claims/short_runs.py`), *one step* (20
rollouts, an AdamW step on each, every token scored again; `python experiments/claims/one_step.py`), and the
[long runs](evidence/results.md). Behind an interval stands how many runs it is over. `python
experiments/claims/page.py` writes this page."""
    second = (
        "STARE's paper is not public to us: its claims are those of its abstract, of the authors' README, or second "
        "hand, from summaries by others, and are marked so."
    )
    parts = [intro, "## STEER\n\n" + "\n".join(head + rows(STEER, 1))]
    parts.append(f"## STARE\n\n{second}\n\n" + "\n".join(head + rows(STARE, len(STEER) + 1)))
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    (ROOT / "docs/claims.md").write_text(page())
