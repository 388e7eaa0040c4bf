"""A remark on mixtures of experts: what this package reads of them is confounded by their routing."""

import logging
from typing import Any

logger = logging.getLogger(__name__)

COUNTS = ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts")
"""What configurations call the number of experts."""


def remark_experts(config: Any) -> None:
    """State once, when a trainer is made, that TRL trains a mixture of experts without router replay."""
    text = config.get_text_config() if hasattr(config, "get_text_config") else config
    if max(getattr(text, name, None) or 0 for name in COUNTS) > 1:
        logger.warning(
            "A mixture of experts: TRL has no router replay, so the experts that score and train a token can be others"
            " than those that wrote it. A change of routing then looks like a change of probabilities and of the "
            "entropy, which methods read: watch sampling/sampling_logp_difference/mean and sanity/out_of_bounds, and "
            "keep to one optimizer step per rollout."
        )
