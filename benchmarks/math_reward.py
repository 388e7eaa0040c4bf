"""How correct and how fast is `MathReward`, beside TRL's `accuracy_reward`?

    python benchmarks/math_reward.py [--data FOLDER_OF_PARQUET_FILES]

Three tables: forms of one answer, gold answers of real data sets against themselves (only with `--data`: files in
verl's schema), and answers per second on one and two cores. A form that `accuracy_reward` may not survive is not shown
to it.
"""

import argparse
import logging
import os
import random
import time
from collections import Counter
from pathlib import Path

from datasets import Dataset
from trl.rewards import accuracy_reward

from steer_trl.rewards import MathReward

FORMS = {
    r"\boxed{34}": True,
    r"$\boxed{34}$ and $\boxed{34}$": True,
    r"\boxed{33}\boxed{34}": True,
    r"\boxed{33} ... \boxed{34}": True,
    r"\boxed{34} ... \boxed{33}": False,
    r"\boxed{34": False,
    r"\fbox{34}": False,
    "The answer is 34": False,
    "Answer: 34": False,
    r"\boxed{33=34}": False,
    r"\boxed{a=33=34}": False,
    r"\boxed{?=33=34}": False,
    r"\boxed{x=34}": True,
    r"\boxed{34.}": True,
}


def show(name: str, cells: list[object]) -> None:
    print(f"| {name} | {' | '.join(str(cell) for cell in cells)} |")


def forms(ours: MathReward) -> None:
    print("\n| completion, against 34 | correct? | accuracy_reward | MathReward |\n|---|---|---|---|")
    for text, right in FORMS.items():
        theirs = accuracy_reward([[{"content": text}]], [r"\boxed{34}"])
        show(f"`{text}`", [right, *theirs, *ours([text], [r"\boxed{34}"])])
    for gold in ("34", 34):
        try:
            theirs = accuracy_reward([[{"content": r"\boxed{34}"}]], [gold])[0]
        except Exception as error:
            theirs = type(error).__name__
        show(f"`\\boxed{{34}}`, gold {gold!r}", [True, theirs, *ours([r"\boxed{34}"], [gold])])
    try:
        theirs = accuracy_reward([r"\boxed{34}"], ["34"])[0]
    except TypeError:
        theirs = "TypeError"
    show("a string, no messages", [True, theirs, *ours([r"\boxed{34}"], ["34"])])
    start = time.perf_counter()
    reward = ours([r"\boxed{5^{5^{5^{5^5}}}}"], ["34"])[0]
    show(r"`\boxed{5^{5^{5^{5^5}}}}`", [False, "not tried: hangs", f"{reward}, {time.perf_counter() - start:.1f} s"])


def gold_against_itself(ours: MathReward, folder: Path) -> None:
    print("\n| gold against itself: correct / incorrect / None | accuracy_reward | MathReward |\n|---|---|---|")
    for path in sorted(folder.glob("*.parquet")):
        golds = list(dict.fromkeys(row["ground_truth"] for row in Dataset.from_parquet(str(path))["reward_model"]))
        for form in ("{}", r"\boxed{{{}}}", "${}$"):
            solutions = [form.format(gold) for gold in golds]
            completions = [[{"content": rf"\boxed{{{gold}}}"}] for gold in golds]
            cells = []
            for reward in (accuracy_reward, ours):
                count = Counter(reward(completions=completions, solution=solutions))
                cells.append(f"{count[1.0]} / {count[0.0] + count[-1.0]} / {count[None]}")
            show(f"{path.stem} ({len(golds)} distinct), gold as `{form.format('…')}`", cells)


def answers(count: int) -> tuple[list[list[dict[str, str]]], list[str]]:
    """Completions of some length with integers, fractions, roots and sums; half of them correct, no two alike."""
    dice = random.Random(0)
    completions, golds = [], []
    for i in range(count):
        kinds = [rf"{i}", rf"\frac{{{i}}}{{{i + 7}}}", rf"{i}\sqrt{{{i + 2}}}", rf"x^2+{i}x", rf"({i},\infty)"]
        gold = kinds[i % len(kinds)]
        answer = gold if dice.random() < 0.5 else gold.replace(str(i), str(i + 1))
        completions.append([{"content": "So we compute $x=1$. " * 60 + rf"The answer is $\boxed{{{answer}}}$."}])
        golds.append(rf"\boxed{{{gold}}}")
    return completions, golds


def speed() -> None:
    completions, golds = answers(3000)
    rates = {}
    rewards = {"accuracy_reward": accuracy_reward}
    rewards |= {f"MathReward, {n} worker(s)": MathReward(num_workers=n) for n in (1, 2)}
    for name, reward in rewards.items():
        reward(completions=completions[:4], solution=golds[:4])  # start
        start = time.perf_counter()
        reward(completions=completions, solution=golds)
        rates[name] = len(golds) / (time.perf_counter() - start)
    print("\n| | answers per second | ratio |\n|---|---|---|")
    for name, rate in rates.items():
        show(name, [f"{rate:.0f}", f"{rate / rates['accuracy_reward']:.2f}"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder of .parquet files in verl's schema")
    args = parser.parse_args()
    logging.getLogger("math_verify").setLevel(logging.ERROR)
    print(f"{os.cpu_count()} cores")
    ours = MathReward()
    forms(ours)
    if args.data:
        gold_against_itself(ours, args.data)
    speed()


if __name__ == "__main__":
    main()
