"""The limits of the decoding loop. All other cases are left to the loop of `generate`.

The loop removes rows from the batch, so nothing that it calls may remember the rows of earlier tokens, and no row may
depend on the others.
"""

from typing import Any

from torch import Tensor
from transformers import GenerationConfig, PreTrainedModel
from transformers.generation import (
    EosTokenCriteria,
    EpsilonLogitsWarper,
    EtaLogitsWarper,
    ExponentialDecayLengthPenalty,
    ForcedBOSTokenLogitsProcessor,
    ForcedEOSTokenLogitsProcessor,
    GenerationMode,
    InfNanRemoveLogitsProcessor,
    LogitNormalization,
    LogitsProcessorList,
    MaxLengthCriteria,
    MaxTimeCriteria,
    MinLengthLogitsProcessor,
    MinNewTokensLengthLogitsProcessor,
    MinPLogitsWarper,
    NoBadWordsLogitsProcessor,
    NoRepeatNGramLogitsProcessor,
    RepetitionPenaltyLogitsProcessor,
    SequenceBiasLogitsProcessor,
    StoppingCriteriaList,
    SuppressTokensAtBeginLogitsProcessor,
    SuppressTokensLogitsProcessor,
    TemperatureLogitsWarper,
    TopHLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
    TypicalLogitsWarper,
)

from steer_trl.generation.cache import can_grow

PROCESSORS = {
    *(TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper, MinPLogitsWarper, TopHLogitsWarper),
    *(TypicalLogitsWarper, EpsilonLogitsWarper, EtaLogitsWarper, LogitNormalization, InfNanRemoveLogitsProcessor),
    *(RepetitionPenaltyLogitsProcessor, NoRepeatNGramLogitsProcessor, NoBadWordsLogitsProcessor),
    *(SequenceBiasLogitsProcessor, SuppressTokensLogitsProcessor, SuppressTokensAtBeginLogitsProcessor),
    *(MinLengthLogitsProcessor, MinNewTokensLengthLogitsProcessor, ExponentialDecayLengthPenalty),
    *(ForcedBOSTokenLogitsProcessor, ForcedEOSTokenLogitsProcessor),
}
"""Logits processors that read each row by itself, and remember no row."""

CRITERIA = {MaxLengthCriteria, EosTokenCriteria, MaxTimeCriteria}
"""Stopping criteria of the same kind. `generate` has no stop strings for a loop that is not its own."""

MODES = {GenerationMode.SAMPLE, GenerationMode.GREEDY_SEARCH}

CACHE_NAMES = ("cache", "past_key_values")
"""The two names of the model's input for the cache: the first since Transformers 5.24, the second before."""

INPUTS = {"attention_mask", "position_ids", *CACHE_NAMES, "use_cache", "logits_to_keep"}


class NotServedError(Exception):
    """Raised if the decoding loop could write other completions than `generate`. The text is the reason."""


def check_arguments(
    model: PreTrainedModel,
    input_ids: Tensor,
    logits_processor: LogitsProcessorList,
    stopping_criteria: StoppingCriteriaList,
    generation_config: GenerationConfig,
    inputs: dict[str, Any],
) -> None:
    """Raise [`NotServedError`] unless the loop writes the completions of `generate` from what `generate` prepared."""
    mode = generation_config.get_generation_mode()
    steps = [type(step) for step in (*logits_processor, *stopping_criteria)]
    unknown_steps = [step.__name__ for step in steps if step not in PROCESSORS | CRITERIA]
    unknown_inputs = sorted(inputs.keys() - INPUTS)
    tensors = {name: x for name, x in inputs.items() if isinstance(x, Tensor)}
    if mode not in MODES:
        reason = f"it is {mode.value}"
    elif unknown_steps:
        reason = f"{', '.join(unknown_steps)} may remember the rows of a batch"
    elif generation_config.return_dict_in_generate or generation_config.prefill_chunk_size is not None:
        reason = "return_dict_in_generate or prefill_chunk_size is set"
    elif stopping_criteria.max_length is None or generation_config.pad_token_id is None:
        reason = "there is no largest length or no padding token"
    elif unknown_inputs:
        reason = f"the model's inputs include {', '.join(unknown_inputs)}"
    elif "attention_mask" not in inputs or any(x.shape != input_ids.shape for x in tensors.values()):
        reason = "the model's mask or positions are not those of plain text"
    elif _rotates_by_length(model):
        reason = "the model's positions depend on the longest row of a batch"
    elif not can_grow(find_cache(inputs)):
        reason = "the model's cache has more than keys and values, or cache_implementation or use_cache is set"
    else:
        return
    raise NotServedError(reason)


def find_cache(inputs: dict[str, Any]) -> Any:
    """Return the cache among the model's `inputs`, or `None` if there is none."""
    return next((inputs[name] for name in CACHE_NAMES if name in inputs), None)


def _rotates_by_length(model: PreTrainedModel) -> bool:
    """Return whether rotary positions are scaled by the length of the longest row."""
    rope = getattr(model.config.get_text_config(), "rope_parameters", None) or {}
    # Some models have parameters for each kind of layer.
    rotations = [rotation for rotation in (rope, *rope.values()) if isinstance(rotation, dict)]
    return any(rotation.get("rope_type") in ("dynamic", "longrope") for rotation in rotations)
