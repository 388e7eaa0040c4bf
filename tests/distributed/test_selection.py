"""The threshold of two processes is that of a sort over the tokens of both; threads try more cases in other tests."""

from pathlib import Path

from support.processes import TWO_PROCESSES, run


def test_two_processes_select_what_a_sort_selects():
    run(Path(__file__).parent / "selection_on_ranks.py", engine=TWO_PROCESSES)
