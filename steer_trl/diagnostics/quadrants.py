"""Who the tokens of an optimizer step are: their quadrant, where the entropy lies, which of them are clipped.

The quadrants are those of STEER, arXiv 2510.10150, section 3.2, and of STARE, arXiv 2606.19236, section 3. An update
moves the entropy by -A Phi, and the sign of Phi is that of its leading term ln pi + H nearly everywhere: a token whose
surprisal is above the entropy of its distribution is surprising, the others are expected.

    A > 0, expected     exploitation        entropy falls       A > 0, surprising   exploration     entropy rises
    A < 0, expected     error correction    entropy rises       A < 0, surprising   suppression     entropy falls
"""

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from steer_trl.diagnostics.statistics import Statistic, mean
from steer_trl.functional.clipping import clipped
from steer_trl.shaping.batch import TokenBatch

UNLIKELY = 0.2
"""Below this probability at rollout time a token is unlikely: STEER's bound, section 3.2."""


def measurable(batch: TokenBatch) -> Bool[Tensor, "B T"]:
    """The trained tokens whose log-probability and entropy are finite."""
    return batch.mask.bool() & batch.logps.isfinite() & batch.entropies.isfinite()


def quadrants(batch: TokenBatch) -> dict[str, Bool[Tensor, "B T"]]:
    """Return which tokens are in each quadrant, by the key of its share in the log; those with A = 0 are in none."""
    surprising = batch.logps.float() + batch.entropies.float() < 0
    positive, negative = batch.advantages > 0, batch.advantages < 0
    return {
        "quadrants/positive_expected": positive & ~surprising,
        "quadrants/positive_surprising": positive & surprising,
        "quadrants/negative_expected": negative & ~surprising,
        "quadrants/negative_surprising": negative & surprising,
    }


def quarters(mask: Tensor) -> Int[Tensor, "B T"]:
    """Return in which quarter of its completion each token lies, 0 to 3: by its place among the tokens of the mask."""
    place = mask.long().cumsum(1)
    return (place - 1) * 4 // place[:, -1:].clamp(min=1)


def token_statistics(batch: TokenBatch) -> dict[str, Statistic]:
    """Return the shares of the quadrants, the entropy by position and by advantage, and the clipped shares."""
    seen = measurable(batch)
    count = seen.sum(dtype=torch.float32)
    found = {key: mean(tokens, seen, count) for key, tokens in quadrants(batch).items()}
    entropies, quarter = batch.entropies.float(), quarters(batch.mask)
    parts = {
        "entropy/first_quarter": quarter == 0,
        "entropy/second_quarter": quarter == 1,
        "entropy/third_quarter": quarter == 2,
        "entropy/last_quarter": quarter == 3,
        "entropy/positive": batch.advantages > 0,
        "entropy/negative": batch.advantages < 0,
    }
    found |= {key: mean(entropies, seen & part) for key, part in parts.items()}
    return found | {key: mean(tokens, seen, count) for key, tokens in clips(batch).items()}


def clips(batch: TokenBatch) -> dict[str, Bool[Tensor, "B T"]]:
    """Return which tokens the loss clips, by bound and by probability at rollout time.

    Empty for a loss without clipping, and where no token can have moved: in the first step of a rollout that TRL has
    not scored.
    """
    if batch.epsilon_high == torch.inf or batch.old_logps is batch.logps:
        return {}
    low, high = clipped(batch.ratio, batch.advantages, 1 - batch.epsilon_low, 1 + batch.epsilon_high)
    unlikely = batch.old_logps.float().exp() < UNLIKELY
    return {
        "clip/lower_unlikely": low & unlikely,
        "clip/lower_likely": low & ~unlikely,
        "clip/upper_unlikely": high & unlikely,
        "clip/upper_likely": high & ~unlikely,
    }
