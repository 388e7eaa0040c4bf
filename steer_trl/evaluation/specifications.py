"""Reads how users name benchmarks: `NAME`, `NAME@SAMPLES`, `NAME=FILE` or `NAME=FILE@SAMPLES`.

A name has no slash, so `runs/lr=1e-6/test.jsonl` is a file. Neither torch nor `datasets` is imported here, so that a
wrong benchmark is reported at once.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from steer_trl.data.instructions import OF_THE_PAPERS, PAPERS_WORDING
from steer_trl.data.sources import SOURCES, file_complaints

# The STEER paper reports avg@32 on the small benchmarks and avg@1 on the others (arXiv 2510.10150, Table 1).
PAPER_SAMPLES = {"aime24": 32, "aime25": 32, "amc23": 32, "math500": 1, "minerva": 1, "olympiadbench": 1}
# Largest number of samples per problem. A larger number is probably a typo and would exhaust the memory.
MOST_SAMPLES = 100_000
SYNTAX = re.compile(r"(?:(?P<name>[\w.-]+)=)?(?P<source>.+?)(?:@(?P<samples>\d+))?")


@dataclass(frozen=True)
class Specification:
    """What a user has named as a benchmark.

    Attributes:
        name (`str`): the name of the benchmark in results.
        source (`str`): the short name, name on the Hub or file that the problems are read from.
        samples (`int`): the number of samples to draw for each problem.
        problems (`str`): which benchmark this is: its short name, also if it has another name in results. A file or
            a data set on the Hub is what its name says.
    """

    name: str
    source: str
    samples: int
    problems: str


def parse_specification(text: str) -> Specification | None:
    """Return the parts of a specification, or `None` if it is malformed.

    Without a number of samples, it is the STEER paper's for these problems, or 1 if the paper does not use them.
    """
    match = SYNTAX.fullmatch(text)
    if match is None:
        return None
    source = match["source"]
    # What follows an @ must be a number of samples, unless a file is called so.
    if "@" in Path(source).name and not Path(source).expanduser().exists():
        return None
    is_known = source in SOURCES
    name = match["name"] or (source if is_known else Path(source).stem)
    problems = source if is_known else name
    samples = int(match["samples"]) if match["samples"] else PAPER_SAMPLES.get(problems, 1)
    return Specification(name, source, samples, problems)


def parse_well_formed(texts: Sequence[str]) -> list[Specification]:
    """Return the parts of each specification that is well-formed."""
    return [parsed for text in texts if (parsed := parse_specification(text)) is not None]


def syntax_complaints(text: str) -> list[str]:
    """Return a complaint if a specification is malformed."""
    if parse_specification(text) is not None:
        return []
    syntax = "NAME, NAME@SAMPLES, NAME=FILE or NAME=FILE@SAMPLES, and SAMPLES a whole number"
    return [f"benchmark {text!r} must be {syntax}."]


def specification_complaints(texts: Sequence[str]) -> list[str]:
    """Return complaints about the specifications, without loading any benchmark."""
    if not texts:
        return [f"benchmarks must not be empty. Name some of {', '.join(PAPER_SAMPLES)}, or a file."]
    malformed = [complaint for text in texts for complaint in syntax_complaints(text)]
    if malformed:
        return malformed
    parsed = parse_well_formed(texts)
    counts = Counter(one.name for one in parsed)
    repeated = [name for name, count in counts.items() if count > 1]
    complaints = [f"benchmark {name!r} is named twice. Rename one of them: other={name}." for name in repeated]
    complaints += [
        f"benchmark {one.name!r} must have from 1 to {MOST_SAMPLES:,} samples, got {one.samples}. Write {one.name}@1."
        for one in parsed
        if not 1 <= one.samples <= MOST_SAMPLES
    ]
    return complaints + [complaint for one in parsed for complaint in file_complaints(one.source)]


def wording_complaints(texts: Sequence[str], instruction: str | None) -> list[str]:
    """Return complaints about benchmarks for which the papers have no wording, if `instruction` asks for theirs."""
    if instruction != PAPERS_WORDING:
        return []
    return [
        f"instruction={PAPERS_WORDING!r} has no wording for the benchmark {one.name!r}, because the papers' test "
        f"files are of {', '.join(OF_THE_PAPERS)} only. Evaluate it on its own with another instruction, or, if it "
        "holds the problems of one of these, give it that name, as in aime24=FILE."
        for one in parse_well_formed(texts)
        if one.problems not in OF_THE_PAPERS
    ]
