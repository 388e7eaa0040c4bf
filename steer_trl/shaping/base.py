"""The base class of all methods. A subclass overrides one or several hooks, which act in this order:

    advantages(rollout)         replaces the advantages of a whole rollout, before TRL shuffles and splits it
    scales(rollout)             multiplies the advantages of each completion by a factor
    rollout_bonus(rollout)      adds a bonus to the advantages of a whole rollout
    bonus(batch, measure)       adds a bonus to the advantages of a micro-batch, in the loss
    weights(batch, measure)     multiplies the advantages of a micro-batch, token by token
    entropy_coef()              sets TRL's entropy bonus in the loss, and leaves the advantages unchanged
    kl_coef()                   sets TRL's KL penalty in the loss, and leaves the advantages unchanged

`measure(batch, reduce)` computes statistics over the tokens of an optimizer step. `bonus` and `weights` compare each
token with these statistics. `compose.py` combines the hooks of several methods, and raises an error if a hook of a
custom method returns NaN or an infinite number for a trained token.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from importlib.resources import files
from typing import Any, ClassVar, Generic, TypeVar

import yaml
from jaxtyping import Bool, Float
from torch import Tensor

from steer_trl.entropy.actuator import Control
from steer_trl.options.base import ShapingConfig, settings_of
from steer_trl.options.needs import Need
from steer_trl.shaping.batch import Rollout, TokenBatch
from steer_trl.shaping.options import HasOptions, read_options
from steer_trl.shaping.order_statistics import Reduce
from steer_trl.support.exceptions import InvalidValueError

Config = TypeVar("Config", bound=ShapingConfig)

ROLLOUT_HOOKS = ("advantages", "scales", "rollout_bonus")
BATCH_HOOKS = ("bonus", "weights")
HOOKS = (*ROLLOUT_HOOKS, *BATCH_HOOKS, "entropy_coef", "kl_coef")


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
"""Maps arXiv numbers to the papers of the methods."""


def _find_neutral(config: type) -> dict[str, float]:
    """Return the value of each setting or option with which a method has no effect."""
    return {name: setting.neutral for name, setting in settings_of(config).items() if setting.neutral is not None}


class Shaper(HasOptions, Generic[Config]):
    """Base class of the methods of `advantage_shaping`. A subclass overrides [`weights`] or another hook.

    Every trainer builds its own instance from its configuration (`self.args`), which holds TRL's fields and the
    method's settings.
    """

    settings_class: ClassVar[type[ShapingConfig]] = ShapingConfig
    """The configuration class with the settings that the method reads in `self.args`.

    `Shaper[ThatClass]` gives a type checker the type of `self.args`.
    """

    paper: ClassVar[Paper | None] = None
    """The paper that the model card cites."""

    reads: tuple[str, ...] = ()
    """Names the data that the hooks read in addition to masks and advantages. Only data that a method names are
    computed:

    - `"rewards"`, `"logps"`, `"entropies"`: fields of a [`Rollout`]. `"logps"` and `"entropies"` can cost a forward
      pass per rollout
    - `"correctness"`: the `deciding_rewards` of a [`Rollout`]. If there are several reward functions, `correct_reward`
      must name one of them
    - `"all_ranks"`: the [`Rollout`] holds the groups of all ranks, not only those of this rank's completions
    - `"mean_entropy"`: the argument of [`on_rollout`], which can cost a forward pass per rollout
    - `"draws"`, `"sensitivities"`: fields of a [`TokenBatch`]. `"sensitivities"` cost a second pass of the LM head
    """

    replaces_kl: ClassVar[bool] = False
    """Whether the method takes the place of TRL's KL penalty, which is then left out of the loss.

    The `ref_logps` of a [`TokenBatch`] are set if `beta` is not 0, or a method's [`kl_coef`].
    """

    distinguishes_tokens: ClassVar[bool] = True
    """Whether the tokens of one completion can get different advantages. With [`scales`] alone they cannot: set it to
    False."""

    needs: ClassVar[Mapping[str, Need]] = {}
    """Maps fields of `GRPOConfig` to the conditions that their values must meet. `TOKEN_RATIOS` is an example."""

    surrogate: ClassVar[dict[str, Any]] = {}
    """Maps fields of `GRPOConfig` to values that switch TRL's clipping off. It is empty unless the method has its own
    loss."""

    control: ClassVar[Control | None] = None
    """The upper bound and the gain with which `hold_entropy` adjusts [`strength`]. It is `None` if `hold_entropy`
    cannot adjust this method."""

    strength: float = 0.0
    """The strength of the method, which `hold_entropy` adjusts between rollouts. A positive strength raises the
    entropy, a negative one lowers it, and 0 has no effect."""

    progress: float = 0.0
    """The share of the run that was done when the current rollout was generated, in [0, 1]."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "per_token" in vars(cls):
            raise InvalidValueError(f"{cls.__name__}.per_token has another name: distinguishes_tokens. Rename it.")

    def __init__(self, args: Config) -> None:
        self.args = args
        # The log-probability of a token differs in its last bits from batch to batch, so thresholds need a margin.
        # The margin is in nats for surprisals and entropies, and relative for |Omega| and covariances.
        self.tolerance = 0.0 if args.shaping_scope == "micro_batch" else 1e-5
        self.options = read_options(type(self), args)
        self._neutral_settings = _find_neutral(self.settings_class)
        self._neutral_options = _find_neutral(self.options_class)
        if self.control and self.control.option:
            self.strength = getattr(self.options, self.control.option)

    @classmethod
    def settings(cls) -> tuple[str, ...]:
        """Return the names of the method's settings, without the settings that all methods share."""
        general = {field.name for field in fields(ShapingConfig)}
        return tuple(field.name for field in fields(cls.settings_class) if field.name not in general)

    @classmethod
    def fill_unset(cls, args: Config) -> None:
        """Fill the method's unset settings whose defaults depend on other settings.

        Called once, before [`complaints`].
        """

    @classmethod
    def complaints(cls, args: Config) -> list[str]:
        """Return complaints about combinations of the method's settings.

        Called only if the method is in use and each setting is in range.
        """
        return []

    @classmethod
    def remarks(cls, args: Config) -> list[str]:
        """Return warnings about settings with which the method does less than expected."""
        return []

    @classmethod
    def overrides(cls, *hooks: str) -> bool:
        """Return whether the subclass overrides any of the `hooks`."""
        return any(getattr(cls, hook) is not getattr(Shaper, hook) for hook in hooks)

    @property
    def active(self) -> bool:
        """False if the method currently cannot change anything.

        The loss then stays bit for bit as it is.
        """
        if self.control is not None and self.strength == 0:
            return False
        settings_act = all(getattr(self.args, name) != value for name, value in self._neutral_settings.items())
        options_act = all(getattr(self.options, name) != value for name, value in self._neutral_options.items())
        return settings_act and options_act

    # The next three hooks receive a rollout, whose optional fields are set only if `reads` names them. The hooks run
    # on every rank and never in evaluation, so they may change the method's state.

    def advantages(self, rollout: Rollout) -> Float[Tensor, "N"] | Float[Tensor, "N T"]:
        """Return new advantages `[N]`, `[N, 1]` or `[N, T]`.

        A completion whose reward is NaN, because no function could score it, is in no group: its advantage must be 0,
        and the others' must not depend on it.
        """
        raise NotImplementedError

    def scales(self, rollout: Rollout) -> Float[Tensor, "N"]:
        """Return a factor `[N]` for each completion's advantages.

        A completion whose reward is NaN, because no function could score it, is in no group: its factor must be 1, and
        the others' must not depend on it. `reads` must name `"rewards"` for that.
        """
        raise NotImplementedError

    def rollout_bonus(self, rollout: Rollout) -> Float[Tensor, "N T"]:
        """Return a bonus `[N]` or `[N, T]` that is added to the advantages."""
        raise NotImplementedError

    def measure(self, batch: TokenBatch, reduce: Reduce) -> Any:
        """Return statistics over the tokens of an optimizer step, as a tensor or a `NamedTuple` of tensors.

        If `reduce` is `order_statistics.all_ranks`, the statistics cover the tokens of all ranks. Every rank must call
        `reduce` the same number of times, even if all tokens of the rank are masked.
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
        """Return the coefficient of TRL's entropy bonus in the current loss.

        If it is 0, the loss stays bit for bit the same.
        """
        return 0.0

    def kl_coef(self) -> float:
        """Return the coefficient of TRL's KL penalty in the current loss.

        If it is 0, the loss stays bit for bit the same, and the reference model makes no pass.
        """
        return 0.0

    def marks(self, batch: TokenBatch, measure: Any) -> dict[str, Bool[Tensor, "B T"]]:
        """Return a dict that maps log keys to boolean masks `[B, T]`.

        The share of trained tokens that a mask selects is logged under the mask's key.
        """
        return {}

    def check_rewards(self, rewards: Float[Tensor, "N"], deciding: Float[Tensor, "N"]) -> None:
        """Raise `ValueError` if the method cannot work with the rewards of a new training rollout.

        Called if `reads` names `"rewards"` or `"correctness"`, with the rewards of all ranks, so that all of them
        refuse. `deciding` are the rewards that decide whether a completion is correct.
        """

    def on_rollout(self, entropy: float) -> None:
        """Process the mean entropy per token (nats, over all ranks) of a new training rollout.

        Called before any update on that rollout.
        """

    def metrics(self) -> dict[str, float]:
        """Return the method's own numbers to be logged after an optimizer step."""
        return {}

    def state_dict(self) -> dict[str, Any]:
        """Return the state that changes during training, as plain numbers.

        Every checkpoint saves it.
        """
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a [`state_dict`].

        If `train` is called a second time, the trainer restores the state from before the first call.
        """
