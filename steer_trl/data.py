"""Math problems for training: a Hub data set or a local file, in verl's or TRL's schema, in one shape out.

| schema | question | answer |
|---|---|---|
| verl | `prompt`: list of messages | `reward_model`: `{"ground_truth": ...}` |
| TRL | `prompt`: text or list of messages | `solution` |

Out come `prompt`, a list of messages, and `solution`, the answer in `\\boxed{}`: math-verify reads the raw answers of
some data sets wrongly, and boxed ones rightly.
"""

import re
from pathlib import Path
from typing import Any

from datasets import Dataset, load_dataset
from math_verify import parse, verify
from tqdm import tqdm

from steer_trl.validation import refuse

FILE_BUILDERS = {".parquet": "parquet", ".json": "json", ".jsonl": "json"}


def load_math_dataset(name_or_path: str, split: str = "train", config: str | None = None) -> Dataset:
    """Load problems with `prompt` (messages) and `solution` (boxed), after checking that every answer can be scored.

    Args:
        name_or_path (`str`): a `.parquet`, `.json` or `.jsonl` file, or the name of a data set on the Hub.
        split (`str`): split to load; a local file is all in `"train"`.
        config (`str`, *optional*): configuration of a data set on the Hub that has several.

    Raises:
        `FileNotFoundError`: the name ends like a file and there is none.
        `ValueError`: no rows, neither schema, empty prompts, or answers that are missing, prose, or cannot be parsed.
    """
    path = Path(name_or_path).expanduser()
    builder = FILE_BUILDERS.get(path.suffix)
    if builder and not path.is_file():
        raise FileNotFoundError(f"data set {name_or_path!r} is refused: there is no such file. Check the path.")
    source = {"path": builder, "data_files": str(path)} if builder else {"path": name_or_path, "name": config}
    try:
        raw = load_dataset(**source, split=split)
    except (ValueError, StopIteration) as error:
        if isinstance(error, StopIteration) or "corresponds to no data" in str(error):  # so `datasets` says "empty"
            raise ValueError(
                f"data set {name_or_path!r} is refused: it has no rows. Check the file and the split."
            ) from error
        raise
    convert = _converter(name_or_path, raw)
    dataset = raw.map(convert, remove_columns=raw.column_names, desc="Reading problems")
    _check_rows(name_or_path, dataset)
    return dataset


def boxed(answer: str) -> str:
    r"""Put an answer into `\boxed{}`, unless it has one; a pair of dollar signs around it goes."""
    answer = str(answer).strip()
    if r"\boxed{" in answer:
        return answer
    inside = re.fullmatch(r"(\$\$?)((?:[^$\\]|\\.)+)\1", answer, re.DOTALL)
    return rf"\boxed{{{inside[2].strip() if inside else answer}}}"


def _converter(name: str, raw: Dataset) -> Any:
    columns = set(raw.column_names)
    reward_model = raw.features.get("reward_model")
    is_verl = isinstance(reward_model, dict) and "ground_truth" in reward_model
    if "prompt" not in columns or not ("solution" in columns or is_verl):
        raise ValueError(
            f"data set {name!r} is refused: its columns are {sorted(columns)}. Give verl's schema ('prompt', "
            "'reward_model' with 'ground_truth') or TRL's ('prompt', 'solution')."
        )
    return _from_trl if "solution" in columns else _from_verl


def _from_verl(row: dict[str, Any]) -> dict[str, Any]:
    return _problem(row["prompt"], (row["reward_model"] or {}).get("ground_truth"))


def _from_trl(row: dict[str, Any]) -> dict[str, Any]:
    return _problem(row["prompt"], row["solution"])


def _problem(prompt: str | list[dict[str, str]] | None, answer: str | None) -> dict[str, Any]:
    messages = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt
    return {"prompt": messages or None, "solution": None if answer is None else boxed(answer)}


def _check_rows(name: str, dataset: Dataset) -> None:
    rows: dict[str | None, list[int]] = {}
    for row, solution in enumerate(dataset["solution"]):
        rows.setdefault(solution, []).append(row)
    complaints = []
    unasked = [row for row, prompt in enumerate(dataset["prompt"]) if not prompt]
    if unasked:
        complaints.append(f"{len(unasked)} of {len(dataset)} prompts are empty (row {unasked[0]}). Remove the rows.")
    bad = [solution for solution in tqdm(rows, desc="Checking answers", leave=False) if not _can_be_scored(solution)]
    if bad:
        count = sum(len(rows[solution]) for solution in bad)
        examples = "; ".join(f"row {rows[solution][0]}: {solution!r}" for solution in bad[:3])
        complaints.append(
            f"{count} of {len(dataset)} gold answers cannot be parsed ({examples}). Correct or remove the rows; an "
            r"answer within a text goes into \boxed{}."
        )
    refuse(complaints, f"data set {name!r}")


def _can_be_scored(solution: str | None) -> bool:
    """Whether an answer is there, is no prose, and scores itself.

    math-verify alone is no test: it reads a sentence as a product of letters, which equals itself.
    """
    if solution is None:
        return False
    answer = solution[solution.rindex(r"\boxed{") + len(r"\boxed{") :]
    outside_text = re.sub(r"\\(text|mathrm|mbox|textbf|operatorname)\s*\{[^}]*\}", "", answer)
    is_prose = re.search(r"(?<![\\A-Za-z])[A-Za-z]{2,}\s+[A-Za-z]{2,}", outside_text)
    if is_prose or not re.search(r"\w", answer):
        return False
    gold = parse(solution)
    return bool(gold) and verify(gold, gold)
