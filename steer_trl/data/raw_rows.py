"""Loads the rows of a data set unchanged, from a short name, a name on the Hub or a file."""

import json
import os
import re
from itertools import chain
from pathlib import Path
from typing import Any

from datasets import Dataset, ReadInstruction, load_dataset
from datasets.exceptions import DatasetsError

from steer_trl.data.sources import FILE_BUILDERS, SOURCES, file_complaints
from steer_trl.support.exceptions import InvalidValueError, NotThereError

LONG_NUMBER = re.compile(r"[\[:,]\s*-?(?=[\d.]{16})\d++(?:\.\d*+)?+\s*[,\]}\n]")
# Only these four characters may stand between two values of JSON.
START_OF_VALUE = re.compile(r"[^ \t\n\r]")
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
    no_rows = f"data set {name_or_path!r} has no rows. Check the file and the split."
    try:
        exact = _read_exactly(path, split or "train") if builder == "json" and keeps_digits else None
        dataset = load_dataset(**arguments) if exact is None else exact
    except (ValueError, StopIteration, OSError, DatasetsError) as error:
        reasons = [" ".join(str(cause).split()).rstrip(".") for cause in (error, error.__cause__) if cause]
        # Both mean that the file is empty.
        if isinstance(error, StopIteration) or "corresponds to no data" in reasons[0]:
            raise InvalidValueError(no_rows) from error
        where = " from the Hub" if is_of_hub else ""
        text = f"data set {name_or_path!r} cannot be loaded{where}: {': '.join(reasons)}."
        raise (ConnectionError if isinstance(error, ConnectionError) else InvalidValueError)(text) from error
    if not len(dataset):
        raise InvalidValueError(no_rows)
    if is_of_hub:
        # The model card shows this page, and `map` and `select` keep it.
        dataset.info.homepage = HUB_PAGE + arguments["path"]
    return dataset if limit is None else dataset.select(range(min(limit, len(dataset))))


def _read_exactly(path: Path, split: str) -> Dataset | None:
    """Read a split of a JSON file with its numbers as strings.

    Return `None` if no number of the file has more than 15 digits.
    """
    text = path.read_text("utf-8-sig")
    if not LONG_NUMBER.search(text):
        return None
    rows = _parse_rows(text)
    # A row may lack columns that another one has.
    names = dict.fromkeys(chain.from_iterable(rows))
    columns = {name: [row.get(name) for row in rows] for name in names}
    return _take_split(Dataset.from_dict(columns, on_mixed_types="use_json"), split)


def _parse_rows(text: str) -> list[dict[str, Any]]:
    """Return the rows of a JSON array, or of JSON objects one after the other, with their numbers as strings."""
    decoder = json.JSONDecoder(parse_int=str, parse_float=str)
    values: list[Any] = []
    end = 0
    while start := START_OF_VALUE.search(text, end):
        value, end = decoder.raw_decode(text, start.start())
        values.append(value)
    rows = values[0] if len(values) == 1 and isinstance(values[0], list) else values
    if not all(isinstance(row, dict) for row in rows):
        raise ValueError("a row is no JSON object")
    return rows


def _take_split(rows: Dataset, split: str) -> Dataset:
    """Return the rows of a file that a split such as `train[:80%]` names.

    As in `datasets`, a file has only the split `train`, and `all` is every split.
    """
    instruction = ReadInstruction.from_spec("train" if split == "all" else split)
    slices = instruction.to_absolute({"train": len(rows)})
    return rows.select([number for part in slices for number in range(part.from_, part.to)])
