"""`steer-trl report`: writes one page about a run, or about several runs overlaid.

The page needs no network.
"""

from steer_trl.cli.errors import OneLineParser
from steer_trl.report import write


def main(arguments: list[str]) -> None:
    """Write the page and print its path."""
    parser = OneLineParser("steer-trl report", allow_abbrev=False, description=(__doc__ or "").replace("`", ""))
    parser.add_argument("runs", nargs="+", metavar="RUN", help="folder of a run, or of several runs")
    parser.add_argument("-o", "--output", default="report.html", help="the page; report.html by default")
    options = parser.parse_args(arguments)
    path = write(options.runs, options.output)
    print(f"{path} ({path.stat().st_size / 1e6:.1f} MB). Open it in a browser; it needs no network.")  # noqa: T201
