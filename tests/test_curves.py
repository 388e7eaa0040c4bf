"""The curves of a run: what the log has is drawn, as it stands there, and nothing else."""

import pytest

from steer_trl import SteerGRPOTrainer
from steer_trl.curves import PANELS, curves

KEYS = [key for _, _, keys in PANELS for key in keys]


def drawn(figure):
    return {line.get_label(): list(map(tuple, line.get_xydata())) for axis in figure.axes for line in axis.get_lines()}


def test_every_curve_of_a_real_log(train):
    log = train(SteerGRPOTrainer, advantage_shaping=["steer", "stare"]).state.log_history
    figure = curves(log, "a run")
    logged = {key: [(entry["step"], entry[key]) for entry in log if key in entry] for key in KEYS}
    assert drawn(figure) == {key: points for key, points in logged.items() if points}
    assert logged.keys() - drawn(figure).keys() == {"hold_entropy/reference"}  # nothing is held here
    assert len(figure.axes) == len(PANELS) and figure.get_suptitle() == "a run"


def test_panels_without_a_key_are_left_out():
    figure = curves([{"step": 1, "entropy": 0.5}, {"step": 2, "loss": 1.0}, {"step": 3, "entropy": 0.25}])
    assert drawn(figure) == {"entropy": [(1, 0.5), (3, 0.25)]} and len(figure.axes) == 1


@pytest.mark.parametrize("log", [[], [{"step": 1, "train_runtime": 3.0}]])
def test_a_log_without_curves_is_refused(log):
    with pytest.raises(ValueError, match=r"log_history has no entropy, reward or weight in any of its \d entries"):
        curves(log)
