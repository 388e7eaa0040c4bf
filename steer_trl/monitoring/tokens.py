"""Statistics of an optimizer step's tokens by quadrant, position, clipping and effect on the entropy.

The quadrants are defined in STEER, arXiv 2510.10150, section 3.2, and in STARE, arXiv 2606.19236, section 3. They
depend on the sign of the advantage A and on the surprisal of the token. A token whose surprisal is above the entropy
of its distribution is surprising. All other tokens are expected.

    A > 0, expected     exploitation        entropy falls       A > 0, surprising   exploration     entropy rises
    A < 0, expected     error correction    entropy rises       A < 0, surprising   suppression     entropy falls

The change of the entropy due to the step is computed in two ways from the advantage A_hat that enters the loss:

    predicted   -I_clip r A_hat Phi                        exact to first order (docs/theory.md), if Phi is known
    estimated   -I_clip r A_hat (1 - pi)^2 (ln pi + H)     STEER's Omega, Eq. 9: always available

Here I_clip is 0 for a token that the loss clips and 1 for any other token. r is the ratio of the token's probability
pi to its probability at rollout time, H is the entropy, and Phi is the sensitivity of H to an update on the token.

Both changes leave out the learning rate and interactions of tokens, so only their signs are meaningful, not their
sizes.
"""

import math
from dataclasses import replace

import torch
from jaxtyping import Bool, Float, Float32, Int
from torch import Tensor

from steer_trl.monitoring.statistics import Statistic, mean
from steer_trl.shaping.batch import TokenBatch
from steer_trl.shaping.clipping import find_clipped

UNLIKELY = 0.2
"""Probability at rollout time below which a token counts as unlikely (STEER, section 3.2)."""
ROUNDING = 1e-3
"""Tolerance of the sanity check, in nats. Kernels sum in float32, which causes errors near 1e-5."""


def find_measurable(batch: TokenBatch) -> Bool[Tensor, "B T"]:
    """Return a mask of the trained tokens whose log-probability and entropy are finite."""
    return batch.mask.bool() & batch.logps.isfinite() & batch.entropies.isfinite()


def quadrants(batch: TokenBatch) -> dict[str, Bool[Tensor, "B T"]]:
    """Return a mask of the tokens in each quadrant, under the key that the log uses for the quadrant's share.

    Tokens with an advantage of 0 are in no quadrant.
    """
    surprising = batch.logps.float() + batch.entropies.float() < 0
    positive = batch.advantages > 0
    negative = batch.advantages < 0
    return {
        "quadrants/positive_expected": positive & ~surprising,
        "quadrants/positive_surprising": positive & surprising,
        "quadrants/negative_expected": negative & ~surprising,
        "quadrants/negative_surprising": negative & surprising,
    }


def quarters(mask: Tensor) -> Int[Tensor, "B T"]:
    """Return the quarter of the completion, from 0 to 3, in which each token of `mask` lies."""
    place = mask.long().cumsum(1)
    return (place - 1) * 4 // place[:, -1:].clamp(min=1)


def clips(batch: TokenBatch) -> dict[str, Bool[Tensor, "B T"]]:
    """Return masks of the tokens that the loss clips.

    There are two masks for each bound: one of the likely and one of the unlikely tokens. The result is empty for a
    loss without clipping. It is also empty if TRL has not computed the log-probabilities at rollout time, because all
    ratios are 1 then.
    """
    if batch.epsilon_high == torch.inf or batch.old_logps is batch.logps:
        return {}
    low, high = find_clipped(batch.ratio, batch.advantages, 1 - batch.epsilon_low, 1 + batch.epsilon_high)
    unlikely = batch.old_logps.float().exp() < UNLIKELY
    return {
        "clip/lower_unlikely": low & unlikely,
        "clip/lower_likely": low & ~unlikely,
        "clip/upper_unlikely": high & unlikely,
        "clip/upper_likely": high & ~unlikely,
    }


def token_statistics(batch: TokenBatch) -> dict[str, Statistic]:
    """Return the shares of the quadrants and of clipped tokens, and the entropy by position and advantage."""
    measurable = find_measurable(batch)
    count = measurable.sum(dtype=torch.float32)
    entropies = batch.entropies.float()
    quarter = quarters(batch.mask)
    parts = {
        "entropy/first_quarter": quarter == 0,
        "entropy/second_quarter": quarter == 1,
        "entropy/third_quarter": quarter == 2,
        "entropy/last_quarter": quarter == 3,
        "entropy/positive": batch.advantages > 0,
        "entropy/negative": batch.advantages < 0,
    }
    means = {key: mean(tokens, measurable, count) for key, tokens in quadrants(batch).items()}
    means |= {key: mean(entropies, measurable & part) for key, part in parts.items()}
    return means | {key: mean(tokens, measurable, count) for key, tokens in clips(batch).items()}


def changes(
    batch: TokenBatch, advantages: Float[Tensor, "B 1"] | Float[Tensor, "B T"]
) -> tuple[Float32[Tensor, "B T"], Float32[Tensor, "B T"] | None]:
    """Return each token's estimated and predicted change of the entropy, in nats per unit of step size.

    The predicted change is `None` if the batch has no sensitivities Phi.
    """
    shaped = replace(batch, advantages=advantages)
    return shaped.entropy_change(), None if batch.sensitivities is None else shaped.entropy_change(exact=True)


def change_statistics(
    batch: TokenBatch, advantages: Float[Tensor, "B 1"] | Float[Tensor, "B T"]
) -> dict[str, Statistic]:
    """Return the mean estimated change of the entropy.

    If the batch has sensitivities Phi, also return the mean predicted change and each quadrant's contribution to it.
    """
    estimated, predicted = changes(batch, advantages)
    measurable = find_measurable(batch)
    means = {"entropy/estimated_change": mean(estimated, measurable & estimated.isfinite())}
    if predicted is None:
        return means
    measurable &= predicted.isfinite()
    means["entropy/predicted_change"] = mean(predicted, measurable)
    for key, tokens in zip(CONTRIBUTIONS, quadrants(batch).values(), strict=True):
        means[key] = mean(torch.where(tokens, predicted, 0.0), measurable)
    return means


# These keys must be in the same order as the keys that `quadrants` returns.
CONTRIBUTIONS = (
    "quadrants/positive_expected_change",
    "quadrants/positive_surprising_change",
    "quadrants/negative_expected_change",
    "quadrants/negative_surprising_change",
)


def sanity_statistics(batch: TokenBatch, vocabulary_size: int) -> dict[str, Statistic]:
    """Return the shares of trained tokens with impossible values, and of those with values that are not finite.

    Faulty kernels produce impossible values: a log-probability above 0, or an entropy below 0 or above the logarithm
    of the vocabulary size. A logit of minus infinity makes an entropy NaN, because p ln p is then 0 times infinity.
    """
    entropies = batch.entropies
    is_finite = batch.logps.isfinite() & entropies.isfinite()
    is_possible = (batch.logps <= ROUNDING) & (entropies >= -ROUNDING)
    is_possible &= entropies <= math.log(vocabulary_size) + ROUNDING
    tokens = batch.mask.bool()
    return {
        "sanity/out_of_bounds": mean(is_finite & ~is_possible, tokens),
        "sanity/not_finite": mean(~is_finite, tokens),
    }
