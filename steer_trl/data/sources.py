"""The data sets with a short name, from `sources.yaml`: those of STEER and STARE, and other common ones."""

from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

import yaml

from steer_trl.support.validation import did_you_mean

FILE_BUILDERS = {".parquet": "parquet", ".json": "json", ".jsonl": "json", ".csv": "csv"}


@dataclass(frozen=True)
class Source:
    """A data set on the Hub. `revision` is a commit, so that the rows cannot change."""

    path: str
    split: str = "train"
    revision: str | None = None
    config: str | None = None


_TABLE = yaml.safe_load(files("steer_trl.data").joinpath("sources.yaml").read_text("utf-8"))
TRAINING, BENCHMARKS = ({name: Source(**row) for name, row in rows.items()} for rows in _TABLE.values())
SOURCES = TRAINING | BENCHMARKS


def file_complaints(name_or_path: str) -> list[str]:
    """Return a complaint if a name is a missing file, a file of an unknown kind, or a misspelt short name."""
    path = Path(name_or_path).expanduser()
    if path.suffix in FILE_BUILDERS and not path.is_file():
        return [f"data set {name_or_path!r}: there is no such file. Check the path."]
    if path.is_file() and path.suffix not in FILE_BUILDERS:
        return [f"data set {name_or_path!r} must be a {' or '.join(FILE_BUILDERS)} file. Convert or rename it."]
    hint = did_you_mean(name_or_path, SOURCES)
    if "/" not in name_or_path and name_or_path not in SOURCES and hint and not path.exists():
        return [f"data set {name_or_path!r} is no short name.{hint} Short names are {', '.join(SOURCES)}."]
    return []
