"""The plan of protocol 4 as a list of jobs.

pilot   runs on validation problems, whose rule chooses the rates and the form
look    a few more of them, which choose the rates of a later block
block   runs that are judged on test problems
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from steer_trl.support.exceptions import InvalidValueError

PLAN = Path(__file__).with_name("plan.yaml")
BASELINE = "GRPO"
NAMED = "C2 let go"
"""The arm that the registered sentences are about."""
LIKE_BASELINE = ("STEER", "STARE")
"""The arms that run at the baseline's rate, since their authors' constants say nothing about the rate."""
Plan = dict[str, Any]


class RunName(NamedTuple):
    """The name of a run: `run` tells runs from one start apart."""

    block: str
    arm: str
    start: int
    run: int

    @property
    def unit(self) -> str:
        """The name of the runs that belong together: all arms of a start and a run."""
        return unit_name(self.block, self.start, self.run)


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
        steps_of (`RunName`, *optional*): the run at a constant rate whose number of optimizer steps this run takes.
        tokens_of (`RunName`, *optional*): the run whose number of generated tokens the steps are scaled to.
        stop_early (`dict`, *optional*): how checkpoints are evaluated, the best of which is evaluated as the end is.
        equal_steps (`bool`): whether the checkpoint at the baseline's number of steps is evaluated as the end is.
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
    steps_of: RunName | None = field(default=None, repr=False)
    tokens_of: RunName | None = field(default=None, repr=False)
    stop_early: dict[str, Any] | None = field(default=None, repr=False)
    equal_steps: bool = field(default=False, repr=False)

    @property
    def unit(self) -> str:
        """The name of the runs that belong together: all arms of a start and a run."""
        return unit_name(self.block, self.start, self.run)

    @property
    def is_counted(self) -> bool:
        """Whether the run belongs to a block. The pilot and the looks only choose, on validation problems."""
        return self.split == "test"


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


def at_rate(plan: Plan, arm: str, rate: float, form: str | None) -> str:
    """Return the name of an arm at a rate, and if it lets go, with a form."""
    with_form = f"{arm}, {form}" if form and lets_go(plan, arm) else arm
    return f"{with_form}, rate {rate:g}"


def pilot_arm(plan: Plan, arm: str, rate: float, form: str | None = None) -> str:
    """Return the name of an arm of the pilot, with the form that chooses the rate unless another is named."""
    return at_rate(plan, arm, rate, form or plan["pilot"]["form"])


def pilot_jobs(plan: Plan, arm: str, rates: Iterable[float], form: str | None = None) -> list[Job]:
    """Return the pilot's jobs of an arm at some rates, with the form that chooses the rate unless another is named."""
    pilot = plan["pilot"]
    form = form or pilot["form"]
    named = {pilot_arm(plan, arm, rate, form): _settings(plan, arm, rate, plan["forms"][form]) for rate in rates}
    return [
        _job(plan, "pilot", pilot["split"], name, start, 1, settings)
        for name, settings in named.items()
        for start in pilot["starts"]
    ]


def look_jobs(plan: Plan, name: str) -> list[Job]:
    """Return the jobs of the look before a block: each arm of the look at each rate, with the block's settings."""
    look, block = plan["looks"][name], plan["blocks"][name]
    jobs = []
    for start in look["starts"]:
        for arm in look["arms"]:
            # The pilot did not run F-GRPO together with C2, which takes the steps of C2 alone.
            in_pilot = arm if arm in plan["pilot"]["arms"] else NAMED
            of_pilot = pilot_arm(plan, in_pilot, rate_of(plan, arm), plan["chosen"]["form"])
            constant = RunName("pilot", of_pilot, start, 1)
            for rate in look_rates(plan, name, arm):
                settings = _block_settings(plan, name, arm, rate)
                named = at_rate(plan, arm, rate, form=None)
                job = _job(plan, look_name(name), plan["pilot"]["split"], named, start, block["run"], settings)
                jobs.append(replace(job, steps_of=constant) if "steps_of" in block else job)
    return jobs


def look_name(block: str) -> str:
    """Return the name of the look before a block."""
    return f"{block}_look"


def look_rates(plan: Plan, block: str, arm: str) -> list[float]:
    """Return the rates of an arm that the look before a block compares."""
    return [times * rate_of(plan, arm) for times in plan["looks"][block]["times"]]


def block_units(plan: Plan, name: str) -> list[tuple[int, int]]:
    """Return the starts and runs of a block: one run of each start, and then the second runs."""
    block = plan["blocks"][name]
    first = block.get("run", 1)
    units = [(start, first) for start in block["starts"]]
    return units + [(start, first + 1) for start in block.get("second_runs", ())]


def block_jobs(plan: Plan, name: str) -> list[Job]:
    """Return the jobs of a block: start by start, and after all starts the second runs.

    Raises:
        `InvalidValueError`: the choice of the pilot, or of the look before this block, is not in the plan yet.
    """
    chosen, arms = plan["chosen"], plan["blocks"][name]["arms"]
    if not (chosen["rates"] and chosen["form"]):
        raise InvalidValueError(f"{name} needs `chosen` in plan.yaml. Run the pilot, whose rule fills it.")
    if name in plan["looks"] and not chosen.get(name):
        raise InvalidValueError(f"{name} needs `chosen: {name}` in plan.yaml. Run {look_name(name)}, which finds it.")
    units = block_units(plan, name)
    jobs = [_block_job(plan, name, arm, start, run) for start, run in units for arm in arms]
    # Runs that wait for their baseline would keep a worker idle, so the baseline is made one start ahead.
    return sorted(jobs, key=lambda job: units.index((job.start, job.run)) - (1.5 if _is_awaited(job) else 0))


def _is_awaited(job: Job) -> bool:
    """Return whether other runs of the unit take their number of steps from this one's tokens."""
    return job.steps_of is not None and job.tokens_of is None


def _block_job(plan: Plan, name: str, arm: str, start: int, run: int) -> Job:
    block = plan["blocks"][name]
    settings = _block_settings(plan, name, arm, rate_of(plan, arm, name))
    job = _job(plan, name, block["split"], arm, start, run, settings)
    job = replace(job, equal_steps=arm == block.get("equal_steps"))
    if arm in block.get("stop_early", {}).get("arms", ()):
        job = replace(job, stop_early=block["stop_early"])
    if "steps_of" not in block:
        return job
    # An arm that is run at another rate, too, has the rate in its name.
    constant = RunName(block["steps_of"], arm.partition(", rate ")[0], start, 1)
    baseline = None if arm == BASELINE else RunName(block.get("beside", name), BASELINE, start, run)
    return replace(job, steps_of=constant, tokens_of=baseline)


def rate_of(plan: Plan, arm: str, block: str | None = None) -> float:
    """Return the rate of an arm: by the pilot, or by the look before a block if there was one."""
    rates: dict[str, float] = plan["chosen"]["rates"] | plan["chosen"].get(block, {})
    own_rate: float | None = plan["arms"][arm].get("learning_rate")
    if own_rate is not None:
        return own_rate
    if arm in LIKE_BASELINE:
        return rates[BASELINE]
    return rates[NAMED] if lets_go(plan, arm) else rates[arm]


def _block_settings(plan: Plan, name: str, arm: str, rate: float) -> dict[str, Any]:
    block = plan["blocks"][name]
    form = block.get("form") or plan["forms"][plan["chosen"]["form"]]
    return _settings(plan, arm, rate, form) | block.get("settings", {})


def _settings(plan: Plan, arm: str, rate: float, form: dict[str, float]) -> dict[str, Any]:
    settings = plan["common"] | plan["arms"][arm] | {"learning_rate": rate}
    return settings | form if lets_go(plan, arm) else settings


def _job(plan: Plan, block: str, split: str, arm: str, start: int, run: int, settings: dict[str, Any]) -> Job:
    seeded = settings | {"seed": 100 * start + run}
    evaluation = split, plan["samplings"], plan["start_steps"], plan.get("num_problems")
    return Job(block, arm, start, run, seeded, *evaluation)
