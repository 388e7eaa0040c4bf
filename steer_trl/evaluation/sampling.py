"""Sampling settings, drawn completions, and the interface of the back ends that draw them."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from numbers import Integral
from typing import Any, NamedTuple, Protocol

from steer_trl.evaluation.records import COMPLETIONS, SETTINGS, SUMMARY
from steer_trl.support.exceptions import InvalidValueError
from steer_trl.support.validation import check_interval, did_you_mean, is_number, refuse

RANGES = {"temperature": "[0, inf)", "top_p": "(0, 1]"}
RANGES |= {"top_k": "[0, inf)", "max_tokens": "[1, inf)", "seed": "[0, inf)"}
WHOLE = ("top_k", "max_tokens", "seed")


@dataclass(frozen=True)
class Sampling:
    """The settings for drawing completions.

    The defaults are the settings of the STEER paper (arXiv 2510.10150, section 5.1).

    Args:
        temperature (`float`): the sampling temperature. 0 means greedy sampling, which draws one
            sample per problem even if the benchmark asks for more.
        top_p (`float`): the threshold of nucleus sampling, in (0, 1]. Only the most probable tokens
            that together have this probability are sampled.
        top_k (`int`): the number of most probable tokens that are sampled; 0 allows all tokens.
        max_tokens (`int`): the maximum length of a completion, in tokens; 3072 in the paper's
            training.
        seed (`int`): the number from which the seed of every batch is derived.
    """

    temperature: float = 1.0
    top_p: float = 0.7
    top_k: int = 0
    max_tokens: int = 3072
    seed: int = 0

    def __post_init__(self) -> None:
        complaints = []
        for name, value in vars(self).items():
            complaints += check_interval(name, value, RANGES[name])
            if name in WHOLE and is_number(value) and not isinstance(value, Integral):
                complaints.append(f"{name} must be a whole number, got {value!r}.")
        refuse(complaints, "Sampling")
        for field in fields(self):
            # Transformers refuses a temperature that is an integer.
            number = int if field.name in WHOLE else float
            object.__setattr__(self, field.name, number(getattr(self, field.name)))

    @property
    def is_greedy(self) -> bool:
        """Whether all samples of a prompt are the same."""
        return self.temperature == 0 or self.top_k == 1


NAMED: dict[str, dict[str, float]] = {
    "papers": {"temperature": 1.0, "top_p": 0.7},
    "greedy": {"temperature": 0.0, "top_p": 1.0},
}
"""Maps the name of a sampling to its settings.

`load_samplings` also accepts names such as `"t1"`, which means temperature 1 without top-p.
"""
FOLDER_NAME = re.compile(r"\w[\w.-]{0,99}")
AT_TEMPERATURE = re.compile(r"t(\d+(?:\.\d+)?)")


def load_samplings(names: Sequence[str], **common: Any) -> dict[str, Sampling]:
    """Return a mapping from each name to its sampling settings, in the given order.

    Args:
        names: each is `"papers"`, `"greedy"`, or a temperature such as `"t1"` or `"t0.5"`.
        common: settings that all samplings share, such as `max_tokens`.

    Raises:
        `ValueError`: a name is unknown or given twice.
    """
    samplings: dict[str, Sampling] = {}
    for name in names:
        match = AT_TEMPERATURE.fullmatch(name)
        settings = {"temperature": float(match[1]), "top_p": 1.0} if match else NAMED.get(name)
        if settings is None:
            raise InvalidValueError(
                f"samplings: {name!r} is unknown.{did_you_mean(name, NAMED)} Use {', '.join(map(repr, NAMED))}, or "
                "'t0.5' for a temperature of 0.5."
            )
        if name in samplings:
            raise InvalidValueError(f"samplings: {name!r} is given twice. Remove one.")
        samplings[name] = Sampling(**common | settings)
    return samplings


def find_name_complaints(names: Iterable[object]) -> list[str]:
    """Return complaints about names of samplings that cannot be the names of folders inside an evaluation."""
    return [
        "the name of a sampling must consist of letters, digits, '.', '-' and '_', must begin with a letter, a digit "
        f"or '_', and must not be a file of an evaluation, got {name!r}. Rename it."
        for name in names
        if not (isinstance(name, str) and FOLDER_NAME.fullmatch(name)) or name in (SETTINGS, COMPLETIONS, SUMMARY)
    ]


class Completion(NamedTuple):
    """A drawn completion: its text, its length in tokens, and whether it was cut off at the length limit."""

    text: str
    num_tokens: int
    truncated: bool


Prompt = str | list[dict[str, Any]]
"""A string that the model continues as it is, or the messages of a conversation."""


class Generator(Protocol):
    """A back end that draws completions.

    Attributes:
        is_collective (`bool`): whether all ranks have to call the back end together.
    """

    is_collective: bool

    @property
    def needs_equal_batches(self) -> bool:
        """Whether all ranks have to call the back end with the same number of prompts."""
        ...

    def __call__(self, prompts: Sequence[Prompt], sampling: Sampling, seed: int) -> list[Completion]:
        """Draw one completion for each prompt. The same seed draws the same completions."""
        ...
