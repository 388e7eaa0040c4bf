"""The base class of a method. A subclass overrides one or several hooks, which act in this order:

    advantages(rollout)         replaces the advantages of a whole rollout, before TRL shuffles and splits it
    scales(rollout)             multiplies the advantages of each completion by a factor
    rollout_bonus(rollout)      adds a bonus to the advantages of a whole rollout
    bonus(batch, measure)       adds to the advantages of a micro-batch, in the loss
    weights(batch, measure)     multiplies the advantages of a micro-batch, token by token
    entropy_coef()              adds TRL's entropy bonus to the loss and leaves the advantages alone

`measure(batch, reduce)` computes statistics over the tokens of an optimizer step, with which `bonus` and `weights`
compare single tokens. `compose.py` combines the hooks of several methods.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from importlib.resources import files
from typing import Any, ClassVar, Generic, TypeVar

import yaml
from jaxtyping import Bool, Float
from torch import Tensor

from steer_trl.functional.order_statistics import Reduce
from steer_trl.options.base import ShapingConfig, settings_of
from steer_trl.options.needs import Need
from steer_trl.shaping.batch import Rollout, TokenBatch

Options = TypeVar("Options", bound=ShapingConfig)

ROLLOUT_HOOKS = ("advantages", "scales", "rollout_bonus")
BATCH_HOOKS = ("bonus", "weights")
HOOKS = (*ROLLOUT_HOOKS, *BATCH_HOOKS, "entropy_coef")


@dataclass(frozen=True)
class Control:
    """The range and the gain with which `hold_entropy` moves the strength of a method.

    Attributes:
        max_strength (`float`): the upper bound of the strength.
        gain (`float`): change of strength per unit of log-entropy error.
        setting (`str`, *optional*): the setting that holds the initial strength.
    """

    max_strength: float
    gain: float = 1.0
    setting: str | None = None


@dataclass(frozen=True)
class Paper:
    """The paper of a method, which the model card cites."""

    title: str
    authors: str
    year: int
    arxiv: str

    @property
    def citation(self) -> str:
        """The BibTeX entry of the paper."""
        key = self.authors.split(" and ")[0].split()[-1].lower() + str(self.year)
        return (
            f"@article{{{key}-{self.arxiv},\n    title  = {{{{{self.title}}}}},\n    author = {{{self.authors}}},\n"
            f"    year   = {self.year},\n    eprint = {{arXiv:{self.arxiv}}},\n}}"
        )


_ROWS = yaml.safe_load(files("steer_trl.shaping").joinpath("papers.yaml").read_text("utf-8"))
PAPERS = {arxiv: Paper(**row, arxiv=arxiv) for arxiv, row in _ROWS.items()}
"""The papers of the methods, by arXiv number."""


class Shaper(Generic[Options]):
    """A method. A subclass overrides [`weights`] or another hook.

    Each trainer makes its own instance from the configuration (`self.args`), which has TRL's fields and the method's.
    """

    options: ClassVar[type[ShapingConfig]] = ShapingConfig
    """The dataclass of the method's settings.

    `Shaper[MyOptions]` gives a type checker the type of `self.args`.
    """

    paper: ClassVar[Paper | None] = None
    """The paper that the model card cites."""

    reads: tuple[str, ...] = ()
    """The data that the hooks read in addition to masks and advantages. It is computed only if a method names it:

    - `"rewards"`, `"logps"`, `"entropies"` of a [`Rollout`]; the last two can cost a forward pass per rollout
    - `"all_ranks"`: a [`Rollout`] with the groups of all ranks. By default it has those of this rank's completions
    - `"mean_entropy"`, for [`on_rollout`], which can cost a forward pass per rollout
    - `"draws"` and `"sensitivities"` of a [`TokenBatch`]; the second costs a second pass of the LM head
    """

    per_token: ClassVar[bool] = True
    """Whether tokens of one completion can get different advantages."""

    needs: ClassVar[Mapping[str, Need]] = {}
    """Maps a field of `GRPOConfig` to the condition that its value must meet. `TOKEN_RATIOS` is an example."""

    surrogate: ClassVar[dict[str, Any]] = {}
    """Values of `GRPOConfig`'s fields that switch TRL's clipping off. Only a method with its own loss has any."""

    control: ClassVar[Control | None] = None
    """The bound and the gain with which `hold_entropy` moves [`strength`]; `None` if it cannot move the method."""

    strength: float = 0.0
    """The number that `hold_entropy` moves between rollouts. A larger one keeps more entropy, 0 changes nothing, and a
    negative one spends entropy."""

    def __init__(self, args: Options) -> None:
        self.args = args
        # The log-probability of a token differs in its last bits from batch to batch, so thresholds need a margin.
        # The margin is in nats for surprisals and entropies, and relative for |Omega| and covariances.
        self.tolerance = 0.0 if args.shaping_scope == "micro_batch" else 1e-5
        settings = settings_of(self.options)
        self._off = {name: setting.off for name, setting in settings.items() if setting.off is not None}
        if self.control and self.control.setting:
            self.strength = getattr(args, self.control.setting)

    @classmethod
    def settings(cls) -> tuple[str, ...]:
        """Return the names of the method's settings, without the settings that all methods share."""
        general = {field.name for field in fields(ShapingConfig)}
        return tuple(field.name for field in fields(cls.options) if field.name not in general)

    @classmethod
    def fill_unset(cls, args: Options) -> None:
        """Fill the method's unset settings whose defaults depend on other settings.

        Called once, before [`complaints`].
        """

    @classmethod
    def complaints(cls, args: Options) -> list[str]:
        """Return complaints about combinations of the method's settings.

        Called only if the method is in use and each setting is in range.
        """
        return []

    @classmethod
    def remarks(cls, args: Options) -> list[str]:
        """Return warnings about settings with which the method does less than expected."""
        return []

    @classmethod
    def overrides(cls, *hooks: str) -> bool:
        """Return whether the subclass overrides any of the `hooks`."""
        return any(getattr(cls, hook) is not getattr(Shaper, hook) for hook in hooks)

    @property
    def active(self) -> bool:
        """False if the method cannot change anything at present, so that the loss stays bit for bit as it is."""
        if self.control is not None and self.strength == 0:
            return False
        return all(getattr(self.args, name) != value for name, value in self._off.items())

    # The next three hooks receive a rollout. An optional field of it is set only if `reads` names the field. The hooks
    # run on every rank and never in evaluation, so they may change the method's state.

    def advantages(self, rollout: Rollout) -> Float[Tensor, "N"] | Float[Tensor, "N T"]:
        """Return new advantages `[N]`, `[N, 1]` or `[N, T]`."""
        raise NotImplementedError

    def scales(self, rollout: Rollout) -> Float[Tensor, "N"]:
        """Return a factor `[N]` for each completion's advantages."""
        raise NotImplementedError

    def rollout_bonus(self, rollout: Rollout) -> Float[Tensor, "N T"]:
        """Return a bonus `[N]` or `[N, T]` that is added to the advantages."""
        raise NotImplementedError

    def measure(self, batch: TokenBatch, reduce: Reduce) -> Any:
        """Return statistics over the tokens of an optimizer step: a tensor or a `NamedTuple` of tensors.

        `reduce` brings in the tokens of the other ranks. Every rank must call it equally often, even if all of its
        tokens are masked.
        """
        return None

    def bonus(self, batch: TokenBatch, measure: Any) -> Float[Tensor, "B T"] | None:
        """Return a bonus `[B, T]` that is added to the advantages, or `None` for no bonus.

        Must not change the method's state.
        """
        return None

    def weights(self, batch: TokenBatch, measure: Any) -> Float[Tensor, "B T"] | None:
        """Return token weights `[B, T]` of at least 0, or `None` for no change.

        Must not change the method's state.
        """
        return None

    def entropy_coef(self) -> float:
        """Return the coefficient of TRL's entropy bonus in the current loss. 0 changes no bit of the loss."""
        return 0.0

    def marks(self, batch: TokenBatch, measure: Any) -> dict[str, Bool[Tensor, "B T"]]:
        """Return a dict that maps a log key to a boolean mask `[B, T]`.

        The log has under each key the share of trained tokens that the mask selects.
        """
        return {}

    def on_rollout(self, entropy: float) -> None:
        """Process the mean entropy per token (nats, over all ranks) of a new training rollout.

        Called before any update on that rollout.
        """

    def metrics(self) -> dict[str, float]:
        """Return the method's own numbers for the log, one entry per optimizer step."""
        return {}

    def state_dict(self) -> dict[str, Any]:
        """Return the state that changes during training, as plain numbers.

        Every checkpoint saves it.
        """
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a [`state_dict`].

        If the same trainer trains a second time, the state from before the first training is restored.
        """
