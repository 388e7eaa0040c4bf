"""Remarks on settings by which the policy that is scored is another than the one that writes.

Truncated sampling: the trainer's log-probabilities and entropies are of the whole vocabulary, vLLM's of what is kept,
so their ratio is too small by the probability that is kept (trl issue 6789). Dropout: each pass has a subnetwork of
its own (trl issue 3500).
"""

import logging
from collections.abc import Iterator, Mapping
from typing import Any

from torch import nn

logger = logging.getLogger(__name__)

WHOLE = {"top_p": 1.0, "top_k": 0, "min_p": None}
"""Sampling that leaves no token out."""


def remark_other_policies(args: Any, model: nn.Module | None) -> None:
    """Warn once for each of the two; `args` are those of any trainer that samples, `model` what it trains."""
    if (cut := truncation(args)) is not None:
        logger.warning("%s", cut)
    if model is not None and (names := list(dropping(model))):
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        logger.warning(
            "Dropout is on in %s%s: the model scores with another subnetwork than it samples with, which moves "
            "ratios, KL and entropies. Set disable_dropout=True; for attention, attention_dropout to 0 in the model's "
            "configuration.",
            ", ".join(names[:3]),
            more,
        )


def truncation(args: Any) -> str | None:
    """Return the remark on `top_p`, `top_k` and `min_p`, or `None` where they leave no token out."""
    others = getattr(args, "generation_kwargs", None)
    given: dict[str, Any] = {name: getattr(args, name, None) for name in WHOLE}
    given |= others if isinstance(others, Mapping) else {}
    top_p, top_k, min_p = (given[name] for name in WHOLE)
    cuts = {"top_p": top_p is not None and top_p < 1, "top_k": (top_k or 0) > 0, "min_p": (min_p or 0) > 0}
    if not any(cuts.values()):
        return None
    settings = ", ".join(f"{name}={given[name]}" for name in WHOLE if cuts[name])
    instead = ", ".join(f"{name}={WHOLE[name]}" for name in WHOLE if cuts[name])
    ratio = ""
    if getattr(args, "use_vllm", False) and getattr(args, "vllm_importance_sampling_correction", False):
        ratio = " The importance ratio of vLLM's tokens is too small by the probability that is kept."
    return (
        f"Sampling is truncated ({settings}): entropies are of the whole vocabulary, so what is logged and held "
        f"is not the entropy of what is sampled.{ratio} Set {instead}."
    )


def dropping(model: nn.Module) -> Iterator[str]:
    """Yield the names of the modules that drop at random in training, by `Dropout` or inside of their attention."""
    for name, module in model.named_modules():
        p = module.p if isinstance(module, nn.modules.dropout._DropoutNd) else getattr(module, "attention_dropout", 0)
        if isinstance(p, (int, float)) and p > 0:
            yield name
