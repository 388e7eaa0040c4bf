"""Compares the two models of a demonstration on the same problems, and shows their answers to one problem.

A difference is the value of the held run, which has `hold_entropy` and F-GRPO, minus the value of plain GRPO. Answers
are sampled at temperature 1, as in training, and their differences have a paired 95 % confidence interval over the
test problems. Entropies and tokens are means over the last rollouts of both runs. The rollouts of a run depend on each
other, so these differences have no interval.
"""

import json
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from itertools import zip_longest
from pathlib import Path
from statistics import mean
from typing import Any

from steer_trl.curves import series
from steer_trl.demo.folders import GRPO, HELD, START, TEST, TEST_SAMPLING
from steer_trl.evaluation.comparison import Difference
from steer_trl.evaluation.folders import compare_evaluations, read_evaluations
from steer_trl.evaluation.records import COMPLETIONS, SUMMARY
from steer_trl.monitoring import key_names, run_files
from steer_trl.support.exceptions import CannotContinueError

PAIRS = Path(__file__).parent / "pairs.jsonl"
"""Published results of `steer-trl demo` with other seeds. Each line is the `result.json` of one seed."""
LAST_SHARE = 0.2
"""The share of a run's rollouts, its last ones, over which entropies and tokens are averaged."""
CAUTION = (
    "± is a 95 % interval over the test problems of this one pair of runs; the last two rows are means over the last "
    "fifth of each run. Another seed or another kind of processor moves a pair by several points."
)
"""What the table of a demonstration can tell."""
QUESTIONS = {
    "solved in one try": "avg@16",
    "solved in 16 tries": "pass@16",
    "different correct answers of 16": "distinct@16",
}
"""Maps the name of a row of the table to the metric that it shows."""
ENTROPY = "entropy, over its start"
TOKENS = "generated tokens per trained token"
OF_LOGS = {ENTROPY: key_names.ENTROPY, TOKENS: key_names.TOKENS_PER_TRAINED_TOKEN}
"""Maps the name of a row of the table to the key of the log that it shows."""

Answer = tuple[str, bool]
"""The text of an answer, and whether it is correct."""


@dataclass(frozen=True)
class LateMeans:
    """Means of a logged value over the last rollouts of both runs.

    Attributes:
        a (`float`): the mean of plain GRPO.
        b (`float`): the mean of the held run.
    """

    a: float
    b: float

    @property
    def difference(self) -> float:
        """The difference b - a."""
        return self.b - self.a

    def to_entry(self) -> dict[str, float]:
        """Return both means and their difference as a dictionary for JSON."""
        return vars(self) | {"difference": self.difference}


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
    def solved(self) -> dict[str, Difference]:
        """Maps the name of each row about test problems to its difference."""
        grpo = read_evaluations(self.folder / GRPO / TEST)[TEST_SAMPLING]
        held = read_evaluations(self.folder / HELD / TEST)[TEST_SAMPLING]
        compared = compare_evaluations([grpo], [held])["test"]
        return {row: compared[metric] for row, metric in QUESTIONS.items()}

    @cached_property
    def logged(self) -> dict[str, LateMeans]:
        """Maps the name of each row about the logs to the means of both runs."""
        _, start = series(self.logs[HELD], key_names.START_ENTROPY)[-1]
        units = {ENTROPY: start, TOKENS: 1.0}
        return {
            row: LateMeans(*(_late_mean(self.logs[name], key) / units[row] for name in (GRPO, HELD)))
            for row, key in OF_LOGS.items()
        }

    @property
    def rows(self) -> dict[str, Difference | LateMeans]:
        """Maps the name of each row of the table to what it shows."""
        return {**self.solved, **self.logged}

    @cached_property
    def of_start(self) -> dict[str, float]:
        """Maps the names of rows to the value of the model that both runs start from."""
        summary = run_files.loads((self.folder / START / TEST / TEST_SAMPLING / SUMMARY).read_bytes()) or {}
        metrics = summary["benchmarks"]["test"]["metrics"]
        return {row: metrics[metric][0] for row, metric in QUESTIONS.items()} | {ENTROPY: 1.0}

    def save(self) -> None:
        """Write the seed and the rows of the table to `result.json`, as one line."""
        settings = run_files.loads((self.folder / "settings.json").read_bytes()) or {}
        entries = {"seed": settings["seed"]} | {row: values.to_entry() for row, values in self.rows.items()}
        (self.folder / "result.json").write_text(json.dumps(entries) + "\n")

    def table(self) -> str:
        """Return a plain-text table that compares the two models.

        Its last column has the mean and the range of each row's difference in the published pairs of runs.
        """
        pairs = [pair for pair in run_files.lines(PAIRS) if pair]
        heads = ("start", "GRPO", "held", "difference", f"{len(pairs)} other pairs")
        lines = [format_row("temperature 1", *heads)]
        for row, values in self.rows.items():
            start = number(row, self.of_start[row]) if row in self.of_start else ""
            published = [pair[row]["difference"] for pair in pairs]
            lines.append(format_row(row, start, *cells(row, values), describe_pairs(row, published)))
        return "\n".join(lines)

    def sentence(self) -> str:
        """Return a sentence that compares the shares of problems that the two models solve."""
        parts = []
        for row, difference in self.solved.items():
            if row.startswith("solved"):
                grpo, held, change = cells(row, difference)
                how = row.removeprefix("solved ")
                parts.append(f"{held} % {how} where GRPO solves {grpo} % ({change}, {difference.verdict})")
        return f"With `hold_entropy` and F-GRPO, the model solves {'; '.join(parts)}."

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
        left_column = ["GRPO", *_list_answers(grpo[problem])]
        right_column = ["held", *_list_answers(held[problem])]
        lines = [f"{a:<36}{b}" for a, b in zip_longest(left_column, right_column, fillvalue="")]
        return "\n".join([f"16 answers to {problem}", *lines])

    def _count_answers(self, name: str) -> dict[str, Counter[Answer]]:
        """Return a dict that maps each prompt to how often a model gave each answer at temperature 1."""
        prompts = {row["id"]: row["prompt"] for row in run_files.lines(self.folder / "test.jsonl") if row}
        counts: dict[str, Counter[Answer]] = {}
        for entry in run_files.lines(self.folder / name / TEST / TEST_SAMPLING / COMPLETIONS):
            if entry:
                answer = entry["completion"], entry["correct"]
                counts.setdefault(prompts[entry["id"]], Counter())[answer] += 1
        return counts


def _late_mean(log: list[dict[str, Any]], key: str) -> float:
    """Return the mean of a key over the last rollouts of a run."""
    values = [value for _, value in series(log, key)]
    return mean(values[-max(1, round(LAST_SHARE * len(values))) :])


def _list_answers(answers: Counter[Answer]) -> list[str]:
    """Return a line for each different answer, the most frequent first."""
    lines = []
    for (text, is_correct), count in answers.most_common():
        mark = "✓" if is_correct else "✗"
        lines.append(f"{count:>4} x {text} {mark}")
    return lines


def number(row: str, value: float, sign: str = "") -> str:
    """Return a value of a row as it is shown. Shares of problems are in per cent."""
    scale, digits = (100, 1) if row.startswith("solved") else (1, 2)
    return f"{scale * value:{sign}.{digits}f}"


def cells(row: str, values: Difference | LateMeans) -> tuple[str, str, str]:
    """Return both models' values and their difference as strings.

    A difference over problems has half the width of its interval after a ±.
    """
    change = number(row, values.difference, "+")
    if isinstance(values, Difference):
        change += f" ± {number(row, (values.high - values.low) / 2)}"
    return number(row, values.a), number(row, values.b), change


def describe_pairs(row: str, differences: list[float]) -> str:
    """Return the mean and the range of a row's differences in the published pairs."""
    average, least, most = (
        number(row, value, "+") for value in (mean(differences), min(differences), max(differences))
    )
    return f"{average} ({least} to {most})"


def format_row(row: str, start: str, grpo: str, held: str, change: str, pairs: str) -> str:
    """Return a line of the table."""
    return f"{row:<36}{start:>6}{grpo:>7}{held:>7}   {change:<15}{pairs}".rstrip()
