"""The effect of a token's update on the entropy of its own distribution.

Phi is the exact effect to first order (STARE, section 3), computed from logits or from the outputs of a fused head.
Omega is the entropy change that one gradient step on the token causes. It is computed exactly, or as STEER estimates
it from the sampled token (Eq. 6 and 9).
"""

import torch
from jaxtyping import Float, Float32, Int
from torch import Tensor

from steer_trl.shaping.clipping import find_clipped


def entropy_sensitivity(
    logits: Float[Tensor, "*tokens V"], token_ids: Int[Tensor, "*tokens"]
) -> Float32[Tensor, "*tokens"]:
    r"""Return the exact first-order effect of a token's update on the entropy of its own distribution.

        Phi(a) = pi_a (ln pi_a + H) - sum_v pi_v^2 (ln pi_v + H)

    A policy-gradient step of size epsilon with advantage A on token a changes H by -epsilon A Phi(a) (STARE,
    section 3). Phi is in nats per unit of logit, and `sum_a pi_a Phi(a) = 0`.

    Args:
        logits (`torch.Tensor` of shape `[..., V]`): next-token logits, already divided by the temperature.
        token_ids (`torch.Tensor` of shape `[...]`): the token whose update is considered.
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
    r"""Return the result of [`entropy_sensitivity`], computed from a fused head's outputs at two temperatures.

        Phi(a) = pi_a (ln pi_a + H) - S [(ln pi_a + H) - (ln rho_a + H_rho) / 2],   S = pi_a^2 / rho_a

    Halving the temperature squares the probabilities: rho_v = pi_v^2 / S with S = sum_v pi_v^2, so that
    `sum_v pi_v^2 ln pi_v = S (ln S - H_rho) / 2`. The terms are grouped by `ln pi_a + H`, in which normalisations and
    their rounding cancel. TRL's head returns zeros for a position that is not scored. Phi is then 0.

    Args:
        logps, entropies (`torch.Tensor` of shape `[...]`): ln pi_a of the token that is updated, and H, nats.
        half_logps, half_entropies (`torch.Tensor` of shape `[...]`): ln rho_a and H_rho at half the temperature, nats.
    """
    lp, entropy, half_lp, half_entropy = (x.detach().float() for x in (logps, entropies, half_logps, half_entropies))
    above_mean = lp + entropy
    return lp.exp() * above_mean - (2 * lp - half_lp).exp() * (above_mean - (half_lp + half_entropy) / 2)


def entropy_change(
    logps: Float[Tensor, "B T"],
    old_logps: Float[Tensor, "B T"],
    entropies: Float[Tensor, "B T"],
    advantages: Float[Tensor, "B"] | Float[Tensor, "B 1"] | Float[Tensor, "B T"],
    *,
    epsilon_low: float = 0.2,
    epsilon_high: float = 0.2,
    log_ratio: Float[Tensor, "B 1"] | Float[Tensor, "B T"] | None = None,
    sensitivities: Float[Tensor, "B T"] | None = None,
) -> Float32[Tensor, "B T"]:
    r"""Return the entropy change that one gradient step on each token causes, per unit of the learning rate.

        Omega = - I_clip r A Phi
        I_clip = 0 where (A > 0 and r > 1 + epsilon_high) or (A < 0 and r < 1 - epsilon_low), else 1

    With the exact Phi, Omega is the derivative of the token's entropy along the step. Otherwise Phi is estimated as
    (1 - pi)^2 (ln pi + H), which is STEER's Eq. 9 in its single-sample form, with the clip indicator of Eq. 6. The
    change is NaN if an input is not finite.

    Args:
        logps, old_logps, entropies (`torch.Tensor` of shape `[B, T]`): nats; `old_logps` are from rollout time.
        advantages (`torch.Tensor` of shape `[B]`, `[B, 1]` or `[B, T]`).
        epsilon_low (`float`), epsilon_high (`float`): clip range of the loss; `inf` if the loss does not clip.
        log_ratio (`torch.Tensor` of shape `[B, T]` or `[B, 1]`, *optional*): ln r, for a loss whose ratio is not the
            token's own `logps - old_logps`.
        sensitivities (`torch.Tensor` of shape `[B, T]`, *optional*): the exact Phi of each token.
    """
    lp, lq, entropy, advantage = _columns(logps, old_logps, entropies, advantages)
    phi = torch.expm1(lp).square() * (lp + entropy) if sensitivities is None else sensitivities.detach().float()
    ratio = torch.exp(lp - lq if log_ratio is None else log_ratio.detach().float())
    too_low, too_high = find_clipped(ratio, advantage, 1 - epsilon_low, 1 + epsilon_high)
    omega = torch.where(too_low | too_high, 0.0, -ratio * advantage * phi)
    return torch.where(lp.isfinite() & lq.isfinite() & entropy.isfinite(), omega, torch.nan)


def released_entropy_change(
    logps: Float[Tensor, "B T"],
    old_logps: Float[Tensor, "B T"],
    entropies: Float[Tensor, "B T"],
    advantages: Float[Tensor, "B"] | Float[Tensor, "B 1"] | Float[Tensor, "B T"],
) -> Float32[Tensor, "B T"]:
    r"""Return the entropy change of each token, as the code of STEER's authors estimates it.

        Omega = - (A / q) pi (1 - pi) (ln pi + H)

    Unlike Eq. 9, this has one factor (1 - pi) instead of two, and no clip indicator. pi and the old probability q are
    at least 1e-8.
    """
    lp, lq, entropy, advantage = _columns(logps, old_logps, entropies, advantages)
    pi = lp.exp().clamp(min=1e-8)
    q = lq.exp().clamp(1e-8, 1.0)
    omega = -(advantage / q) * pi * (1 - pi) * (pi.log() + entropy)
    return torch.where(lp.isfinite() & lq.isfinite() & entropy.isfinite(), omega, torch.nan)


def _columns(*tensors: Tensor) -> list[Tensor]:
    """Return the tensors detached and in float32. A tensor of shape `[B]` becomes a column `[B, 1]`."""
    columns = []
    for tensor in tensors:
        numbers = tensor.detach().float()
        columns.append(numbers.unsqueeze(1) if numbers.dim() == 1 else numbers)
    return columns
