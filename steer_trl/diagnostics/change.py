"""The change of the entropy by an optimizer step: predicted token by token.

    predicted   -I_clip r A_hat Phi                        exact to first order (docs/why.md), where Phi is known
    estimated   -I_clip r A_hat (1 - pi)^2 (ln pi + H)     STEER's Omega, arXiv 2510.10150, Eq. 9: always at hand

A_hat is the advantage that the loss sees. Both leave out the learning rate, and what tokens do to each other: their
signs say something, their size does not.
"""

from dataclasses import replace

import torch
from jaxtyping import Float, Float32
from torch import Tensor

from steer_trl.diagnostics.quadrants import measurable, quadrants
from steer_trl.diagnostics.statistics import Statistic, mean
from steer_trl.shaping.batch import TokenBatch


def changes(
    batch: TokenBatch, advantages: Float[Tensor, "B 1"] | Float[Tensor, "B T"]
) -> tuple[Float32[Tensor, "B T"], Float32[Tensor, "B T"] | None]:
    """Return the estimated and the predicted change, nats per unit of step size; `None` where Phi is unknown."""
    seen = replace(batch, advantages=advantages)
    return seen.entropy_change(), None if batch.sensitivities is None else seen.entropy_change(exact=True)


def change_statistics(
    batch: TokenBatch, advantages: Float[Tensor, "B 1"] | Float[Tensor, "B T"]
) -> dict[str, Statistic]:
    """Return the means of what is estimated and predicted, and what each quadrant contributes to the latter.

    The four contributions add up to the mean.
    """
    estimated, predicted = changes(batch, advantages)
    seen = measurable(batch)
    found = {"entropy/estimated_change": mean(estimated, seen & estimated.isfinite())}
    if predicted is None:
        return found
    seen &= predicted.isfinite()
    found["entropy/predicted_change"] = mean(predicted, seen)
    for key, tokens in zip(CONTRIBUTIONS, quadrants(batch).values(), strict=True):
        found[key] = mean(torch.where(tokens, predicted, 0.0), seen)
    return found


CONTRIBUTIONS = (
    "quadrants/positive_expected_change",
    "quadrants/positive_surprising_change",
    "quadrants/negative_expected_change",
    "quadrants/negative_surprising_change",
)
"""In the order of [`quadrants`]."""
