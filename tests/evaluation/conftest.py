"""A judge, a model and a few sums."""

import pytest
from support.runs import save_tiny_model

from steer_trl.rewards import MathReward


@pytest.fixture(scope="module")
def judge():
    return MathReward(num_workers=1)


@pytest.fixture(scope="module")
def tiny_folder(tmp_path_factory):
    return save_tiny_model(tmp_path_factory.mktemp("tiny"))


@pytest.fixture
def sums(tmp_path):
    path = tmp_path / "sums.jsonl"
    path.write_text("".join(f'{{"problem": "{i}+1=", "answer": "{i + 1}"}}\n' for i in range(4)))
    return path
