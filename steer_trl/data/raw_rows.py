"""Loads the rows of a data set unchanged, from a short name, a name on the Hub or a file."""

import json
import os
import re
from pathlib import Path
from typing import Any

from datasets import Dataset, load_dataset
from datasets.exceptions import DatasetsError

from steer_trl.data.sources import FILE_BUILDERS, SOURCES, file_complaints
from steer_trl.support.exceptions import InvalidValueError, NotThereError

LONG_NUMBER = re.compile(r"[\[:,]\s*-?(?=[\d.]{16})\d++(?:\.\d*+)?+\s*[,\]}\n]")
HUB_PAGE = "https://huggingface.co/datasets/"


def read_rows(
    name_or_path: str,
    split: str | None = None,
    config: str | None = None,
    revision: str | None = None,
    limit: int | None = None,
    keeps_digits: bool = False,
) -> Dataset:
    """Load the rows of a data set with all columns.

    The arguments are those of [`~steer_trl.data.load_math_dataset`]. With `keeps_digits`, all numbers of a JSON file
    are loaded as strings if one of them is too long for a float.
    """
    path = Path(name_or_path).expanduser()
    builder = FILE_BUILDERS.get(path.suffix)
    for complaint in file_complaints(name_or_path):
        raise InvalidValueError(complaint) if path.is_file() or not builder else NotThereError(complaint)
    if builder and config is not None:
        raise InvalidValueError(f"dataset_config={config!r} cannot be combined with the file {name_or_path!r}.")
    if builder:
        arguments: dict[str, Any] = {"path": builder, "data_files": str(path), "split": split or "train"}
    elif source := SOURCES.get(name_or_path):
        arguments = {"path": source.path, "name": config or source.config, "split": split or source.split}
        arguments["revision"] = revision or source.revision
    else:
        arguments = {"path": name_or_path, "name": config, "split": split or "train", "revision": revision}
    is_of_hub = not builder and not os.path.isdir(name_or_path)
    try:
        exact = _read_exactly(path) if builder == "json" and keeps_digits else None
        dataset = exact or load_dataset(**arguments)
    except (ValueError, StopIteration, OSError, DatasetsError) as error:
        reasons = [" ".join(str(cause).split()).rstrip(".") for cause in (error, error.__cause__) if cause]
        # Both mean that the file is empty.
        if isinstance(error, StopIteration) or "corresponds to no data" in reasons[0]:
            raise InvalidValueError(f"data set {name_or_path!r} has no rows. Check the file and the split.") from error
        where = " from the Hub" if is_of_hub else ""
        text = f"data set {name_or_path!r} cannot be loaded{where}: {': '.join(reasons)}."
        raise (ConnectionError if isinstance(error, ConnectionError) else InvalidValueError)(text) from error
    if is_of_hub:
        # The model card shows this page, and `map` and `select` keep it.
        dataset.info.homepage = HUB_PAGE + arguments["path"]
    return dataset if limit is None else dataset.select(range(min(limit, len(dataset))))


def _read_exactly(path: Path) -> Dataset | None:
    """Read a JSON file with its numbers as strings, or return `None` if no number has more than 15 digits."""
    text = path.read_text("utf-8-sig")
    if not LONG_NUMBER.search(text):
        return None
    is_array = text.lstrip().startswith("[")
    parts = [text] if is_array else [line for line in text.splitlines() if line.strip()]
    parsed = [json.loads(part, parse_int=str, parse_float=str) for part in parts]
    return Dataset.from_list(parsed[0] if is_array else parsed)
