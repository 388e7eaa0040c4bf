"""Counts how often reward functions pay a wrong answer or refuse a right one, and measures their CPU time.

    python benchmarks/math_reward.py [--data FOLDER_OF_PARQUET_FILES] [--only NAME ...]

The pairs of answers are those of `labelled.py`. Some are written by hand, and with `--data` others are made from the
gold answers of files in verl's schema. Every function is called with the same completions, `\\boxed{answer}`, in this
process and on one core. The time is user CPU time. An answer that takes more than ten seconds counts as refused.
"""

import argparse
import logging
import resource
import signal
from collections.abc import Callable
from pathlib import Path

from labelled import Pair, make_pairs, read_pairs
from math_verify import parse, verify
from trl.rewards import accuracy_reward

from steer_trl.rewards.answers import bare, last_boxed
from steer_trl.rewards.judge import judge

LIMIT = 10.0  # seconds of CPU time


def by_math_reward(completion: str, gold: str) -> bool:
    """Judge an answer as `MathReward` does inside its workers."""
    return judge(last_boxed(completion) or "", bare(gold)).correct


def by_accuracy_reward(completion: str, gold: str) -> bool:
    """Call TRL's reward with the gold answer in a box, without which it cannot read most gold answers."""
    return accuracy_reward([[{"content": completion}]], [rf"\boxed{{{bare(gold)}}}"])[0] == 1.0


def by_math_verify(completion: str, gold: str) -> bool:
    """Call math-verify as in its README, with the gold answer in dollar signs and all defaults."""
    return verify(parse(f"${bare(gold)}$"), parse(completion))


JUDGES = {
    "`MathReward`": by_math_reward,
    "TRL's `accuracy_reward`": by_accuracy_reward,
    "math-verify, as in its README": by_math_verify,
}


class TooLongError(Exception):
    """Raised if judging an answer takes longer than the CPU time allowed."""


def _give_up(*_: object) -> None:
    raise TooLongError


def verdict_of(judge_answer: Callable[[str, str], bool], pair: Pair) -> bool:
    """Return a judge's verdict on one pair, which is false if the judge fails or takes too long."""
    signal.setitimer(signal.ITIMER_PROF, LIMIT)
    try:
        return bool(judge_answer(rf"\boxed{{{pair.answer}}}", pair.gold))
    except Exception:
        return False
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder of .parquet files in verl's schema")
    parser.add_argument("--only", nargs="+", default=["math-verify", "accuracy", "MathReward"], help="parts of names")
    args = parser.parse_args()
    logging.disable(logging.ERROR)
    signal.signal(signal.SIGPROF, _give_up)
    written = read_pairs()
    sets = {f"written by hand, {len(written)}": written}
    if args.data:
        made = make_pairs(args.data)
        sets[f"made from gold answers, {len(made)}"] = made
    print(
        "| pairs | judge | wrongly paid | wrongly refused | seconds per thousand |\n|---|---|--:|--:|--:|", flush=True
    )
    for title, pairs in reversed(sets.items()):
        right = sum(pair.is_right for pair in pairs)
        for name, judge_answer in JUDGES.items():
            if not any(part in name for part in args.only):
                continue
            verdict_of(judge_answer, Pair("5 cm", "5", True, "warm-up"))
            start = resource.getrusage(resource.RUSAGE_SELF).ru_utime
            verdicts = [verdict_of(judge_answer, pair) for pair in pairs]
            seconds = resource.getrusage(resource.RUSAGE_SELF).ru_utime - start
            paid = sum(verdict and not pair.is_right for verdict, pair in zip(verdicts, pairs, strict=True))
            refused = sum(pair.is_right and not verdict for verdict, pair in zip(verdicts, pairs, strict=True))
            cells = f"{paid} of {len(pairs) - right} | {refused} of {right} | {1000 * seconds / len(pairs):.1f}"
            print(f"| {title} | {name} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
