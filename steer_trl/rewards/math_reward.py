"""`MathReward`, which scores whether the answer of a completion equals the gold answer."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from steer_trl.rewards.answers import ANSWER_FORMATS, after_thought, bare, text_of
from steer_trl.rewards.golds import NO_ANSWER, TOO_LONG, find_fault
from steer_trl.rewards.judge import AnswerMatch, judge
from steer_trl.rewards.workers import Workers, default_num_workers
from steer_trl.support.exceptions import CannotContinueError
from steer_trl.support.validation import check_choice, check_interval, is_number, refuse

METRIC_KEYS = ("math_reward/timed_out", "math_reward/unanswered")


class Verdict(NamedTuple):
    """The verdict on one completion.

    `answer` is `None` if the completion has no answer. `vote` is the name of the answer in a majority vote.
    """

    answer: str | None
    correct: bool
    timed_out: bool = False
    vote: str | None = None


class MathReward:
    r"""
    Reward for correct answers. It is a reward function for TRL: `reward(completions=..., solution=...)`.

    Only the last `\boxed{}` of a completion counts. It is read and compared with the gold answer (`judge.py`) inside
    worker processes that are killed at a deadline of CPU time (`workers.py`), so no completion can stop training,
    whichever thread calls the reward. An answer that misses the deadline or crashes its worker twice is incorrect, and
    so is a false equation such as `33=34`.

    Args:
        correct, incorrect (`float`): the two rewards; 1 and -1 in the STEER paper (section 5.1).
        timeout (`float`): seconds of CPU time that one answer may take.
        answer_format (`str`): `"boxed"`; `"answer_line"` if the prompt asks for a last line `Answer: ...`; or
            `"either"` if prompts differ, for the box or, without a box, such a line.
        num_workers (`int`, *optional*): number of processes; by default, the number of this machine's cores per
            rank, at most 16.

    TRL logs `math_reward/timed_out` and `math_reward/unanswered`, the shares (0 to 1) of a rollout's completions.

    Raises:
        `ValueError`: an argument is out of range.
    """

    # TRL logs the reward under this name.
    __name__ = "math_reward"

    def __init__(
        self,
        correct: float = 1.0,
        incorrect: float = -1.0,
        timeout: float = 5.0,
        answer_format: str = "boxed",
        num_workers: int | None = None,
    ) -> None:
        complaints = [
            *check_interval("correct", correct, "(-inf, inf)", "it is a reward"),
            *check_interval("timeout", timeout, "(0, inf)", "it is a deadline in seconds of CPU time"),
            *check_choice("answer_format", answer_format, ANSWER_FORMATS),
        ]
        if is_number(correct):
            interval = f"(-inf, {correct})"
            complaints += check_interval("incorrect", incorrect, interval, "a wrong answer must be worth less")
        if num_workers is not None:
            complaints += check_interval("num_workers", num_workers, "[1, inf)")
        refuse(complaints, "MathReward")
        self.correct, self.incorrect, self.timeout, self.answer_format = correct, incorrect, timeout, answer_format
        self._workers = Workers(_work, _check_judge, num_workers or default_num_workers(), timeout)

    def __call__(
        self,
        completions: Sequence[str | list[dict[str, Any]]],
        solution: Sequence[Any],
        log_extra: Callable[[str, list[Any]], None] | None = None,
        log_metric: Callable[[str, float], None] | None = None,
        **kwargs: Any,
    ) -> list[float | None]:
        """Return the reward `correct` or `incorrect` for each completion; `None` if its solution is `None`.

        Args:
            completions: strings or lists of messages.
            solution: the gold answers, boxed or bare. In a worked solution the last box counts.
            log_extra, log_metric: functions of TRL that log a column and a number.
        """
        verdicts = self.judge(completions, solution)
        if log_extra is not None:
            log_extra("solution", list(solution))
            log_extra("answer", [verdict.answer for verdict in verdicts])
        if log_metric is not None and verdicts:
            counts = sum(v.timed_out for v in verdicts), sum(v.answer is None for v in verdicts)
            for key, count in zip(METRIC_KEYS, counts, strict=True):
                log_metric(key, count / len(verdicts))
        return [
            None if gold is None else self.correct if verdict.correct else self.incorrect
            for verdict, gold in zip(verdicts, solution, strict=True)
        ]

    def judge(self, completions: Sequence[str | list[dict[str, Any]]], solution: Sequence[Any]) -> list[Verdict]:
        """Return a [`Verdict`] for each completion.

        Each distinct pair of an answer and a gold answer is compared only once.
        """
        answers = [
            ANSWER_FORMATS[self.answer_format](after_thought(text_of(completion))) for completion in completions
        ]
        golds = [None if gold is None else bare(str(gold)) for gold in solution]
        pairs = list(zip(answers, golds, strict=True))
        jobs = list(dict.fromkeys((judge, *pair) for pair in pairs if None not in pair))
        results = dict(zip(jobs, self._workers.map(jobs), strict=True)) if jobs else {}
        return [_verdict(answer, results.get((judge, answer, gold))) for answer, gold in pairs]

    def unreadable(self, solution: Iterable[Any]) -> dict[str | None, str]:
        """Return a dict that maps each gold answer that cannot be scored to the reason, such as *proof*."""
        golds = {None if gold is None else str(gold) for gold in solution}
        jobs = {gold: (find_fault, bare(gold)) for gold in golds if gold is not None}
        results = zip(jobs, self._workers.map(jobs.values()), strict=True)
        faults: dict[str | None, str] = {None: NO_ANSWER} if None in golds else {}
        for gold, result in results:
            if result is not None:
                faults[gold] = result if isinstance(result, str) else TOO_LONG
        return faults


def _verdict(answer: str | None, result: Any) -> Verdict:
    if isinstance(result, AnswerMatch):
        return Verdict(answer, result.correct, vote=result.vote)
    return Verdict(answer, False, timed_out=result is not None, vote=answer)


# The functions below run in the workers.


def _work(function: Callable[..., Any], *job: str) -> Any:
    return function(*job)


def _check_judge() -> None:
    """Load the judge's libraries, and raise if it misjudges known answers.

    Without this check, every answer would silently be incorrect.
    """
    verdicts = {
        ("34", r"\sqrt{1156}"): True,
        ("33", r"\sqrt{1156}"): False,
        (r"34\text{ cm}", r"340\text{ mm}"): True,
    }
    if any(judge(*pair).correct is not verdict for pair, verdict in verdicts.items()):
        raise CannotContinueError(
            "math-verify's parser or pint does not read 34. Install the versions that steer_trl requires."
        )
