"""The data that methods read: the tokens of a micro-batch, or a whole rollout."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import torch
from jaxtyping import Float, Float32, Shaped
from torch import Tensor
from torch.nn.functional import pad

from steer_trl.shaping.sensitivity import entropy_change


def mean_of_tokens(values: Float[Tensor, "B T"], mask: Shaped[Tensor, "B T"]) -> Float32[Tensor, "B"]:
    """Return the mean `[B]` of each row's finite values where `mask` is 1, float32; NaN if a row has none."""
    valid = mask.bool() & values.isfinite()
    return torch.where(valid, values.float(), 0.0).sum(1) / valid.sum(1)


@dataclass(frozen=True)
class TokenBatch:
    """The tokens of one micro-batch, after the forward pass of the loss. All tensors are detached.

    Attributes:
        logps (`torch.Tensor` of shape `[B, T]`): current log-probabilities, nats.
        old_logps (`torch.Tensor` of shape `[B, T]`): log-probabilities at rollout time, nats.
        entropies (`torch.Tensor` of shape `[B, T]`): current next-token entropies, nats.
        old_entropies (`torch.Tensor` of shape `[B, T]`): next-token entropies at rollout time, nats.
        advantages (`torch.Tensor` of shape `[B, 1]` or `[B, T]`): the advantages after all hooks on rollouts.
            The hook `weights` receives them with the bonuses added.
        mask (`torch.Tensor` of shape `[B, T]`): 1 for tokens that are trained on; 0 for padding, tool output and
            truncated completions that the loss leaves out.
        epsilon_low (`float`), epsilon_high (`float`): clip range of the loss; `inf` if the loss does not clip.
        draws (`torch.Tensor` of shape `[B, T]`, *optional*): uniform random numbers in [0, 1), set only if a
            method's `reads` names them. They depend on the seed, the optimizer step and the token's place in the
            rollout, not on how the rollout is split.
        log_ratio (`torch.Tensor` of shape `[B, 1]` or `[B, T]`, *optional*): logarithm of the importance
            ratio, for a loss with one ratio per completion. The default is `logps - old_logps` for each token.
        sensitivities (`torch.Tensor` of shape `[B, T]`, *optional*): the exact Phi of each token
            ([`~steer_trl.functional.entropy_sensitivity`]), set only if a method's `reads` names them.
        ref_logps (`torch.Tensor` of shape `[B, T]`, *optional*): log-probabilities under the reference model, nats.
            Set if the loss has a KL penalty or `beta` is not 0.
        is_first_step (`bool`): whether the policy was not updated since the rollout. `logps` and `old_logps` then
            differ only by rounding.
    """

    logps: Float[Tensor, "B T"]
    old_logps: Float[Tensor, "B T"]
    entropies: Float[Tensor, "B T"]
    old_entropies: Float[Tensor, "B T"]
    advantages: Float[Tensor, "B 1"] | Float[Tensor, "B T"]
    mask: Shaped[Tensor, "B T"]
    epsilon_low: float
    epsilon_high: float
    draws: Float[Tensor, "B T"] | None = None
    log_ratio: Float[Tensor, "B 1"] | Float[Tensor, "B T"] | None = None
    sensitivities: Float[Tensor, "B T"] | None = None
    ref_logps: Float[Tensor, "B T"] | None = None
    is_first_step: bool = False

    @property
    def ratio(self) -> Float32[Tensor, "B 1"] | Float32[Tensor, "B T"]:
        """The importance ratio r of the loss before clipping, float32."""
        if self.log_ratio is not None:
            return torch.exp(self.log_ratio)
        return torch.exp(self.logps.float() - self.old_logps.float())

    def entropy_change(self, exact: bool = False) -> Float32[Tensor, "B T"]:
        """Return Omega, the entropy change that a gradient step on each token causes.

        With `exact`, Omega is computed from the `sensitivities`. Otherwise it is STEER's estimate. Omega
        is NaN if an input is not finite.
        """
        return entropy_change(
            *(self.logps, self.old_logps, self.entropies, self.advantages),
            epsilon_low=self.epsilon_low,
            epsilon_high=self.epsilon_high,
            log_ratio=self.log_ratio,
            sensitivities=self.sensitivities if exact else None,
        )

    @classmethod
    def merge(cls, batches: Sequence["TokenBatch"]) -> "TokenBatch":
        """Concatenate the completions of several micro-batches, padded to the widest one.

        A field that is `None` in one of the micro-batches is `None` in the result.
        """
        width = max(batch.logps.size(1) for batch in batches)
        rows: dict[str, Any] = {}
        for field in fields(cls):
            if not isinstance(getattr(batches[0], field.name), Tensor):
                continue
            parts = []
            for batch in batches:
                part = getattr(batch, field.name)
                if part is not None:
                    part = part.expand_as(batch.logps)
                    parts.append(pad(part, (0, width - part.size(1))) if part.size(1) < width else part)
            rows[field.name] = torch.cat(parts) if len(parts) == len(batches) else None
        return replace(batches[0], **rows)


@dataclass(frozen=True)
class Rollout:
    """Whole groups of a training rollout: N completions, grouped by prompt. All tensors are detached.

    Attributes:
        num_generations (`int`): G, the number of completions per prompt.
        mask (`torch.Tensor` of shape `[N, T]`): 1 for the tokens that are trained on, over which the loss averages.
        advantages (`torch.Tensor` of shape `[N, 1]` or `[N, T]`): TRL's advantages, or the result of the previous
            method.
        rewards (`torch.Tensor` of shape `[N]`, *optional*): the weighted sum of the reward functions; NaN if no
            function scored the completion. Like `logps` and `entropies`, it is set only if a method's `reads` names
            it.
        logps, entropies (`torch.Tensor` of shape `[N, T]`, *optional*): log-probabilities and next-token
            entropies, nats, under the policy that generated the rollout.
        response_mask (`torch.Tensor` of shape `[N, T]`, *optional*): 1 for every token that the policy generated. It
            includes completions that `mask_truncated_completions` keeps out of the loss; `None` if it equals `mask`.
        deciding_rewards (`torch.Tensor` of shape `[N]`, *optional*): the rewards that decide whether a completion is
            correct, which are those of the function `correct_reward` or of the only one; NaN if it did not score the
            completion. Set if a method's `reads` names `"rewards"` or `"correctness"`.
    """

    num_generations: int
    mask: Shaped[Tensor, "N T"]
    advantages: Float[Tensor, "N 1"] | Float[Tensor, "N T"]
    rewards: Float[Tensor, "N"] | None = None
    logps: Float[Tensor, "N T"] | None = None
    entropies: Float[Tensor, "N T"] | None = None
    response_mask: Shaped[Tensor, "N T"] | None = None
    deciding_rewards: Float[Tensor, "N"] | None = None

    @property
    def responses(self) -> Shaped[Tensor, "N T"]:
        """The mask `[N, T]` of all generated tokens, including those that the loss leaves out."""
        return self.mask if self.response_mask is None else self.response_mask

    @property
    def lengths(self) -> Float32[Tensor, "N"]:
        """The number of generated tokens in each completion `[N]`, float32."""
        return self.responses.float().sum(1)

    def mean_of_tokens(self, values: Float[Tensor, "N T"]) -> Float32[Tensor, "N"]:
        """Return the mean `[N]` of each completion's finite values over the generated tokens.

        The mean is NaN if a completion has no finite value.
        """
        return mean_of_tokens(values, self.responses)

    def mean_of_scored(self, values: Float[Tensor, "N T"]) -> Float32[Tensor, "N"]:
        """Return the result of [`mean_of_tokens`], with NaN for completions without a reward."""
        assert self.rewards is not None
        return torch.where(self.rewards.isnan(), torch.nan, self.mean_of_tokens(values))
