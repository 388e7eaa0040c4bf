"""What a method is: a class that answers one or several questions. They decide when it acts, in this order:

    advantages(rollout)         replaces the advantages of a whole rollout, before TRL shuffles and splits it
    scales(rollout)             multiplies those of each completion
    rollout_bonus(rollout)      adds to them
    bonus(batch, measure)       adds to the advantages of a micro-batch, in the loss
    weights(batch, measure)     multiplies them, token by token
    entropy_coef()              adds TRL's entropy bonus to the loss, beside them

`measure(batch, reduce)` is what `bonus` and `weights` compare the tokens of an optimizer step with. `compose.py` puts
the answers of several methods together.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from importlib.resources import files
from typing import Any, ClassVar, Generic, TypeVar

import yaml
from jaxtyping import Bool, Float
from torch import Tensor

from steer_trl.functional.order_statistics import Reduce
from steer_trl.options.base import ShapingConfig
from steer_trl.options.needs import Need
from steer_trl.shaping.batch import Rollout, TokenBatch

Options = TypeVar("Options", bound=ShapingConfig)

OF_ROLLOUTS = ("advantages", "scales", "rollout_bonus")
OF_BATCHES = ("bonus", "weights")
QUESTIONS = (*OF_ROLLOUTS, *OF_BATCHES, "entropy_coef")


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


_ROWS = yaml.safe_load(files("steer_trl.shaping").joinpath("papers.yaml").read_text("utf-8"))
PAPERS = {arxiv: Paper(**row, arxiv=arxiv) for arxiv, row in _ROWS.items()}
"""Those of the methods, by arXiv number."""


class Shaper(Generic[Options]):
    """A method. A subclass answers [`weights`], or another of the questions in `shaping/base.py`.

    It is made once per trainer, from the configuration (`self.args`): TRL's fields, the general ones, and its own.
    """

    options: ClassVar[type[ShapingConfig]] = ShapingConfig
    """The dataclass of its own settings. `Shaper[MyOptions]` gives a type checker the same of `self.args`."""

    paper: ClassVar[Paper | None] = None
    """For the model card."""

    reads: ClassVar[tuple[str, ...]] = ()
    """What the answers about a rollout want beside its mask and advantages: any of `"rewards"`, `"logps"`,
    `"entropies"`. The last two can cost a forward pass per rollout."""

    by_group: bool = False
    """Whether the answers about a rollout compare a completion with those of its own prompt only. A rank is then given
    the groups of its own completions, otherwise the rollout of all ranks."""

    per_token: ClassVar[bool] = True
    """Whether the tokens of one completion can fare differently."""

    on_policy: ClassVar[bool] = False
    """Whether it assumes one optimizer step per rollout; with several, a warning states it."""

    random: ClassVar[bool] = False
    """Whether it reads `TokenBatch.draws`."""

    tells_correct: ClassVar[bool] = False
    """Whether it reads `correct_threshold`, which is refused with methods that do not."""

    needs: ClassVar[Mapping[str, Need]] = {}
    """Fields of `GRPOConfig` that it cannot work with unless they are so: `TOKEN_RATIOS` of `options/needs.py`."""

    surrogate: ClassVar[dict[str, Any]] = {}
    """Fields of `GRPOConfig` that switch TRL's own clipping off, for a method that brings another loss."""

    needs_rollout_entropy: bool = False
    """Whether [`on_rollout`] is given the rollout's entropy, which can cost a forward pass per rollout."""

    needs_sensitivities: bool = False
    """Whether it reads `TokenBatch.sensitivities`, which cost another pass of the LM head."""

    off: ClassVar[Mapping[str, float]] = {}
    """Values of its settings, each of which leaves it nothing to do: the run is GRPO, bit for bit."""

    strength_setting: ClassVar[str | None] = None
    """The setting that [`strength`] begins with."""

    max_strength: ClassVar[float | None] = None
    """The most [`strength`] that `hold_entropy` gives a method that has one."""

    strength_gain: ClassVar[float] = 1.0
    """How much strength answers an entropy that is off by a factor e."""

    strength: float = 0.0
    """What `hold_entropy` moves between rollouts: the larger, the more entropy the method keeps; at 0 it changes
    nothing, and below 0 it spends entropy."""

    def __init__(self, args: Options) -> None:
        self.args = args
        # The same token's numbers differ in their last bits from batch to batch. Nats, or relative for |Omega|.
        self.tolerance = 0.0 if args.shaping_scope == "micro_batch" else 1e-5
        if self.strength_setting:
            self.strength = getattr(args, self.strength_setting)

    @classmethod
    def settings(cls) -> tuple[str, ...]:
        """Names of the fields that only methods like this one read: those of its `options`."""
        general = {field.name for field in fields(ShapingConfig)}
        own = tuple(field.name for field in fields(cls.options) if field.name not in general)
        return (*own, "correct_threshold") if cls.tells_correct else own

    @classmethod
    def fill_unset(cls, args: Options) -> None:
        """Set those of its settings that are unset and depend on others. Called once, before [`complaints`]."""

    @classmethod
    def complaints(cls, args: Options) -> list[str]:
        """Say what else does not go together; asked only when it is in use, and each setting is in its range."""
        return []

    @classmethod
    def answers(cls, question: str) -> bool:
        """Whether the method has written an answer to `question`."""
        return getattr(cls, question) is not getattr(Shaper, question)

    @property
    def active(self) -> bool:
        """Whether any advantage can change now. If not, they are not touched at all."""
        is_moved_off = self.strength_setting is not None and self.strength == 0
        return not is_moved_off and all(getattr(self.args, name) != value for name, value in self.off.items())

    # About a rollout. Every rank is asked, evaluation never is, so an answer may change the method's state.

    def advantages(self, rollout: Rollout) -> Float[Tensor, "N"] | Float[Tensor, "N T"]:
        """Return new advantages `[N]`, `[N, 1]` or `[N, T]`, given what `reads` names."""
        raise NotImplementedError

    def scales(self, rollout: Rollout) -> Float[Tensor, "N"]:
        """Return a factor `[N]` for each completion's advantages, given what `reads` names."""
        raise NotImplementedError

    def rollout_bonus(self, rollout: Rollout) -> Float[Tensor, "N T"]:
        """Return what is added to the advantages, of the same shapes, given what `reads` names."""
        raise NotImplementedError

    def measure(self, batch: TokenBatch, reduce: Reduce) -> Any:
        """Return what the tokens of an optimizer step are compared with: a tensor or a `NamedTuple` of them.

        `reduce` takes in the tokens of other ranks; it must be called equally often on every rank, whatever they are.
        """
        return None

    def bonus(self, batch: TokenBatch, measure: Any) -> Float[Tensor, "B T"] | None:
        """Return what is added to the advantages, `[B, T]`, or `None`. Never changes the method's state."""
        return None

    def weights(self, batch: TokenBatch, measure: Any) -> Float[Tensor, "B T"] | None:
        """Return token weights `[B, T]`, not negative, or `None`. Never changes the method's state."""
        return None

    def entropy_coef(self) -> float:
        """Return the coefficient of TRL's entropy bonus in the loss that is being made; 0 adds none, exactly."""
        return 0.0

    def marks(self, batch: TokenBatch, measure: Any) -> dict[str, Bool[Tensor, "B T"]]:
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
        """Continue from a [`state_dict`]. It is also called with the first one, when a second training begins."""
