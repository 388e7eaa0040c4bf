"""The task of finding a shortest path through a five by five grid: reasoning_gym's `shortest_path`.

    OOXO* OOOXO XOOOO OXO#O OOOXO:   ->   DDLD

The start is `*` and the destination is `#`. Cells with `X` are blocked. The answer has a direction for each step.
reasoning_gym (Apache-2.0) generates the problems and judges the answers; only our wording is shorter. A problem has at
least three shortest paths.
"""

from collections.abc import Iterator
from functools import cache
from typing import Any

import reasoning_gym

from experiments.tasks.puzzles import Puzzle, small, task

SIDE, BLOCKED = 5, 0.2
FEWEST = 3  # the smallest number of shortest paths in a problem
WORDS = {"R": "right", "D": "down", "L": "left", "U": "up"}
MOVES = {"R": (0, 1), "D": (1, 0), "L": (0, -1), "U": (-1, 0)}
SIZES = {"min_rows": SIDE, "max_rows": SIDE, "min_cols": SIDE, "max_cols": SIDE, "p_blocked": BLOCKED}


def prompts(count: int) -> Iterator[str]:
    """Generate `count` different grids as prompts."""
    seen: set[str] = set()
    for entry in reasoning_gym.create_dataset("shortest_path", size=50 * count, seed=0, **SIZES):
        prompt = " ".join("".join(row) for row in entry["metadata"]["matrix"]) + ":"
        if prompt not in seen and len(solutions(prompt)) >= FEWEST:
            seen.add(prompt)
            yield prompt
        if len(seen) == count:
            return


def _matrix(prompt: str) -> list[list[str]]:
    return [list(row) for row in prompt.rstrip(":").split()]


@cache
def solutions(prompt: str) -> list[str]:
    """Return all shortest paths, found by breadth-first search."""
    matrix = _matrix(prompt)
    start = next((r, c) for r, row in enumerate(matrix) for c, cell in enumerate(row) if cell == "*")
    paths, seen = {start: [""]}, {start}
    while paths:
        reached: dict[tuple[int, int], list[str]] = {}
        for (row, column), ways in paths.items():
            for name, (down, right) in MOVES.items():
                cell = row + down, column + right
                if (
                    cell not in seen
                    and 0 <= cell[0] < SIDE
                    and 0 <= cell[1] < SIDE
                    and matrix[cell[0]][cell[1]] != "X"
                ):
                    reached.setdefault(cell, []).extend(way + name for way in ways)
        for (row, column), ways in reached.items():
            if matrix[row][column] == "#":
                return ways
        seen |= reached.keys()
        paths = reached
    return []


@cache
def _scorer() -> Any:
    return reasoning_gym.create_dataset("shortest_path", size=1, seed=0, **SIZES)


def is_correct(prompt: str, completion: str) -> bool:
    """Return whether the answer is a shortest path, according to reasoning_gym."""
    if not completion or not set(completion) <= WORDS.keys():
        return False
    oracle = " ".join(WORDS[move] for move in solutions(prompt)[0])
    entry = {"answer": oracle, "metadata": {"matrix": _matrix(prompt)}}
    return _scorer().score_answer(" ".join(WORDS[move] for move in completion), entry) == 1.0


def reward(prompts: list[str], completions: list[str], **_: Any) -> list[float]:
    """Return the rewards for TRL: 1 for a correct answer, 0 for an incorrect one."""
    return [float(is_correct(prompt, text)) for prompt, text in zip(prompts, completions, strict=True)]


PUZZLE = Puzzle(small("OX*#RDLU: "), prompts, solutions, count=3200)
problems = PUZZLE.problems
TASK = task("shortest_path", PUZZLE)

if __name__ == "__main__":
    PUZZLE.start()
