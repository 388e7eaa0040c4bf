"""Replaces biases of minus infinity, which mask a part of the vocabulary, by a large negative number.

TRL's head sums p z over the vocabulary for the entropy, and its gradient has products p (ln p + H). For a token with
z = -inf and p = 0 both are NaN, and so are the entropy of every position and, after one update with a gradient of the
entropy, all weights. With a large negative z, p is exactly 0 in float32 too, and both products have their limit of 0.
So log-probabilities, entropies and gradients are those of the vocabulary without the masked tokens.
"""

import logging
from typing import Any

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor

logger = logging.getLogger(__name__)

MASKED = -3e4
"""The logit of a masked token. It is within the range of float16, and exp of it is 0 at any usual temperature."""


@torch.no_grad()
def replace_infinite_biases(model: Any) -> None:
    """Replace the biases of minus infinity in the head of `model` by [`MASKED`], and log how many there were.

    Biases that an engine has sharded stay as they are.
    """
    head = model.get_output_embeddings()
    bias = getattr(head, "bias", None)
    if not isinstance(bias, Tensor) or isinstance(bias, DTensor):
        return
    is_masked = bias.isneginf()
    count = int(is_masked.sum())
    if count:
        bias.masked_fill_(is_masked, MASKED)
        logger.warning(
            "The head's bias was -inf for %d tokens. It is now %g, because TRL's entropy would be NaN. Their "
            "probability is still 0.",
            *(count, MASKED),
        )
