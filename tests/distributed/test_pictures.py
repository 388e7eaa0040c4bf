"""Two ranks, of which only one has pictures in its rollout, agree on whether padding is skipped."""

from pathlib import Path

from support.processes import TWO_PROCESSES, run

SCRIPT = Path(__file__).parent / "mixed_pictures.py"


def test_pictures_on_one_rank_stop_no_other():
    padded, skipping = (run(SCRIPT, switch, engine=TWO_PROCESSES).stdout for switch in ("false", "true"))
    assert "after 2 steps" in padded and padded == skipping
