"""The console script: `steer-trl train ...`, `steer-trl eval ...` and `steer-trl report ...`."""

import sys
from collections.abc import Callable, Sequence

USAGE = """usage: steer-trl COMMAND [--config FILE.yaml] [--FIELD VALUE ...]

  train   train a model on math problems; --accelerate_config FILE starts it on several processes
  eval    measure a saved model on the papers' benchmarks
  report  show what happened in one run or several, as a page

`steer-trl COMMAND --help` lists the fields."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a sub-command; its modules are loaded only then."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    commands: dict[str, Callable[[], Callable[[list[str]], None]]] = {
        "train": _train,
        "eval": _eval,
        "report": _report,
    }
    if not arguments or arguments[0] not in commands:
        asked_for_help = bool(arguments) and arguments[0] in ("-h", "--help")
        print(USAGE, file=sys.stdout if asked_for_help else sys.stderr)
        raise SystemExit(0 if asked_for_help else 2)
    commands[arguments[0]]()(arguments[1:])


def _train() -> Callable[[list[str]], None]:
    from steer_trl.cli.train import main

    return main


def _eval() -> Callable[[list[str]], None]:
    from steer_trl.cli.evaluate import main

    return main


def _report() -> Callable[[list[str]], None]:
    from steer_trl.cli.report import main

    return main
