"""Warnings about settings that make the scored policy differ from the sampling policy.

With truncated sampling (`top_p`, `top_k`, `min_p`), the trainer computes log-probabilities and entropies over the
whole vocabulary, but vLLM computes log-probabilities over the tokens that sampling keeps. Before TRL 1.17, the
importance ratio is therefore too small by a factor equal to the total probability of the kept tokens (trl issue 6789).
With dropout, each forward pass uses a different subnetwork (trl issue 3500).

Other settings change the distribution that tokens are drawn from: `temperature` or penalties in `generation_kwargs`,
and every value of the model's own `generation_config` that TRL leaves unset (trl issue 5783), except with vLLM.
"""

import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from torch import nn

logger = logging.getLogger(__name__)

WHOLE = {"top_p": 1.0, "top_k": 0, "min_p": None}
"""The values of the sampling settings that keep all tokens."""


def warn_about_sampling_mismatch(args: Any, model: nn.Module | None) -> None:
    """Warn about truncated sampling and about dropout.

    `args` and `model` may belong to a trainer of any class.
    """
    if (cut := truncation(args)) is not None:
        logger.warning("%s", cut)
    if distortions := find_distortions(args, model):
        logger.warning(
            "Tokens are not drawn from the policy that is scored, because of %s: its entropy is not that of the "
            "completions, and the gradient is biased. Leave these settings at their defaults (in the model's, with "
            "model.generation_config.NAME = None), and set temperature in the configuration.",
            ", ".join(distortions),
        )
    if model is not None and (names := list(dropping(model))):
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        logger.warning(
            "Dropout is on in %s%s: the model scores with a different subnetwork than it samples with, which moves "
            "ratios, KL and entropies. Set disable_dropout=True; for attention, attention_dropout to 0 in the model's "
            "configuration.",
            ", ".join(names[:3]),
            more,
        )


NEUTRAL: dict[str, tuple[Any, ...]] = {
    "do_sample": (True,),
    **dict.fromkeys(("num_beams", "num_beam_groups"), (1,)),
    **dict.fromkeys(("repetition_penalty", "encoder_repetition_penalty", "typical_p", "guidance_scale"), (1.0,)),
    **dict.fromkeys(("no_repeat_ngram_size", "encoder_no_repeat_ngram_size", "epsilon_cutoff", "eta_cutoff"), (0,)),
    **dict.fromkeys(("min_length", "min_new_tokens", "min_tokens", "presence_penalty", "frequency_penalty"), (0,)),
    **dict.fromkeys(("suppress_tokens", "begin_suppress_tokens", "bad_words_ids", "bad_words"), ([],)),
    **dict.fromkeys(("sequence_bias", "logit_bias", "allowed_token_ids", "logits_processors", "force_words_ids"), ()),
    **dict.fromkeys(("forced_bos_token_id", "forced_eos_token_id", "exponential_decay_length_penalty"), ()),
    **dict.fromkeys(("watermarking_config", "penalty_alpha", "top_h", "dola_layers", "structured_outputs"), ()),
}
"""The values of generation settings with which tokens are drawn from the policy itself. `None` is always one."""


CUTS: dict[str, Callable[[Any], bool]] = {
    "top_p": lambda value: value < 1,
    "top_k": lambda value: value > 0,
    "min_p": lambda value: value > 0,
}
"""Whether a value of these settings leaves out tokens."""


def find_distortions(args: Any, model: nn.Module | None) -> list[str]:
    """Return the generation settings with which tokens are not drawn from the policy that is scored.

    Truncation that the configuration sets is left out, because [`truncation`] describes it.
    """
    keywords = getattr(args, "generation_kwargs", None)
    ours = {name: getattr(args, name, None) for name in (*WHOLE, "temperature", "repetition_penalty")}
    ours |= dict(keywords if isinstance(keywords, Mapping) else {})
    ours = {name: value for name, value in ours.items() if value is not None}
    distortions = [f"{name}={value!r}" for name, value in ours.items() if _distorts(name, value, args)]
    config = getattr(model, "generation_config", None)
    if config is None or getattr(args, "use_vllm", False):
        return distortions
    # TRL samples, at a temperature of its own, whatever the model's configuration has.
    unset = {
        name: value for name, value in config.to_dict().items() if name not in {"do_sample", "temperature", *ours}
    }
    cuts = {name for name, is_cut in CUTS.items() if unset.get(name) is not None and is_cut(unset[name])}
    return distortions + [
        f"{name}={value!r} of the model's generation_config"
        for name, value in unset.items()
        if name in cuts or _distorts(name, value, args)
    ]


def _distorts(name: str, value: Any, args: Any) -> bool:
    if name == "temperature":
        return bool(value != getattr(args, "temperature", value))
    return value is not None and name in NEUTRAL and value not in NEUTRAL[name]


def truncation(args: Any) -> str | None:
    """Return the warning about `top_p`, `top_k` and `min_p`, or `None` if they keep all tokens."""
    keywords = getattr(args, "generation_kwargs", None)
    values = {name: getattr(args, name, None) for name in WHOLE} | dict(
        keywords if isinstance(keywords, Mapping) else {}
    )
    cuts = {name: values[name] is not None and is_cut(values[name]) for name, is_cut in CUTS.items()}
    if not any(cuts.values()):
        return None
    settings = ", ".join(f"{name}={values[name]}" for name in WHOLE if cuts[name])
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
