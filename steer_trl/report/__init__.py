"""Writes a page about one or several runs, from the files in their folders.

The command is `steer-trl report RUN [RUN ...]`. In Python:

    from steer_trl import report

    report.write(["runs/grpo", "runs/stare"], "report.html")
"""

from steer_trl.report.page import html, write
from steer_trl.report.read import NoRun, find_runs

__all__ = ["NoRun", "find_runs", "html", "write"]
