"""Warnings about settings that make the scored policy differ from the sampling policy.

With truncated sampling (`top_p`, `top_k`, `min_p`), the trainer computes log-probabilities and entropies over the
whole vocabulary, but vLLM computes log-probabilities over the tokens that sampling keeps. Before TRL 1.17, the
importance ratio is therefore too small by a factor equal to the total probability of the kept tokens (trl issue 6789).
With dropout, each forward pass uses a different subnetwork (trl issue 3500).
"""

import logging
from collections.abc import Iterator, Mapping
from typing import Any

from torch import nn

logger = logging.getLogger(__name__)

WHOLE = {"top_p": 1.0, "top_k": 0, "min_p": None}
"""The values of the sampling settings that keep all tokens."""


def remark_other_policies(args: Any, model: nn.Module | None) -> None:
    """Warn about truncated sampling and about dropout.

    `args` and `model` may belong to a trainer of any class.
    """
    if (cut := truncation(args)) is not None:
        logger.warning("%s", cut)
    if model is not None and (names := list(dropping(model))):
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        logger.warning(
            "Dropout is on in %s%s: the model scores with a different subnetwork than it samples with, which moves "
            "ratios, KL and entropies. Set disable_dropout=True; for attention, attention_dropout to 0 in the model's "
            "configuration.",
            ", ".join(names[:3]),
            more,
        )


def truncation(args: Any) -> str | None:
    """Return the warning about `top_p`, `top_k` and `min_p`, or `None` if they keep all tokens."""
    others = getattr(args, "generation_kwargs", None)
    given = {name: getattr(args, name, None) for name in WHOLE} | dict(others if isinstance(others, Mapping) else {})
    top_p, top_k, min_p = (given[name] for name in WHOLE)
    cuts = {"top_p": top_p is not None and top_p < 1, "top_k": (top_k or 0) > 0, "min_p": (min_p or 0) > 0}
    if not any(cuts.values()):
        return None
    settings = ", ".join(f"{name}={given[name]}" for name in WHOLE if cuts[name])
    instead = ", ".join(f"{name}={WHOLE[name]}" for name in WHOLE if cuts[name])
    ratio = ""
    if getattr(args, "use_vllm", False) and getattr(args, "vllm_importance_sampling_correction", False):
        ratio = " Before TRL 1.17, the importance ratio of vLLM's tokens is too small by the probability that is kept."
    return (
        f"Sampling is truncated ({settings}): entropies are over the whole vocabulary, so the entropy that is logged "
        f"and held is not that of the sampled tokens.{ratio} Set {instead}."
    )


def dropping(model: nn.Module) -> Iterator[str]:
    """Yield the names of the modules with dropout, including dropout inside attention."""
    for name, module in model.named_modules():
        p = module.p if isinstance(module, nn.modules.dropout._DropoutNd) else getattr(module, "attention_dropout", 0)
        if isinstance(p, (int, float)) and p > 0:
            yield name
