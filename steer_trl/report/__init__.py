"""One page that shows what happened in a run, from its folder alone: `steer-trl report RUN [RUN ...]`.

read.py         a folder as a `Run`: its log, alarms, looks at tokens; whatever else lies there does no harm
methods.py      a sentence about each method
evaluations.py  the evaluations below a run: their intervals, runs compared, sweeps over temperatures
tokens.py       some groups of completions, cut to a size that a browser takes
data.py         the runs as the page's data: panels, thinned curves, seeds put together, settings that differ
page.py         the data, the style and the scripts in one file that asks nobody for anything

from steer_trl import report

report.write(["runs/grpo", "runs/stare"], "report.html")
"""

from steer_trl.report.page import html, write
from steer_trl.report.read import NoRun, find_runs

__all__ = ["NoRun", "find_runs", "html", "write"]
