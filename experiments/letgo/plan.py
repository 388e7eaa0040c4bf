"""The plan of protocol 4 as a list of jobs."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from steer_trl.support.exceptions import InvalidValueError

PLAN = Path(__file__).with_name("plan.yaml")
BASELINE = "GRPO"
NAMED = "C2 let go"
"""The arm that the registered sentences are about."""
LIKE_BASELINE = ("STEER", "STARE")
"""The arms that run at the baseline's rate, since their authors' constants say nothing about the rate."""
Plan = dict[str, Any]


@dataclass(frozen=True)
class Job:
    """One training run.

    Attributes:
        block (`str`), arm (`str`), start (`int`), run (`int`): identify the run. `start` is the seed of the start
            model, and `run` tells runs from one start apart.
        settings (`dict`): the settings of `steer-trl train` that are added to the task's recipe.
        split (`str`), samplings (`list[str]`): how the model at the end is evaluated.
        start_steps (`int`): the number of supervised steps of the start model.
        num_problems (`int`, *optional*): the number of problems for the evaluation, if fewer than all.
    """

    block: str
    arm: str
    start: int
    run: int
    settings: dict[str, Any] = field(repr=False)
    split: str = field(repr=False)
    samplings: list[str] = field(repr=False)
    start_steps: int = field(repr=False)
    num_problems: int | None = field(repr=False)

    @property
    def unit(self) -> str:
        """The name of the runs that belong together: all arms of a start and a run."""
        return unit_name(self.block, self.start, self.run)


def unit_name(block: str, start: int, run: int = 1) -> str:
    """Return the name of all arms of a start and a run."""
    return f"{block}-start{start}-run{run}"


def read_plan(path: Path = PLAN) -> Plan:
    """Read the plan from its file."""
    plan: Plan = yaml.safe_load(path.read_text())
    return plan


def lets_go(plan: Plan, arm: str) -> bool:
    """Return whether an arm holds the entropy, so that it has a form."""
    return "hold_entropy" in plan["arms"][arm]


def pilot_arm(plan: Plan, arm: str, rate: float, form: str | None = None) -> str:
    """Return the name of an arm of the pilot at a rate, and if it lets go, with a form."""
    form = form or plan["pilot"]["form"]
    return f"{arm}, {form}, rate {rate:g}" if lets_go(plan, arm) else f"{arm}, rate {rate:g}"


def pilot_jobs(plan: Plan, arm: str, rates: Iterable[float], form: str | None = None) -> list[Job]:
    """Return the pilot's jobs of an arm at some rates, with the form that chooses the rate unless another is named."""
    pilot = plan["pilot"]
    form = form or pilot["form"]
    named = {pilot_arm(plan, arm, rate, form): _settings(plan, arm, rate, form) for rate in rates}
    return [
        _job(plan, "pilot", pilot["split"], name, start, 1, settings)
        for name, settings in named.items()
        for start in pilot["starts"]
    ]


def block_jobs(plan: Plan, name: str) -> list[Job]:
    """Return the jobs of a block: start by start, and after all starts the second runs.

    Raises:
        `InvalidValueError`: the pilot's choice is not in the plan yet.
    """
    block, chosen = plan["blocks"][name], plan["chosen"]
    if not (chosen["rates"] and chosen["form"]):
        raise InvalidValueError(f"{name} needs `chosen` in plan.yaml. Run the pilot, whose rule fills it.")
    first = block.get("run", 1)
    units = [(start, first) for start in block["starts"]]
    units += [(start, first + 1) for start in block.get("second_runs", ())]
    of_block = block.get("settings", {})
    settings = {arm: _settings(plan, arm, rate_of(plan, arm), chosen["form"]) | of_block for arm in block["arms"]}
    return [
        _job(plan, name, block["split"], arm, start, run, settings[arm])
        for start, run in units
        for arm in block["arms"]
    ]


def rate_of(plan: Plan, arm: str) -> float:
    """Return the rate of an arm in the counted blocks."""
    rates: dict[str, float] = plan["chosen"]["rates"]
    own_rate: float | None = plan["arms"][arm].get("learning_rate")
    if own_rate is not None:
        return own_rate
    if arm in LIKE_BASELINE:
        return rates[BASELINE]
    return rates[NAMED] if lets_go(plan, arm) else rates[arm]


def _settings(plan: Plan, arm: str, rate: float, form: str) -> dict[str, Any]:
    settings = plan["common"] | plan["arms"][arm] | {"learning_rate": rate}
    return settings | plan["forms"][form] if lets_go(plan, arm) else settings


def _job(plan: Plan, block: str, split: str, arm: str, start: int, run: int, settings: dict[str, Any]) -> Job:
    seeded = settings | {"seed": 100 * start + run}
    evaluation = split, plan["samplings"], plan["start_steps"], plan.get("num_problems")
    return Job(block, arm, start, run, seeded, *evaluation)
