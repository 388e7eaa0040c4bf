"""The settings on the page for people who come from elsewhere exist, and are accepted with the values that it gives.

The left column of its tables is about other software, which is not installed here. The others are ours and TRL's.
"""

import re
from dataclasses import fields

import pytest
import yaml
from support import ROOT
from support.runs import ON_CPU
from trl import ModelConfig

from steer_trl import SteerGRPOConfig
from steer_trl.cli.arguments import MathArguments

PAGE = (ROOT / "docs/coming_from.md").read_text()
SETTING = re.compile(r"`([a-z]\w+)(?:: ([^`]+))?`")
OURS = {field.name for kind in (SteerGRPOConfig, MathArguments, ModelConfig) for field in fields(kind)}
OF_A_RUN = {field.name for field in fields(SteerGRPOConfig)}
# A method of a reader's own, and what needs a GPU.
ELSEWHERE = {"advantage_shaping: my.module.Method", "use_vllm: true", "vllm_mode: colocate"}


def cells():
    """The cells of each table but those of its first column."""
    for line in PAGE.splitlines():
        if line.startswith("| ") and not line.startswith("|---"):
            yield from line.replace("\\|", "").strip("| ").split(" | ")[1:]


def alternatives(cell):
    """The settings of a cell by name; several are meant together unless a semicolon stands between them."""
    for part in cell.split(";"):
        found = {name: value for name, value in SETTING.findall(part) if value}
        if found:
            yield {name: yaml.safe_load(value) for name, value in found.items()}


GIVEN = [settings for cell in cells() for settings in alternatives(cell)]


def test_the_page_gives_settings():
    assert len(GIVEN) > 30


@pytest.mark.parametrize("settings", GIVEN, ids=str)
def test_settings_are_accepted(settings):
    assert settings.keys() <= OURS
    text = {f"{name}: {value}" for name, value in settings.items()}
    of_a_run = {name: value for name, value in settings.items() if name in OF_A_RUN}
    if not text & ELSEWHERE and "use_vllm" not in settings:
        shaping = {"advantage_shaping": "none"} if not of_a_run.keys() & {"advantage_shaping", "hold_entropy"} else {}
        args = SteerGRPOConfig(output_dir="unused", **ON_CPU | {"num_generations": 8} | shaping | of_a_run)
        assert {name: getattr(args, name) for name in of_a_run} == of_a_run
