"""The exact first-order effect of a token's update on the entropy of its own distribution (STARE, section 3)."""

import torch
from jaxtyping import Float, Float32, Int
from torch import Tensor


def entropy_sensitivity(
    logits: Float[Tensor, "*tokens V"], token_ids: Int[Tensor, "*tokens"]
) -> Float32[Tensor, "*tokens"]:
    r"""Return the exact first-order effect of a token's update on the entropy of its own distribution.

        Phi(a) = pi_a (ln pi_a + H) - sum_v pi_v^2 (ln pi_v + H)

    A policy-gradient step of size epsilon with advantage A on token a changes H by -epsilon A Phi(a) to first order
    (STARE, section 3; STEER's Omega estimates the same quantity from the sampled token alone), and
    `sum_a pi_a Phi(a) = 0`.

    Args:
        logits (`torch.Tensor` of shape `[..., V]`): next-token logits, already divided by the temperature.
        token_ids (`torch.Tensor` of shape `[...]`): the token whose update is considered.

    Returns:
        `torch.Tensor` of shape `[...]`: Phi in nats per unit of logit, float32.
    """
    logps = logits.detach().float().log_softmax(-1)
    probs = logps.exp()
    entropy = torch.special.entr(probs).sum(-1, keepdim=True)
    # A token of probability 0 has ln pi = -inf and no effect.
    slope = torch.where(probs > 0, probs * (logps + entropy), 0.0)
    chosen = slope.gather(-1, token_ids.unsqueeze(-1)).squeeze(-1)
    return chosen - (probs * slope).sum(-1)
