"""Compares the two models of a demonstration on the same problems, and shows their answers to one problem.

A difference is the value of the run with `hold_entropy` minus the value of plain GRPO, with a paired 95 % confidence
interval over the test problems. For the entropy, the interval is over the last steps of both runs.
"""

import json
from collections import Counter
from functools import cached_property
from pathlib import Path
from typing import Any

from steer_trl import runlog
from steer_trl.curves import series
from steer_trl.demo.folders import COLD, GRPO, HELD, TEST
from steer_trl.diagnostics.keys import names
from steer_trl.evaluation.comparison import Difference, compare_values
from steer_trl.evaluation.folders import compare_evaluations, read_evaluations
from steer_trl.evaluation.records import COMPLETIONS

PAIRS = Path(__file__).parent / "pairs.jsonl"
"""Published results of `steer-trl demo` with other seeds. Each line is the `result.json` of one seed."""
LAST_STEPS = 20  # the entropy at the end is the mean over this many steps
ENTROPY = "entropy at the end, over its start"
QUESTIONS = {
    "different correct answers of 16": ("t1", "distinct@16"),
    "solved in 16 tries": ("t1", "pass@16"),
    "solved in one try": ("t1", "avg@16"),
    "solved in one cold try": (COLD, "avg@16"),
}
"""Maps the name of each row of the table to the sampling and the metric that the row shows."""


class Result:
    """The result of the finished demonstration in `folder`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @cached_property
    def logs(self) -> dict[str, list[dict[str, Any]]]:
        """Maps the name of each run to the entries of its log."""
        paths = {name: self.folder / name / runlog.LOGS / runlog.METRICS for name in (GRPO, HELD)}
        return {name: [entry for entry in runlog.lines(path) if entry] for name, path in paths.items()}

    @cached_property
    def rows(self) -> dict[str, Difference]:
        """Maps the name of each row of the table to the difference that the row shows."""
        ends = [[value for _, value in series(log, names.ENTROPY)][-LAST_STEPS:] for log in self.logs.values()]
        _, start = series(self.logs[HELD], names.START_ENTROPY)[-1]
        entropy = compare_values(*([[value / start for value in end]] for end in ends))
        grpo, held = (read_evaluations(self.folder / name / TEST) for name in (GRPO, HELD))
        found = {one: compare_evaluations([grpo[one]], [held[one]])["test"] for one in grpo}
        return {ENTROPY: entropy} | {row: found[one][metric] for row, (one, metric) in QUESTIONS.items()}

    def save(self) -> None:
        """Write the differences to `result.json`, as one line."""
        text = json.dumps({row: vars(found) | {"verdict": found.verdict} for row, found in self.rows.items()})
        (self.folder / "result.json").write_text(text + "\n")

    def table(self) -> str:
        """Return a plain-text table that compares the two models.

        Each row states how many of the published pairs of runs have the same verdict.
        """
        pairs = [pair for pair in runlog.lines(PAIRS) if pair]
        lines = [f"{'temperature 1; cold is 0.25':<36}{'GRPO':>6}{'held':>8}  difference"]
        for row, found in self.rows.items():
            same = sum(pair[row]["verdict"] == found.verdict for pair in pairs)
            grpo, held, change = cells(row, found)
            how_often = f"so in {same} of {len(pairs)} such pairs"
            lines.append(f"{row:<36}{grpo:>6}{held:>8}  {change:<14}{in_words(found):<20}{how_often}")
        return "\n".join(lines)

    def sentence(self) -> str:
        """Return a sentence that compares the shares of problems that the two models solve."""
        parts = []
        for row, found in self.rows.items():
            if row.startswith("solved"):
                grpo, held, change = cells(row, found)
                how, verdict = row.removeprefix("solved "), in_words(found)
                parts.append(f"{held} % {how} where GRPO solves {grpo} % ({change}, {verdict})")
        return f"With its entropy held, the model solves {'; '.join(parts)}."

    def answers(self) -> str:
        """Return both models' answers to one problem, side by side.

        The problem is the first one that both models solve and that one of them solves in at least three ways. If no
        problem is like this, it is the last one.
        """
        drawn = [self._answers(name) for name in (GRPO, HELD)]
        for problem, samples in drawn[0].items():
            columns = [Counter(samples).most_common(), Counter(drawn[1][problem]).most_common()]
            ways = [sum(is_correct for (_, is_correct), _ in column) for column in columns]
            if min(ways) >= 1 and max(ways) >= 3:
                break
        shown = [[f"{n:>4} x {text} {'✓' if is_correct else '✗'}" for (text, is_correct), n in c] for c in columns]
        height = max(map(len, shown))
        left, right = (column + [""] * (height - len(column)) for column in shown)
        lines = [f"{a:<36}{b}" for a, b in zip(["GRPO", *left], ["held", *right], strict=True)]
        return "\n".join([f"16 answers to {problem}", *lines])

    def _answers(self, name: str) -> dict[str, list[tuple[str, bool]]]:
        """Return a dict that maps each prompt to a model's answers at temperature 1.

        Each answer is a pair: its text, and whether it is correct.
        """
        prompts = {row["id"]: row["prompt"] for row in runlog.lines(self.folder / "test.jsonl") if row}
        found: dict[str, list[tuple[str, bool]]] = {}
        for entry in filter(None, runlog.lines(self.folder / name / TEST / "t1" / COMPLETIONS)):
            found.setdefault(prompts[entry["id"]], []).append((entry["completion"], entry["correct"]))
        return found


def in_words(found: Difference) -> str:
    """Return the verdict in words: `"higher"`, `"lower"` or `"no difference seen"`.

    The value of the run with `hold_entropy` is compared with the value of plain GRPO.
    """
    return "no difference seen" if found.verdict == "not decided" else found.verdict


def cells(row: str, found: Difference) -> tuple[str, str, str]:
    """Return both models' values, and their difference ± half the width of its interval, as strings.

    Shares are in per cent.
    """
    scale, digits = (100, 1) if row.startswith("solved") else (1, 2)
    half = (found.high - found.low) / 2
    grpo, held, difference, half = (scale * value for value in (found.a, found.b, found.difference, half))
    return f"{grpo:.{digits}f}", f"{held:.{digits}f}", f"{difference:+.{digits}f} ± {half:.{digits}f}"
