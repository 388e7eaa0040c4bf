"""Reads benchmarks: problems, and how many samples of each are drawn.

One is written `NAME`, `NAME@SAMPLES`, `NAME=FILE` or `NAME=FILE@SAMPLES`.
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
from steer_trl.data.reading import read_rows
from steer_trl.data.schemas import check_prompts
from steer_trl.data.sources import FILE_BUILDERS, file_complaints
from steer_trl.evaluation.sampling import Sampling
from steer_trl.exceptions import InvalidValueError
from steer_trl.validation import refuse

logger = logging.getLogger(__name__)

# avg@32 for the small ones, avg@1 for the others (arXiv 2510.10150, Table 1).
PAPER_SAMPLES = {"aime24": 32, "aime25": 32, "amc23": 32, "math500": 1, "minerva": 1, "olympiadbench": 1}
MOST_SAMPLES = 100_000  # of a problem; more is a slip of the finger, which ends for want of memory
SPECIFICATION = re.compile(r"(?:(?P<name>[\w.-]+)=)?(?P<source>.+?)(?:@(?P<samples>\d+))?")


@dataclass(frozen=True)
class Benchmark:
    """Problems, and the number of samples that are drawn of each.

    `dataset` has the column `prompt` (a text, or messages), those that the judge reads (`solution`
    for math, which [`~steer_trl.data.load_math_dataset`] gives), and perhaps `id`.
    """

    name: str
    dataset: Dataset
    num_samples: int

    @property
    def ids(self) -> list[str]:
        """The name of each problem: its `id`, or the number of its row if ids are not unique."""
        given = self.dataset["id"] if "id" in self.dataset.column_names else ()
        return ids_as_texts(given) or [str(row) for row in range(len(self.dataset))]


def load_benchmarks(
    specifications: Sequence[str],
    answer_format: str = "boxed",
    instruction: str | None = None,
    limit: int | None = None,
    as_they_are: bool = False,
) -> list[Benchmark]:
    """Load benchmarks, by default with the paper's number of samples, or 1 if it has none.

    Args:
        specifications: each a short name, a name on the Hub or a file, with a name of its own before
            it and a number of samples after it if wanted: `"aime24"`, `"math500@4"`,
            `"mine=problems.jsonl@8"`.
        answer_format, limit: as in [`~steer_trl.data.load_math_dataset`].
        instruction: the wording around each problem, as there; or `"papers"`, which asks as the
            papers' test files do (with `answer_format="either"`, since these ask in different ways).
        as_they_are (`bool`): take every column as it is, `prompt` among them, for a judge that reads
            other columns.

    Raises:
        `ValueError`: two of one name, no sample, or what `load_math_dataset` refuses.
    """
    refuse(benchmark_complaints(specifications), "benchmarks")
    loaded = []
    for name, source, samples in map(_parse, specifications):
        # Of an unknown data set on the Hub the test split, and never by default the one to train on.
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
    """Load all columns, and check that `prompt` can be asked."""
    rows = read_rows(source, split, limit=limit)
    if "prompt" not in rows.column_names:
        raise InvalidValueError(
            f"benchmark {source!r} must have a column 'prompt' for a judge of your own, and has "
            f"{sorted(rows.column_names)}. Rename the one that holds it."
        )
    check_prompts(f"benchmark {source!r}", rows)
    return rows


def benchmark_complaints(specifications: Sequence[str]) -> list[str]:
    """Complain about wrong specifications before any is loaded."""
    if not specifications:
        return [f"benchmarks must not be empty. Name some of {', '.join(PAPER_SAMPLES)}, or a file."]
    malformed = [
        f"benchmark {one!r} must be NAME, NAME@SAMPLES, NAME=FILE or NAME=FILE@SAMPLES, and SAMPLES a whole number."
        for one in specifications
        if not one or ("@" in one and not one.rpartition("@")[2].isdecimal() and not Path(one).exists())
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


def ids_as_texts(ids: Iterable[Any]) -> list[str]:
    """Return the ids of problems as texts, or nothing if one is repeated or missing."""
    found = list(ids)
    texts = list(map(str, found))
    return texts if None not in found and len(set(texts)) == len(texts) else []


def limit_greedy_samples(benchmarks: Sequence[Benchmark], sampling: Sampling) -> list[Benchmark]:
    """Return the benchmarks, with one sample per problem if all would be the same."""
    several = [f"{one.name}@{one.num_samples}" for one in benchmarks if one.num_samples > 1]
    if not (sampling.is_greedy and several):
        return list(benchmarks)
    logger.warning("Sampling is greedy: one sample per problem, not %s, is drawn.", ", ".join(several))
    return [replace(benchmark, num_samples=1) for benchmark in benchmarks]


def _parse(specification: str) -> tuple[str, str, int]:
    match = SPECIFICATION.fullmatch(specification)
    assert match is not None  # `benchmark_complaints` has seen to it
    source = match["source"]
    name = match["name"] or (source if source in SOURCES else Path(source).stem)
    samples = int(match["samples"]) if match["samples"] else PAPER_SAMPLES.get(name, 1)
    return name, source, samples
