"""Makes the table of "Several at once" in `docs/methods.md` from the methods' classes.

`make settings` writes it (`settings_table.py`). `tests/test_docs.py` fails if it is out of date.
"""

import copy
import logging
from collections.abc import Iterator
from pathlib import Path

from steer_trl.config import SteerGRPOConfig
from steer_trl.shaping.base import ROLLOUT_HOOKS, Shaper
from steer_trl.shaping.checks import need_complaints
from steer_trl.shaping.methods import SHAPERS

PAGE = Path(__file__).parents[2] / "docs/methods.md"
START, END = "<!-- methods: written by make settings -->\n", "<!-- end of methods -->"
STEPS = {
    "advantages": "1. replaces the advantages",
    "scales": "2. scales whole completions",
    "rollout_bonus": "3. adds",
    "bonus": "3. adds",
    "weights": "4. weights tokens, by what step 3 left",
    "entropy_coef": "5. TRL's entropy bonus, beside the advantages",
    "kl_coef": "5. TRL's KL penalty, beside the advantages",
}


def table() -> str:
    """Return the table: a row for each property, with the methods that have it under their default settings."""
    logging.disable(logging.WARNING)  # without the warning that clipping is switched off
    rows: dict[str, list[str]] = {}
    for name, method in SHAPERS.items():
        for title, value in _properties(name, method):
            rows.setdefault(title, []).append(f"`{name}`{value}")
    logging.disable(logging.NOTSET)
    lines = [f"| {title} | {', '.join(names)} |\n" for title, names in sorted(rows.items())]
    return "".join(["| | methods |\n|---|---|\n", *lines])


def _properties(name: str, method: type[Shaper]) -> Iterator[tuple[str, str]]:
    """Yield the title of each row that a method belongs in, and a text to print after its name."""
    # A method in the place of TRL's KL penalty needs its coefficient.
    beta = 0.05 if method.replaces_kl else 0.0
    options = {"use_cpu": True, "bf16": False, "report_to": "none", "beta": beta}
    args = SteerGRPOConfig(output_dir="unused", advantage_shaping=name, **options)
    for step in sorted({step for question, step in STEPS.items() if method.overrides(question)}):
        yield step, ""
    if method.overrides(*ROLLOUT_HOOKS):
        yield f"reads {'the whole rollout' if 'all_ranks' in method.reads else 'whole groups'}", ""
    if "draws" in method.reads:
        yield "draws tokens at random", ""
    if method.surrogate:
        yield "has a loss of its own", ""
    if "correct_threshold" in method.settings():
        yield "reads `correct_threshold`", ""
    if said := _with_ratios_of_completions(name, method, args):
        yield f'with `importance_sampling_level="sequence"`: {said}', ""
    if method.control is not None:
        yield "has a strength", f" (0 to {method.control.max_strength:g})"


def _with_ratios_of_completions(name: str, method: type[Shaper], args: SteerGRPOConfig) -> str:
    args = copy.copy(args)
    vars(args)["importance_sampling_level"] = "sequence"
    if need_complaints(name, method, args):
        return "error"
    return "warning" if method.distinguishes_tokens else ""


def filled(page: str) -> str:
    """Return the page with a new table between its two marks."""
    before, rest = page.split(START)
    return f"{before}{START}\n{table()}\n{END}{rest.split(END)[1]}"
