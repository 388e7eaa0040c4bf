r"""Loads math problems by short name, by name on the Hub or from local files. All get the same columns.

The columns are `prompt` (messages, ending with the problem under one instruction), `solution` (the gold answer in
`\boxed{}`), `source` and `id`. If a problem occurs several times, only its first row is kept, or no row if the answers
disagree. Problems whose answer cannot be used for scoring are removed. A printed line states how many rows were
removed, and why.
"""

import hashlib
import os
import sys
import unicodedata
from collections import Counter
from collections.abc import Sequence
from functools import cache
from importlib.metadata import version
from pathlib import Path
from textwrap import shorten
from typing import Any

from datasets import Dataset, Features, List, Value, concatenate_datasets
from tqdm import tqdm

from steer_trl.data.instructions import INSTRUCTIONS, add_instruction
from steer_trl.data.raw_rows import read_rows
from steer_trl.data.schemas import QUESTIONS, answer_columns, read_row
from steer_trl.data.sources import SOURCES
from steer_trl.rewards import MathReward
from steer_trl.rewards.answers import ANSWER_FORMATS
from steer_trl.rewards.golds import NO_ANSWER, PROGRAM, PROOF
from steer_trl.support.exceptions import InvalidValueError
from steer_trl.support.validation import check_choice, check_interval, did_you_mean, refuse

FULL_WIDTH = {0xFF01 + i: 0x21 + i for i in range(94)}
# A larger share of unreadable answers means that the answer column is wrong.
MAX_UNREADABLE = 0.05

MESSAGES = List({"role": Value("string"), "content": Value("string")})
TEXT = Value("string")


def load_math_dataset(
    name_or_path: str | Sequence[str],
    split: str | None = None,
    config: str | None = None,
    *,
    revision: str | None = None,
    answer_format: str = "boxed",
    instruction: str | None = None,
    prompt_column: str | None = None,
    answer_column: str | None = None,
    limit: int | None = None,
) -> Dataset:
    r"""Load the problems that can be scored, with the columns `prompt`, `solution`, `source` and `id`.

    Args:
        name_or_path (`str` or several): a short name of [`~steer_trl.data.SOURCES`], a name on the Hub, or a
            `.parquet`, `.json`, `.jsonl` or `.csv` file, in any of the schemas of `steer_trl/data/schemas.py`. Several
            data sets are concatenated, and duplicate problems are removed across all of them.
        split (`str`, *optional*): the split to load; by default, the split of the short name, or `"train"`. A file has
            only `"train"`.
        config (`str`, *optional*): the configuration, for a data set on the Hub that has several.
        revision (`str`, *optional*): a commit on the Hub; by default, the commit of the short name.
        answer_format (`str`): `"boxed"`, or `"answer_line"` for DAPO's last line `Answer: ...`. The reward must have
            the same setting.
        instruction (`str`, *optional*): a custom wording, with `{problem}` once; `"{problem}"` is the problem alone.
        prompt_column, answer_column (`str`, *optional*): the columns that hold the questions and the answers, if the
            schemas do not know the data set's column names or would pick a different column.
        limit (`int`, *optional*): number of rows to read from the beginning of each data set; all by default.

    Raises:
        `FileNotFoundError`: the name has a file's extension, and no such file exists.
        `ValueError`: there are no rows, no question or answer column, or no usable problem; more than 5 % of the
            answers cannot be scored; or an argument is out of range.
    """
    refuse(argument_complaints(answer_format, instruction, limit), "load_math_dataset")
    names = [name_or_path] if isinstance(name_or_path, str) else list(name_or_path)
    read = []
    for name in names:
        raw = read_rows(name, split, config, revision, limit, keeps_digits=True)
        raw, answers = _rename_columns(raw, prompt_column, answer_column, name)
        read.append(
            raw.map(
                read_row,
                with_indices=True,
                fn_kwargs={
                    "answers": answers,
                    "source": name if name in SOURCES else Path(name).stem,
                    "versions": find_versions(),
                },
                remove_columns=raw.column_names,
                features=Features(
                    {"messages": MESSAGES, **dict.fromkeys(("problem", "solution", "source", "id", "fault"), TEXT)}
                ),
                desc="Reading problems",
            )
        )
    problems = _select(read[0] if len(read) == 1 else concatenate_datasets(read), " + ".join(names))
    return problems.map(
        _finish,
        with_indices=True,
        fn_kwargs={
            "instruction": instruction or INSTRUCTIONS[answer_format],
            "ids": problems["id"] if len(set(problems["id"])) == len(problems) else None,
        },
        remove_columns=problems.column_names,
        features=Features({"prompt": MESSAGES, "solution": TEXT, "source": TEXT, "id": TEXT}),
        desc="Writing prompts",
    )


def argument_complaints(answer_format: str, instruction: str | None, limit: int | None) -> list[str]:
    """Return complaints about arguments of [`load_math_dataset`] that are invalid for any data."""
    complaints = check_choice("answer_format", answer_format, ANSWER_FORMATS)
    complaints += [] if limit is None else check_interval("limit", limit, "[1, inf)")
    if instruction is not None and instruction.count("{problem}") != 1:
        complaints.append(
            f"instruction must contain {{problem}} exactly once, where the problem goes, got {instruction!r}."
        )
    return complaints


def _rename_columns(raw: Dataset, prompt: str | None, answer: str | None, name: str) -> tuple[Dataset, list[str]]:
    """Rename the question column to a known name. Return the rows, and the names of the answer columns."""
    complaints = [
        f"{field}={column!r} is no column of data set {name!r}.{did_you_mean(column, raw.column_names)} Its columns "
        f"are {sorted(raw.column_names)}."
        for field, column in {"prompt_column": prompt, "answer_column": answer}.items()
        if column is not None and column not in raw.column_names
    ]
    refuse(complaints, f"data set {name!r}")
    if prompt is not None:
        raw = raw.remove_columns([q for q in QUESTIONS if q in raw.column_names and q not in (prompt, answer)])
        raw = raw if prompt in QUESTIONS else raw.rename_column(prompt, QUESTIONS[0])
    answers = [answer] if answer else answer_columns(raw.features)
    missing = []
    if not any(column in raw.column_names for column in QUESTIONS):
        missing.append("a question is missing: no column is named 'prompt', 'problem' or the like. Set prompt_column.")
    if not answers:
        missing.append(
            "an answer is missing: no column is named 'answer', 'solution' or the like. Set answer_column, or use a "
            "judge of your own (reward_funcs in training, --judge in steer-trl eval)."
        )
    refuse([f"{text} The columns are {sorted(raw.column_names)}." for text in missing], f"data set {name!r}")
    return raw, answers


def _select(rows: Dataset, name: str) -> Dataset:
    """Keep the first row of each problem whose rows agree on a usable answer, and print what was removed."""
    removed: Counter[str] = Counter()
    copies = _copies(rows["messages"], rows["problem"], rows["fault"], removed)
    solutions = rows["solution"][:]
    agreed = [indices[0] for indices in _agreeing(copies, solutions)]
    removed["copies"] = sum(len(indices) - 1 for indices in copies.values())
    removed["problems whose copies disagree"] = len(copies) - len(agreed)
    # `map` caches the verdicts, so that the other ranks of a machine read them instead of checking the answers again.
    marked = rows.select(agreed).map(
        _mark_faults, batched=True, batch_size=256, fn_kwargs={"versions": find_versions()}, desc="Checking answers"
    )
    faults = marked["fault"][:] if agreed else []
    examples: dict[str, str] = {}
    for index, fault in zip(agreed, faults, strict=True):
        if fault is not None:
            removed[fault] += 1
            examples.setdefault(fault, f" (row {index}: {shorten(str(solutions[index]), 60)})")
    texts = [f"{count} {reason}{examples.get(reason, '')}" for reason, count in removed.items() if count]
    _check_share(name, len(rows), faults, [solutions[index] for index in agreed], texts)
    indices_without_fault = [index for index, fault in enumerate(faults) if fault is None]
    if int(os.environ.get("LOCAL_RANK", 0)) == 0:
        line = f"{name}: {len(indices_without_fault)} problems from {len(rows)} rows."
        tqdm.write(f"{line} Removed: {', '.join(texts)}." if texts else line, file=sys.stderr)
    return marked.select(indices_without_fault)


def _check_share(name: str, num_rows: int, faults: list[str | None], golds: list[Any], removed: list[str]) -> None:
    """Raise `InvalidValueError` if no row is usable, or if more than 5 % of the answers are unreadable."""
    subject = f"data set {name!r}"
    listed = f"Removed: {', '.join(removed)}."
    if None not in faults:
        raise InvalidValueError(
            f"{subject}: none of its {num_rows} rows can be both asked and scored. {listed} A conversation must end "
            "with the user's message, and the answer must be in answer_column. Correct or remove the rows."
        )
    explained = PROOF, PROGRAM, NO_ANSWER
    strange = sum(
        fault is not None and (gold is None or fault not in explained)
        for fault, gold in zip(faults, golds, strict=True)
    )
    if strange > MAX_UNREADABLE * len(faults):
        raise InvalidValueError(
            f"{subject}: {strange} of {len(faults)} gold answers cannot be scored, at most {MAX_UNREADABLE:.0%} may "
            f"be. {listed} Is the answer in another column? Set answer_column, or correct or remove the rows."
        )


@cache
def find_versions() -> list[str]:
    """Return what the rows that `datasets` caches depend on: the code that reads and checks them.

    The cache knows a function by its name, and would return the rows of an earlier version.
    """
    package = Path(__file__).parents[1]
    files = sorted(path for room in ("data", "rewards") for path in (package / room).iterdir() if path.is_file())
    code = hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()
    return [code, version("math-verify"), version("latex2sympy2_extended")]


@cache
def _reward() -> MathReward:
    return MathReward()


def _mark_faults(batch: dict[str, list[Any]], versions: list[str]) -> dict[str, list[str | None]]:
    faults = _reward().unreadable(batch["solution"])
    return {"fault": [faults.get(solution) for solution in batch["solution"]]}


def _copies(messages: Any, problems: Any, faults: Any, removed: Counter[str]) -> dict[str, list[int]]:
    """Return a dict that maps each distinct problem to its row numbers. Count unusable rows in `removed`.

    Two problems are the same if they differ only in spacing, in the encoding of accents, or in full-width characters,
    and the conversations before them do, too. A system's message is no part of the problem.
    """
    copies: dict[str, list[int]] = {}
    for index, (before, problem, fault) in enumerate(zip(messages, problems, faults, strict=True)):
        if fault is not None or not problem.strip():
            removed[f"rows {fault or 'without a question'}"] += 1
            continue
        # NFKC would turn 2² into 22.
        turns = [message["content"] for message in before if message["role"] != "system"]
        text = unicodedata.normalize("NFC", "\n".join([*turns, problem])).translate(FULL_WIDTH)
        copies.setdefault(" ".join(text.split()), []).append(index)
    return copies


def _agreeing(copies: dict[str, list[int]], solutions: list[str | None]) -> list[list[int]]:
    """Return the row numbers of each problem whose rows have equal answers, as strings or by math-verify."""
    pairs = {
        (solutions[indices[0]], solutions[index])
        for indices in copies.values()
        for index in indices[1:]
        if solutions[index] != solutions[indices[0]]
    }
    to_compare = sorted((first, second) for first, second in pairs if first is not None and second is not None)
    verdicts = _reward().judge([second for _, second in to_compare], [first for first, _ in to_compare])
    equal = {pair for pair, verdict in zip(to_compare, verdicts, strict=True) if verdict.correct}
    return [
        indices
        for indices in copies.values()
        if all(
            solutions[i] == solutions[indices[0]] or (solutions[indices[0]], solutions[i]) in equal for i in indices
        )
    ]


def _finish(row: dict[str, Any], index: int, instruction: str, ids: list[str] | None) -> dict[str, Any]:
    prompt = {"role": "user", "content": add_instruction(row["problem"], instruction)}
    return {
        "prompt": [*row["messages"], prompt],
        "solution": row["solution"],
        "source": row["source"],
        # The row number is the id if ids are not unique.
        "id": ids[index] if ids else str(index),
    }
