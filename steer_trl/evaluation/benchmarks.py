"""Loads benchmarks. A benchmark is a set of problems and a number of samples to draw for each problem."""

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from datasets import Dataset

from steer_trl.data import SOURCES, load_math_dataset
from steer_trl.data.instructions import OF_THE_PAPERS, PAPERS_WORDING
from steer_trl.data.raw_rows import read_rows
from steer_trl.data.schemas import check_prompts
from steer_trl.data.sources import FILE_BUILDERS
from steer_trl.evaluation.sampling import Sampling
from steer_trl.evaluation.specifications import parse_well_formed, specification_complaints, wording_complaints
from steer_trl.support.exceptions import InvalidValueError
from steer_trl.support.validation import refuse

logger = logging.getLogger(__name__)


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
            since the test files ask for different formats. A short name decides which benchmark it
            is; a file or another data set on the Hub is the benchmark that it is named after, as in
            `"aime24=mine.jsonl"`.
        as_they_are (`bool`): whether to keep every column unchanged, including `prompt`, for a judge
            that reads columns other than `solution`.

    Raises:
        `ValueError`: two benchmarks have the same name, a number of samples is out of range, the
            papers have no wording for a benchmark, or `load_math_dataset` refuses an argument.
    """
    refuse(specification_complaints(specifications), "benchmarks")
    if not as_they_are:
        refuse(wording_complaints(specifications, instruction), "benchmarks")
    loaded = []
    for one in parse_well_formed(specifications):
        # An unknown data set on the Hub is read from its test split, never from its training split.
        is_known = one.source in SOURCES or Path(one.source).suffix in FILE_BUILDERS
        split = None if is_known else "test"
        if as_they_are:
            dataset = _read_unchanged(one.source, split, limit)
        else:
            wording = OF_THE_PAPERS[one.problems] if instruction == PAPERS_WORDING else instruction
            dataset = load_math_dataset(
                one.source, split, answer_format=answer_format, instruction=wording, limit=limit
            )
        loaded.append(Benchmark(one.name, dataset, one.samples))
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
