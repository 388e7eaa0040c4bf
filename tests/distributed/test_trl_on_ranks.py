"""Without a method, two ranks train as those of TRL, also where rows travel and the loss is not TRL's own."""

import json
import math
from pathlib import Path

import pytest
from support.processes import TWO_PROCESSES, run

SCRIPT = Path(__file__).parent / "trl_on_ranks.py"
CASES = ["vespo", "sequence", "own_loss", "holes", "split_batches"]
TIMES = {"step_time", "train_runtime", "train_samples_per_second", "train_steps_per_second"}


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ranks")
    run(SCRIPT, "out.json", engine=TWO_PROCESSES, folder=folder)
    return json.loads((folder / "out.json").read_text())


@pytest.mark.parametrize("case", CASES)
def test_the_update_is_that_of_trl(results, case):
    result = results[case]
    assert result["size"] > 0.01
    assert result["in_order"] < 1e-5 and result["ordered"] < 1e-5


@pytest.mark.parametrize("case", CASES)
def test_each_logged_number_is_that_of_trl_in_its_order(results, case):
    log, in_order = results[case]["logs"]
    for entry, other in zip(log, in_order, strict=True):
        for key in entry.keys() - TIMES:
            if isinstance(entry[key], (int, float)) and not math.isnan(entry[key]):
                assert other[key] == pytest.approx(entry[key], rel=1e-4, abs=1e-6), key


def test_rows_travel_unless_the_loss_is_not_that_of_trl(results):
    """Otherwise the cases with one rank's short completions would prove little."""
    assert results["vespo"]["travelled"] and results["sequence"]["travelled"]
    assert not results["own_loss"]["travelled"]
