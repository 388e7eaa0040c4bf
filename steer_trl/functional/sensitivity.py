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


def entropy_sensitivity_without_logits(
    logps: Float[Tensor, "*tokens"],
    entropies: Float[Tensor, "*tokens"],
    half_logps: Float[Tensor, "*tokens"],
    half_entropies: Float[Tensor, "*tokens"],
) -> Float32[Tensor, "*tokens"]:
    r"""Return the same, exactly, from what a fused LM head returns at the temperature and at half of it.

        Phi(a) = pi_a (ln pi_a + H) - S [(ln pi_a + H) - (ln rho_a + H_rho) / 2],   S = pi_a^2 / rho_a

    Half the temperature squares the probabilities: rho_v = pi_v^2 / S with S = sum_v pi_v^2, so that
    `sum_v pi_v^2 ln pi_v = S (ln S - H_rho) / 2`. The sums are arranged by `ln pi_a + H`, which is how far the token's
    logit is above the mean one: normalisations, and their rounding, cancel in it.

    Args:
        logps, entropies (`torch.Tensor` of shape `[...]`): ln pi of the token whose update is considered, and H, nats.
        half_logps, half_entropies (`torch.Tensor` of shape `[...]`): the same of rho, for the same logits at half the
            temperature.

    Returns:
        `torch.Tensor` of shape `[...]`: Phi in nats per unit of logit, float32; 0 where all four are 0, which is what
        TRL's head returns for a position that it does not score.
    """
    lp, entropy, half_lp, half_entropy = (x.detach().float() for x in (logps, entropies, half_logps, half_entropies))
    above_mean = lp + entropy
    return lp.exp() * above_mean - (2 * lp - half_lp).exp() * (above_mean - (half_lp + half_entropy) / 2)
