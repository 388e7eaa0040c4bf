"""The data sets of the two papers and their usual neighbours, by short name: the rows of `sources.yaml`."""

from dataclasses import dataclass
from importlib.resources import files

import yaml


@dataclass(frozen=True)
class Source:
    """A data set on the Hub; `revision` is a commit, so that its rows cannot change."""

    path: str
    split: str = "train"
    revision: str | None = None
    config: str | None = None


_TABLE = yaml.safe_load(files("steer_trl.data").joinpath("sources.yaml").read_text("utf-8"))
TRAINING, BENCHMARKS = ({name: Source(**row) for name, row in rows.items()} for rows in _TABLE.values())
SOURCES = TRAINING | BENCHMARKS
