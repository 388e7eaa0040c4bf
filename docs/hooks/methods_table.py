"""What follows from the methods' own files: the table of "Several at once" in `docs/methods.md`.

It is written by `make settings` (`settings_table.py`); `tests/test_docs.py` finds out when it is out of date.
"""

import copy
import logging
from pathlib import Path

from steer_trl.config import SteerGRPOConfig
from steer_trl.options.conflicts import surrogate_conflicts
from steer_trl.shaping.base import OF_ROLLOUTS, Shaper
from steer_trl.shaping.methods import SHAPERS

PAGE = Path(__file__).parents[1] / "methods.md"
START, END = "<!-- methods: written by make settings -->\n", "<!-- end of methods -->"
STEPS = {"advantages": 1, "scales": 2, "rollout_bonus": 3, "bonus": 3, "weights": 4, "entropy_coef": 5}
COLUMNS = (
    *("`advantage_shaping`", "step", "random", "loss of its own", "`correct_threshold`", "completions of a rollout"),
    *('`importance_sampling_level="sequence"`', "strength"),
)


def table() -> str:
    """A row for each method, as it is with the default settings."""
    logging.disable(logging.WARNING)  # about clipping that is switched off
    rows = [(f'`"{name}"`', *_row(name, method)) for name, method in SHAPERS.items()]
    logging.disable(logging.NOTSET)
    lines = [f"| {' | '.join(cells)} |\n" for cells in [COLUMNS, *rows]]
    return "".join([lines[0], "|---" * len(COLUMNS) + "|\n", *lines[1:]])


def _row(name: str, method: type[Shaper]) -> tuple[str, ...]:
    args = SteerGRPOConfig(output_dir="unused", use_cpu=True, bf16=False, report_to="none", advantage_shaping=name)
    steps = sorted({step for question, step in STEPS.items() if method.answers(question, args)})
    on_rollouts = any(method.answers(question, args) for question in OF_ROLLOUTS)
    held = "own groups" if method(args).by_group else "all"
    return (
        ", ".join(map(str, steps)),
        "draws" if method.random else "",
        "yes" if method.surrogate else "",
        "reads it" if method.tells_correct else "",
        held if on_rollouts else "",
        _with_ratios_of_completions(name, method, args),
        "" if method.max_strength is None else f"0 to {method.max_strength:g}",
    )


def _with_ratios_of_completions(name: str, method: type[Shaper], args: SteerGRPOConfig) -> str:
    args = copy.copy(args)
    vars(args)["importance_sampling_level"] = "sequence"
    if method.conflicts(args) + surrogate_conflicts(name, method.surrogate, args):
        return "error"
    return "warning" if method.per_token else "as without"


def filled(page: str) -> str:
    """The page with the table in its place."""
    before, rest = page.split(START)
    return f"{before}{START}\n{table()}\n{END}{rest.split(END)[1]}"
