"""How completions are drawn, and what comes of it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from steer_trl.validation import at_least, in_interval, refuse


@dataclass(frozen=True)
class Sampling:
    """The paper's sampling by default (arXiv 2510.10150, section 5.1; 3072 tokens, as in training).

    Args:
        temperature (`float`): 0 is greedy: one sample per problem is drawn, whatever the benchmark asks for.
        top_p (`float`): share of the probability mass that is drawn from, in (0, 1].
        top_k (`int`): most probable tokens that are drawn from; 0 for all.
        max_tokens (`int`): length at which a completion is cut off.
        seed (`int`): each batch has one of its own, made from this one.
    """

    temperature: float = 1.0
    top_p: float = 0.7
    top_k: int = 0
    max_tokens: int = 3072
    seed: int = 0

    def __post_init__(self) -> None:
        refuse(
            [
                *in_interval("temperature", self.temperature, "[0, inf)", "it divides the logits; 0 is greedy"),
                *in_interval("top_p", self.top_p, "(0, 1]", "it is a share of the probability mass"),
                *in_interval("top_k", self.top_k, "[0, inf)", "it is a number of tokens; 0 is all of them"),
                *in_interval("max_tokens", self.max_tokens, "[1, inf)", "it is a number of tokens"),
                *at_least("seed", self.seed, 0),
            ],
            "Sampling",
        )

    @property
    def is_greedy(self) -> bool:
        """Whether every sample of a prompt is the same."""
        return self.temperature == 0 or self.top_k == 1


class Completion(NamedTuple):
    """A drawn completion: its text, its length in tokens, and whether it was cut off at the limit."""

    text: str
    num_tokens: int
    truncated: bool


class Generator(Protocol):
    """A back end. `is_collective`: all ranks have to call it together, with the same number of prompts."""

    is_collective: bool

    def __call__(self, prompts: Sequence[list[dict[str, Any]]], sampling: Sampling, seed: int) -> list[Completion]:
        """Draw one completion for each prompt (a list of messages); the same seed draws the same ones."""
        ...
