"""Reads benchmarks. A benchmark is a set of problems and a number of samples to draw for each problem.

Users specify a benchmark as `NAME`, `NAME@SAMPLES`, `NAME=FILE` or `NAME=FILE@SAMPLES`.
"""

import logging
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from datasets import Dataset

from steer_trl.data import SOURCES, load_math_dataset
from steer_trl.data.instructions import OF_THE_PAPERS, PAPERS_WORDING
from steer_trl.data.raw_rows import read_rows
from steer_trl.data.schemas import check_prompts
from steer_trl.data.sources import FILE_BUILDERS, file_complaints
from steer_trl.evaluation.sampling import Sampling
from steer_trl.support.exceptions import InvalidValueError
from steer_trl.support.validation import refuse

logger = logging.getLogger(__name__)

# The STEER paper reports avg@32 on the small benchmarks and avg@1 on the others (arXiv 2510.10150, Table 1).
PAPER_SAMPLES = {"aime24": 32, "aime25": 32, "amc23": 32, "math500": 1, "minerva": 1, "olympiadbench": 1}
# Largest number of samples per problem. A larger number is probably a typo and would exhaust the memory.
MOST_SAMPLES = 100_000
SPECIFICATION = re.compile(r"(?:(?P<name>[\w.-]+)=)?(?P<source>.+?)(?:@(?P<samples>\d+))?")


@dataclass(frozen=True)
class Benchmark:
    """A set of problems, and the number of samples to draw for each problem.

    `dataset` has a column `prompt` (a string or messages), the columns that the judge reads
    (`solution` for math, which [`~steer_trl.data.load_math_dataset`] writes), and optionally `id`.
    """

    name: str
    dataset: Dataset
    num_samples: int

    @property
    def ids(self) -> list[str]:
        """The ids of the problems: the column `id`, or the row numbers if an id is missing or repeated."""
        ids = self.dataset["id"] if "id" in self.dataset.column_names else ()
        return ids_as_texts(ids) or [str(row) for row in range(len(self.dataset))]


def load_benchmarks(
    specifications: Sequence[str],
    answer_format: str = "boxed",
    instruction: str | None = None,
    limit: int | None = None,
    as_they_are: bool = False,
) -> list[Benchmark]:
    """Load benchmarks, each with the number of samples from its specification.

    If a specification has no number of samples, the number is taken from the STEER paper, or is 1
    for a benchmark that the paper does not use.

    Args:
        specifications: each is a short name, a name on the Hub or a file. It may begin with a custom
            name and end with a number of samples. Examples are `"aime24"`, `"math500@4"` and
            `"mine=problems.jsonl@8"`.
        answer_format, limit: arguments of [`~steer_trl.data.load_math_dataset`].
        instruction: the wording around each problem, as in `load_math_dataset`; or `"papers"` for
            the wordings of the papers' test files. Use `"papers"` with `answer_format="either"`,
            since the test files ask for different formats.
        as_they_are (`bool`): whether to keep every column unchanged, including `prompt`, for a judge
            that reads columns other than `solution`.

    Raises:
        `ValueError`: two benchmarks have the same name, a number of samples is out of range, or
            `load_math_dataset` refuses an argument.
    """
    refuse(benchmark_complaints(specifications), "benchmarks")
    loaded = []
    for name, source, samples in map(_parse, specifications):
        # An unknown data set on the Hub is read from its test split, never from its training split.
        is_known = source in SOURCES or Path(source).suffix in FILE_BUILDERS
        split = None if is_known else "test"
        wording = OF_THE_PAPERS.get(name) if instruction == PAPERS_WORDING else instruction
        if as_they_are:
            dataset = _read_unchanged(source, split, limit)
        else:
            dataset = load_math_dataset(source, split, answer_format=answer_format, instruction=wording, limit=limit)
        loaded.append(Benchmark(name, dataset, samples))
    return loaded


def _read_unchanged(source: str, split: str | None, limit: int | None) -> Dataset:
    """Load a benchmark with all its columns, and check that `prompt` holds valid prompts."""
    rows = read_rows(source, split, limit=limit)
    if "prompt" not in rows.column_names:
        raise InvalidValueError(
            f"benchmark {source!r} must have a column 'prompt' for a judge of your own, and has "
            f"{sorted(rows.column_names)}. Rename the one that holds it."
        )
    check_prompts(f"benchmark {source!r}", rows)
    return rows


def benchmark_complaints(specifications: Sequence[str]) -> list[str]:
    """Return complaints about the specifications, without loading any benchmark."""
    if not specifications:
        return [f"benchmarks must not be empty. Name some of {', '.join(PAPER_SAMPLES)}, or a file."]
    malformed = [
        f"benchmark {text!r} must be NAME, NAME@SAMPLES, NAME=FILE or NAME=FILE@SAMPLES, and SAMPLES a whole number."
        for text in specifications
        if not text or ("@" in text and not text.rpartition("@")[2].isdecimal() and not Path(text).exists())
    ]
    if malformed:
        return malformed
    parts = list(map(_parse, specifications))
    counts = Counter(name for name, _, _ in parts)
    repeated = [name for name, count in counts.items() if count > 1]
    complaints = [f"benchmark {name!r} is named twice. Rename one of them: other={name}." for name in repeated]
    complaints += [
        f"benchmark {name!r} must have from 1 to {MOST_SAMPLES:,} samples, got {k}. Write {name}@1."
        for name, _, k in parts
        if not 1 <= k <= MOST_SAMPLES
    ]
    return complaints + [complaint for _, source, _ in parts for complaint in file_complaints(source)]


def find_sources(specifications: Sequence[str]) -> list[str]:
    """Return the short names, names on the Hub and files in the specifications that are well-formed."""
    return [match["source"] for specification in specifications if (match := SPECIFICATION.fullmatch(specification))]


def find_names(specifications: Sequence[str]) -> list[str]:
    """Return the names of the benchmarks in the specifications that are well-formed."""
    return [_parse(specification)[0] for specification in specifications if SPECIFICATION.fullmatch(specification)]


def ids_as_texts(ids: Iterable[Any]) -> list[str]:
    """Return the ids of problems as strings, or an empty list if an id is repeated or missing."""
    values = list(ids)
    texts = list(map(str, values))
    return texts if None not in values and len(set(texts)) == len(texts) else []


def limit_greedy_samples(benchmarks: Sequence[Benchmark], sampling: Sampling) -> list[Benchmark]:
    """Return the benchmarks, reduced to one sample per problem if the sampling is greedy."""
    several = [f"{benchmark.name}@{benchmark.num_samples}" for benchmark in benchmarks if benchmark.num_samples > 1]
    if not (sampling.is_greedy and several):
        return list(benchmarks)
    logger.warning("Sampling is greedy: one sample per problem, not %s, is drawn.", ", ".join(several))
    return [replace(benchmark, num_samples=1) for benchmark in benchmarks]


def _parse(specification: str) -> tuple[str, str, int]:
    match = SPECIFICATION.fullmatch(specification)
    # `benchmark_complaints` has refused malformed specifications.
    assert match is not None
    source = match["source"]
    name = match["name"] or (source if source in SOURCES else Path(source).stem)
    samples = int(match["samples"]) if match["samples"] else PAPER_SAMPLES.get(name, 1)
    return name, source, samples
