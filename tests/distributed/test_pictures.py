"""Two ranks, of which only one has pictures in its rollout, agree on whether padding is skipped."""

from pathlib import Path

from support.processes import TWO_PROCESSES, run

SCRIPT = Path(__file__).parent / "mixed_pictures.py"


def test_pictures_on_one_rank_stop_no_other():
    padded, skipping = (last_line(SCRIPT, switch) for switch in ("false", "true"))
    assert "after 2 steps" in padded and padded == skipping


def last_line(*words):
    """The last line that two processes write. Lines before it are of the libraries, and come in any order."""
    return run(*words, engine=TWO_PROCESSES).stdout.splitlines()[-1]
