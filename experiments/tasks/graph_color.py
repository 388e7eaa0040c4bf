"""Colour the vertices of a graph with three colours so that neighbours differ: reasoning_gym's `graph_color`.

    01 04 12 35 67:   ->   12213112

The prompt lists the edges of a graph of eight vertices, the answer has a colour for each. The generator and verdict
are reasoning_gym's (Apache-2.0); only the wording is shorter. A problem has between 6 and 240 correct answers.
"""

from collections.abc import Iterator
from functools import cache
from itertools import product
from typing import Any

import reasoning_gym
from puzzles import Puzzle, task
from reasoning_gym.algorithmic.graph_color import verify_graph_coloring_solution

VERTICES, COLORS = 8, (1, 2, 3)
FEWEST, MOST = 6, 240  # answers


def prompts(count: int) -> Iterator[str]:
    """Generate different graphs."""
    sizes = {"min_num_vertices": VERTICES, "max_num_vertices": VERTICES, "edge_probability": 0.45}
    seen: set[str] = set()
    for entry in reasoning_gym.create_dataset("graph_color", size=50 * count, seed=0, **sizes):
        prompt = " ".join(f"{u}{v}" for u, v in entry["metadata"]["puzzle"]["edges"]) + ":"
        if prompt not in seen and FEWEST <= len(solutions(prompt)) <= MOST:
            seen.add(prompt)
            yield prompt
        if len(seen) == count:
            return


def is_correct(prompt: str, completion: str) -> bool:
    """Ask reasoning_gym whether the answer colours every vertex, and neighbours differently."""
    if len(completion) != VERTICES or not completion.isascii() or not completion.isdigit():
        return False
    edges = [tuple(map(int, edge)) for edge in prompt.rstrip(":").split()]
    puzzle = {"vertices": list(range(VERTICES)), "edges": edges, "color_options": list(COLORS)}
    return verify_graph_coloring_solution(puzzle, dict(enumerate(map(int, completion))))[0]


@cache
def solutions(prompt: str) -> list[str]:
    """All correct answers."""
    edges = [tuple(map(int, edge)) for edge in prompt.rstrip(":").split()]
    colourings = product("123", repeat=VERTICES)
    return ["".join(colours) for colours in colourings if all(colours[u] != colours[v] for u, v in edges)]


def reward(prompts: list[str], completions: list[str], **_: Any) -> list[float]:
    """Reward function for TRL: 1 for a correct answer, 0 for an incorrect one."""
    return [float(is_correct(prompt, text)) for prompt, text in zip(prompts, completions, strict=True)]


PUZZLE = Puzzle("01234567: ", prompts, solutions, count=3200)
problems = PUZZLE.problems
TASK = task("graph_color", PUZZLE)

if __name__ == "__main__":
    PUZZLE.start()
