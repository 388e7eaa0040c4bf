"""Writes a page about one or several runs, and the model cards, from the files in a run's folder.

The command is `steer-trl report RUN [RUN ...]`. In Python:

    from steer_trl import report

    report.write(["runs/grpo", "runs/stare"], "report.html")
"""

from steer_trl.report.page import html, write
from steer_trl.report.read import NoRun, find_runs

__all__ = ["NoRun", "find_runs", "html", "write"]
