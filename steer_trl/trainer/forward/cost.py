"""The cost of a forward pass, counted in pairs of a query and a key.

A transformer's layer of hidden size h has about 12 h² weights, so a position costs 12 h² multiplications. A pair costs
2 h: h for its score, and h for its share of the output. So a position costs as much as 6 h pairs.
"""

from collections.abc import Sequence
from dataclasses import dataclass

PAIRS_OF_A_CALL = 2**15
"""The pairs that attention computes in the time that one more call of it takes."""


@dataclass(frozen=True)
class Cost:
    """The cost of sequences in a model with this `hidden_size`, in pairs."""

    hidden_size: int

    def of_sequence(self, length: int) -> float:
        """Return the cost of `length` tokens, each of which attends to itself and to all before it."""
        return self.of_positions(length) + length * length / 2

    def of_rows(self, prompt: int, completions: Sequence[int]) -> float:
        """Return the cost of completions of the same prompt, each of which is one sequence with it."""
        return sum(self.of_sequence(prompt + completion) for completion in completions)

    def of_shared(self, prompt: int, completions: Sequence[int]) -> float:
        """Return the cost of the same completions if the tokens of their prompt but the last are computed once."""
        shared = sum(self.of_completion(1 + completion, prompt - 1) for completion in completions)
        return self.of_sequence(prompt - 1) + shared

    def of_completion(self, length: int, prompt: int) -> float:
        """Return the cost of `length` tokens that also attend to `prompt` tokens of a prompt that is computed once.

        A mask hides later tokens, so their pairs are computed as well.
        """
        return self.of_positions(length) + length * (prompt + length)

    def of_positions(self, count: int) -> float:
        """Return the cost of `count` positions without their attention."""
        return 6 * self.hidden_size * count
