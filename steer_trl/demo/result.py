"""Compares the two models of a demonstration on the same problems, and shows their answers to one problem.

A difference is the value of the run with `hold_entropy` minus the value of plain GRPO, with a paired 95 % confidence
interval over the test problems. For the entropy, the interval is over the last steps of both runs.
"""

import json
from collections import Counter
from functools import cached_property
from itertools import zip_longest
from pathlib import Path
from typing import Any

from steer_trl.curves import series
from steer_trl.demo.folders import GRPO, HELD, LOW_TEMPERATURE, TEST
from steer_trl.evaluation.comparison import Difference, compare_values
from steer_trl.evaluation.folders import compare_evaluations, read_evaluations
from steer_trl.evaluation.records import COMPLETIONS
from steer_trl.monitoring import key_names, run_files
from steer_trl.support.exceptions import CannotContinueError

PAIRS = Path(__file__).parent / "pairs.jsonl"
"""Published results of `steer-trl demo` with other seeds. Each line is the `result.json` of one seed."""
# The entropy at the end is the mean over this many steps.
LAST_STEPS = 20
ENTROPY = "entropy at the end, over its start"
QUESTIONS = {
    "different correct answers of 16": ("t1", "distinct@16"),
    "solved in 16 tries": ("t1", "pass@16"),
    "solved in one try": ("t1", "avg@16"),
    "solved in one cold try": (LOW_TEMPERATURE, "avg@16"),
}
"""Maps the name of each row of the table to the sampling and the metric that the row shows."""

Answer = tuple[str, bool]
"""The text of an answer, and whether it is correct."""


class Result:
    """The result of the finished demonstration in `folder`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @cached_property
    def logs(self) -> dict[str, list[dict[str, Any]]]:
        """Maps the name of each run to the entries of its log."""
        logs = {}
        for name in (GRPO, HELD):
            path = self.folder / name / run_files.LOGS / run_files.METRICS
            logs[name] = [entry for entry in run_files.lines(path) if entry]
            steps = [entry["step"] for entry in logs[name] if key_names.ENTROPY in entry]
            if sorted(set(steps)) != steps:
                raise CannotContinueError(
                    f"{path} holds the lines of several runs: its steps do not rise. Remove {self.folder}, and start "
                    "over."
                )
        return logs

    @cached_property
    def rows(self) -> dict[str, Difference]:
        """Maps the name of each row of the table to the difference that the row shows."""
        _, start = series(self.logs[HELD], key_names.START_ENTROPY)[-1]
        of_grpo, of_held = (_relative_ends(self.logs[name], start) for name in (GRPO, HELD))
        rows = {ENTROPY: compare_values([of_grpo], [of_held])}
        grpo = read_evaluations(self.folder / GRPO / TEST)
        held = read_evaluations(self.folder / HELD / TEST)
        for row, (sampling, metric) in QUESTIONS.items():
            rows[row] = compare_evaluations([grpo[sampling]], [held[sampling]])["test"][metric]
        return rows

    def save(self) -> None:
        """Write the differences to `result.json`, as one line."""
        entries = {row: difference.to_entry() for row, difference in self.rows.items()}
        (self.folder / "result.json").write_text(json.dumps(entries) + "\n")

    def table(self) -> str:
        """Return a plain-text table that compares the two models.

        Each row states how many of the published pairs of runs have the same verdict.
        """
        pairs = [pair for pair in run_files.lines(PAIRS) if pair]
        lines = [f"{'temperature 1; cold is 0.25':<36}{'GRPO':>6}{'held':>8}  difference"]
        for row, difference in self.rows.items():
            same = sum(pair[row]["verdict"] == difference.verdict for pair in pairs)
            grpo, held, change = cells(row, difference)
            how_often = f"so in {same} of {len(pairs)} such pairs"
            lines.append(f"{row:<36}{grpo:>6}{held:>8}  {change:<14}{in_words(difference):<20}{how_often}")
        return "\n".join(lines)

    def sentence(self) -> str:
        """Return a sentence that compares the shares of problems that the two models solve."""
        parts = []
        for row, difference in self.rows.items():
            if row.startswith("solved"):
                grpo, held, change = cells(row, difference)
                how, verdict = row.removeprefix("solved "), in_words(difference)
                parts.append(f"{held} % {how} where GRPO solves {grpo} % ({change}, {verdict})")
        return f"With its entropy held, the model solves {'; '.join(parts)}."

    def answers(self) -> str:
        """Return both models' answers to one problem, side by side.

        The problem is the first one that both models solve and that one of them solves in at least three ways. If no
        problem is like this, it is the last one.
        """
        grpo = self._count_answers(GRPO)
        held = self._count_answers(HELD)
        for problem in grpo:
            ways = [sum(is_correct for _, is_correct in answers[problem]) for answers in (grpo, held)]
            if min(ways) >= 1 and max(ways) >= 3:
                break
        left = ["GRPO", *_list_answers(grpo[problem])]
        right = ["held", *_list_answers(held[problem])]
        lines = [f"{a:<36}{b}" for a, b in zip_longest(left, right, fillvalue="")]
        return "\n".join([f"16 answers to {problem}", *lines])

    def _count_answers(self, name: str) -> dict[str, Counter[Answer]]:
        """Return a dict that maps each prompt to how often a model gave each answer at temperature 1."""
        prompts = {row["id"]: row["prompt"] for row in run_files.lines(self.folder / "test.jsonl") if row}
        counts: dict[str, Counter[Answer]] = {}
        for entry in run_files.lines(self.folder / name / TEST / "t1" / COMPLETIONS):
            if entry:
                answer = entry["completion"], entry["correct"]
                counts.setdefault(prompts[entry["id"]], Counter())[answer] += 1
        return counts


def _relative_ends(log: list[dict[str, Any]], start: float) -> list[float]:
    """Return the entropies of a run's last steps, each divided by `start`."""
    entropies = [value for _, value in series(log, key_names.ENTROPY)]
    return [entropy / start for entropy in entropies[-LAST_STEPS:]]


def _list_answers(answers: Counter[Answer]) -> list[str]:
    """Return a line for each different answer, the most frequent first."""
    lines = []
    for (text, is_correct), count in answers.most_common():
        mark = "✓" if is_correct else "✗"
        lines.append(f"{count:>4} x {text} {mark}")
    return lines


def in_words(difference: Difference) -> str:
    """Return the verdict in words: `"higher"`, `"lower"` or `"no difference seen"`.

    The value of the run with `hold_entropy` is compared with the value of plain GRPO.
    """
    return "no difference seen" if difference.verdict == "not decided" else difference.verdict


def cells(row: str, difference: Difference) -> tuple[str, str, str]:
    """Return both models' values, and their difference ± half the width of its interval, as strings.

    Shares are in per cent.
    """
    scale, digits = (100, 1) if row.startswith("solved") else (1, 2)
    half = (difference.high - difference.low) / 2
    change = f"{scale * difference.difference:+.{digits}f} ± {scale * half:.{digits}f}"
    return f"{scale * difference.a:.{digits}f}", f"{scale * difference.b:.{digits}f}", change
