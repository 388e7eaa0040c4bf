"""What a method sees of a micro-batch, and what it must answer."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor

from steer_trl.config import SteerGRPOConfig


@dataclass(frozen=True)
class TokenBatch:
    """The tokens of one micro-batch, after the forward pass of the loss. All detached.

    Attributes:
        logps (`torch.Tensor` of shape `[B, T]`): current log-probabilities, nats.
        old_logps (`torch.Tensor` of shape `[B, T]`): log-probabilities such that `exp(logps - old_logps)` is the
            importance ratio of the token, or of its sequence if the loss takes that; before the loss bounds it.
        entropies (`torch.Tensor` of shape `[B, T]`): current next-token entropies, nats.
        old_entropies (`torch.Tensor` of shape `[B, T]`): the same at rollout time.
        advantages (`torch.Tensor` of shape `[B, 1]` or `[B, T]`): untouched by any method.
        mask (`torch.Tensor` of shape `[B, T]`): 1 for tokens that are trained on; 0 for padding, tool output and
            masked truncated completions.
        epsilon_low (`float`), epsilon_high (`float`): clip range of the loss; `inf` where it does not clip.
    """

    logps: Tensor
    old_logps: Tensor
    entropies: Tensor
    old_entropies: Tensor
    advantages: Tensor
    mask: Tensor
    epsilon_low: float
    epsilon_high: float


class Shaper:
    """A method: token weights that multiply the advantages.

    A subclass answers [`weights`]; the rest is for methods with a switch or a memory. It is made once per trainer,
    from the whole configuration.
    """

    paper: ClassVar[dict[str, str]]
    """Title, arXiv id and BibTeX of the method, for the model card."""

    needs_rollout_entropy: bool = False
    """Whether [`on_rollout`] must be told the rollout's entropy, which can cost a forward pass per rollout."""

    def __init__(self, args: SteerGRPOConfig) -> None:
        self.args = args

    @property
    def active(self) -> bool:
        """Whether any weight can differ from 1 now. If not, the advantages are not touched at all."""
        return True

    def weights(self, batch: TokenBatch) -> Tensor:
        """Return weights of shape `[B, T]`, positive, 1 off the mask. Never changes the method's state."""
        raise NotImplementedError

    def on_rollout(self, entropy: float) -> None:
        """Take the token-mean entropy (nats) of a new training rollout over all ranks, before any update with it."""

    def metrics(self) -> dict[str, float]:
        """Return the method's own numbers for the log, one entry per rollout."""
        return {}

    def state_dict(self) -> dict[str, Any]:
        """Return what moves during training, as plain numbers; it is saved with every checkpoint."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a [`state_dict`]."""


def combined_weights(shapers: Iterable[Shaper], batch: TokenBatch) -> Tensor | None:
    """Multiply the weights of all active methods; `None` when none is active, so that off is exactly off."""
    product: Tensor | None = None
    for shaper in shapers:
        if shaper.active:
            weights = shaper.weights(batch)
            product = weights if product is None else product * weights
    return product
