"""What a method is: a class that answers up to four questions about tokens, and says when it may be combined.

    advantages(rollout)         new advantages of a whole rollout, before TRL shuffles and splits it
    measure(batch, reduce)      what the tokens of an optimizer step are compared with
    bonus(batch, measure)       what is added to the advantages of a micro-batch, in the loss
    weights(batch, measure)     what multiplies them afterwards

`compose.py` puts the answers of several methods together.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

from torch import Tensor

from steer_trl.functional.order_statistics import Reduce
from steer_trl.shaping.batch import Rollout, TokenBatch
from steer_trl.shaping.options import ShapingConfig

Options = TypeVar("Options", bound=ShapingConfig)

STAGES = ("advantage", "scale", "bonus", "weight")


@dataclass(frozen=True)
class Paper:
    """Where a method comes from, for the model card."""

    title: str
    authors: str
    year: int
    arxiv: str

    @property
    def citation(self) -> str:
        """The BibTeX entry."""
        key = self.authors.split(" and ")[0].split()[-1].lower() + str(self.year)
        return (
            f"@article{{{key}-{self.arxiv},\n    title  = {{{{{self.title}}}}},\n    author = {{{self.authors}}},\n"
            f"    year   = {self.year},\n    eprint = {{arXiv:{self.arxiv}}},\n}}"
        )


class Shaper(Generic[Options]):
    """A method. A subclass answers [`weights`], or another of the four questions, and names its `stage`.

    It is made once per trainer, from the configuration (`self.args`): TRL's fields, the general ones, and its own,
    which `Shaper[MyOptions]` declares.
    """

    paper: ClassVar[Paper | None] = None
    """For the model card."""

    stage: ClassVar[str] = "weight"
    """When it acts, in this order: `"advantage"` replaces TRL's advantages, `"scale"` multiplies those of whole
    completions, `"bonus"` adds to them, `"weight"` multiplies those of tokens."""

    reads: ClassVar[tuple[str, ...]] = ()
    """What [`advantages`] wants of the rollout: `"mask"` alone, or any of `"rewards"`, `"logps"`, `"entropies"`,
    `"prompts"`. The middle two can cost a forward pass per rollout. Empty: it does not act on rollouts."""

    by_group: ClassVar[bool] = False
    """Whether [`advantages`] compares a completion with those of its own prompt only. A rank is then given the groups
    of its own completions, otherwise the rollout of all ranks, which takes their memory on each."""

    per_token: ClassVar[bool] = True
    """Whether the tokens of one completion can fare differently."""

    on_policy: ClassVar[bool] = False
    """Whether it assumes one optimizer step per rollout; with several, a warning says so."""

    random: ClassVar[bool] = False
    """Whether it reads `TokenBatch.draws`."""

    surrogate: ClassVar[dict[str, Any]] = {}
    """Fields of `GRPOConfig` that switch TRL's own clipping off, for a method that brings another loss."""

    needs_rollout_entropy: bool = False
    """Whether [`on_rollout`] must be told the rollout's entropy, which can cost a forward pass per rollout."""

    # Completions of a group begin alike, and the same token's numbers differ in their last bits from batch to batch.
    # Nats for a surprisal, relative for |Omega|; the released codes compare exactly.
    TIE: ClassVar[float] = 1e-5

    def __init__(self, args: Options) -> None:
        self.args = args
        self.tolerance = 0.0 if args.shaping_scope == "micro_batch" else self.TIE

    @classmethod
    def complaints(cls, args: Options) -> list[str]:
        """Say what is wrong with the method's settings, one sentence each; see `steer_trl/validation.py`."""
        return []

    @classmethod
    def conflicts(cls, args: Options) -> list[str]:
        """Say which other settings the method cannot work with; asked only when it is in use."""
        return []

    @property
    def compares(self) -> bool:
        """Whether it compares the tokens of an optimizer step with each other: whether it answers [`measure`]."""
        return self.overrides("measure")

    @property
    def active(self) -> bool:
        """Whether any advantage can change now. If not, they are not touched at all."""
        return True

    def advantages(self, rollout: Rollout) -> Tensor:
        """Return new advantages `[N]`, `[N, 1]` or `[N, T]`, given what `reads` names.

        Every rank calls it, with the same rollout unless `by_group` is true. It may change the method's state;
        evaluation never calls it.
        """
        return rollout.advantages

    def measure(self, batch: TokenBatch, reduce: Reduce) -> Tensor | None:
        """Return what the tokens of a batch are compared with, taking in those of other ranks with `reduce`.

        Every rank calls it, and it must call `reduce` equally often on every rank, whatever the tokens. The batch has
        the completions of all micro-batches of the step.
        """
        return None

    def bonus(self, batch: TokenBatch, measure: Tensor | None) -> Tensor | None:
        """Return what is added to the advantages, `[B, T]`, or `None`. Never changes the method's state."""
        return None

    def weights(self, batch: TokenBatch, measure: Tensor | None) -> Tensor | None:
        """Return token weights `[B, T]`, not negative, given [`measure`] of the tokens' batch, or `None`.

        What they are off the mask does not matter. Never changes the method's state.
        """
        return None

    def marks(self, batch: TokenBatch, measure: Tensor | None) -> dict[str, Tensor]:
        """Return boolean masks `[B, T]` whose share of the trained tokens is logged, by the log's key."""
        return {}

    def on_rollout(self, entropy: float) -> None:
        """Take the token-mean entropy (nats) of a new training rollout over all ranks, before any update with it."""

    def metrics(self) -> dict[str, float]:
        """Return the method's own numbers for the log, one entry per optimizer step."""
        return {}

    def state_dict(self) -> dict[str, Any]:
        """Return what moves during training, as plain numbers; it is saved with every checkpoint."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a [`state_dict`]."""

    @classmethod
    def definition_complaints(cls) -> list[str]:
        """Say what is wrong with the class itself, for one that a user has written."""
        answers = {question for question in ("advantages", "bonus", "weights") if cls.overrides(question)}
        stages = {"advantages": ("advantage", "scale", "bonus"), "bonus": ("bonus",), "weights": STAGES}
        complaints = []
        if not answers:
            complaints.append("it answers none of 'advantages', 'bonus' and 'weights'. Write one of these methods.")
        complaints += [
            f"its stage is {cls.stage!r}, and a method that answers {answer!r} acts in {' or '.join(stages[answer])}. "
            f"Set stage = {stages[answer][0]!r}."
            for answer in sorted(answers)
            if cls.stage not in stages[answer]
        ]
        if "advantages" in answers and not cls.reads:
            complaints.append("it answers 'advantages' and reads nothing. Set reads = ('mask',) or what it wants.")
        return complaints

    @classmethod
    def overrides(cls, name: str) -> bool:
        """Whether the method answers the question `name`."""
        return getattr(cls, name) is not getattr(Shaper, name)
