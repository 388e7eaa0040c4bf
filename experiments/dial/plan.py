"""The plan of protocol 3 as a list of jobs."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

PLAN = Path(__file__).with_name("plan.yaml")


@dataclass(frozen=True)
class Job:
    """One training run.

    Attributes:
        block (`str`), arm (`str`), start (`int`): identify the run. `start` is the seed of the start model and of the
            training run.
        regime (`str`): `"short"` or `"long"`.
        start_steps (`int`): the number of supervised steps of the start model.
        settings (`dict`): the settings of `steer-trl train` that are added to the task's recipe.
        evaluation (`dict`): the `splits` and `samplings` for evaluating the final model.
        checkpoint_evaluation (`dict`, *optional*): the settings for evaluating checkpoints.
        continues (`bool`): whether the run continues the shorter run of the same arm and start.
    """

    block: str
    arm: str
    start: int
    regime: str
    start_steps: int
    settings: dict[str, Any] = field(repr=False)
    evaluation: dict[str, Any] = field(repr=False)
    checkpoint_evaluation: dict[str, Any] | None = field(default=None, repr=False)
    continues: bool = False

    @property
    def is_pilot(self) -> bool:
        """Whether the run is used only for choosing settings, and does not count as a result."""
        return self.block.startswith("pilot")

    @property
    def keeps_checkpoints(self) -> bool:
        """Whether the run repeats another one, and keeps the checkpoints of it all."""
        return "save_total_limit" in self.settings

    @property
    def folder(self) -> str:
        """The folder of the run's published file, below that of the experiment."""
        before = "pilot" if self.is_pilot else ""
        after = "6m" if self.continues else "way" if self.keeps_checkpoints else ""
        return "-".join(filter(None, [before, self.regime, after]))

    @property
    def file(self) -> str:
        """The name of the run's published file."""
        return file_name(self.arm, self.start)


def file_name(arm: str, start: int) -> str:
    """Return the name of the published file of an arm and a start. The arm `"start"` is the start model."""
    return f"{re.sub(r'[^a-z0-9.]+', '-', arm.lower()).strip('-')}-start{start}.json"


def read_plan(path: Path = PLAN) -> dict[str, Any]:
    """Read the plan from its file."""
    plan: dict[str, Any] = yaml.safe_load(path.read_text())
    return plan


def jobs_of(plan: dict[str, Any], blocks: Sequence[str] = ()) -> list[Job]:
    """Return the jobs of some blocks, or of all, in the order in which they are run."""
    return [job for name in blocks or plan["blocks"] for job in _jobs_of_block(plan, name, plan["blocks"][name])]


def _jobs_of_block(plan: dict[str, Any], name: str, block: dict[str, Any]) -> list[Job]:
    regime = plan["regimes"][block["regime"]]
    tokens = block.get("tokens", regime["tokens"])
    evaluations = plan["evaluations"]
    jobs = []
    for start in block["starts"]:
        for arm in block["arms"]:
            for rate in block.get("rates", [None]):
                settings = plan["common"] | regime["settings"] | plan["arms"][arm]
                settings |= {"seed": start, "max_generated_tokens": tokens} | block.get("settings", {})
                if rate is not None:
                    settings["learning_rate"] = rate
                jobs.append(
                    Job(
                        block=name,
                        arm=arm if rate is None else f"{arm}, rate {rate:g}",
                        start=start,
                        regime=block["regime"],
                        start_steps=regime["start_steps"],
                        settings=settings,
                        evaluation=evaluations[block.get("evaluation", "counted")],
                        checkpoint_evaluation=evaluations["checkpoint"] if block.get("checkpoints") else None,
                        continues=tokens != regime["tokens"],
                    )
                )
    return jobs
