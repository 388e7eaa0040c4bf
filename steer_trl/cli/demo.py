"""`steer-trl demo`: trains a small model twice, with plain GRPO and with a held entropy, and compares the results.

It takes some seven minutes on two cores, without a GPU or a download. The same command continues it.
"""

from pathlib import Path

from steer_trl.cli.errors import OneLineParser
from steer_trl.demo.picture import draw
from steer_trl.demo.result import CAUTION, Result
from steer_trl.demo.runs import Demo

NEXT = """Next:
  steer-trl report {0}/grpo {0}/held -o {0}/report.html    every curve and single tokens, as a page
  steer-trl compare {0}/grpo/_test {0}/held/_test    every metric, with intervals
  steer-trl recipes recommended_lora_24gb    the same setting for a model of yours"""


def main(arguments: list[str]) -> None:
    """Train both models, print a comparison, and draw a picture."""
    parser = OneLineParser("steer-trl demo", allow_abbrev=False, description=(__doc__ or "").replace("`", ""))
    parser.add_argument("--output_dir", type=Path, default=Path("runs/demo"), help="folder of everything; runs/demo")
    parser.add_argument("--seed", type=int, default=0, help="0 has its start in the package, others make one first")
    parser.add_argument("--tokens", type=int, default=Demo.tokens, help=f"that each run generates; {Demo.tokens:,}")
    parser.add_argument("--problems", type=int, default=Demo.problems, help=f"to test on; {Demo.problems}")
    options = parser.parse_args(arguments)
    folder = options.output_dir
    Demo(options.seed, options.tokens, options.problems).run(folder)
    result = Result(folder)
    result.save()
    draw(result).savefig(folder / "demo.png", dpi=150)
    shown = [result.answers(), result.table(), CAUTION, result.sentence()]
    print("\n\n".join(["", *shown, f"Picture: {folder}/demo.png", NEXT.format(folder)]))  # noqa: T201
