"""A decoding loop for Transformers' `generate` that computes each prompt once and drops completions that have ended.

`generate` computes the prompt of a group once for each of its completions, copies its whole cache for each token, and
computes all completions until the last has ended. In this loop

- a prompt passes the model once, and its cache is repeated for the completions of its group;
- the cache grows in place (`cache.py`);
- completions that have ended leave the batch.

`generate` calls this loop instead of its own (`custom_generate`), and prepares all that the loop needs: the cache, the
logits processors, the stopping criteria and the inputs of each pass. Random numbers are drawn for all completions,
also for those that have left. So the completions are those of `generate` under the same seed, except for rounding.
"""

from typing import Any

import torch
from torch import Tensor, nn
from transformers import GenerationConfig
from transformers.generation import LogitsProcessorList, StoppingCriteriaList

from steer_trl.generation.cache import repeat_rows
from steer_trl.generation.limits import check_arguments, find_cache

LEAST_UNFINISHED = 0.85
"""If a smaller share of the batch is unfinished, the others leave it. They do not leave one by one, because the cache
is copied each time.
"""


def decode(
    model: Any,
    input_ids: Tensor,
    logits_processor: LogitsProcessorList,
    stopping_criteria: StoppingCriteriaList,
    generation_config: GenerationConfig,
    **inputs: Any,
) -> Tensor:
    """Return B prompts with their completions `[B, T]`, which are padded at the end. `input_ids` has the prompts.

    The arguments are those that `generate` passes to its own loop. `model` is a [`~transformers.PreTrainedModel`], and
    `inputs` are the other inputs of the model.

    Raises [`NotServedError`] before the first random number is drawn, if this loop could write other completions than
    `generate`.
    """
    check_arguments(model, input_ids, logits_processor, stopping_criteria, generation_config, inputs)
    cache = find_cache(inputs)
    pad = generation_config.pad_token_id
    num_rows = len(input_ids)
    # The completions in the batch, by their rows in the result.
    rows = torch.arange(num_rows, device=input_ids.device)
    has_ended = torch.zeros(num_rows, dtype=torch.bool, device=input_ids.device)
    token_ids: Any = input_ids
    longest: Any = stopping_criteria.max_length
    result = input_ids.new_full((num_rows, longest), pad)

    first, prompt_of_row = find_prompts(model, input_ids, inputs["attention_mask"])
    prompts = select_rows(inputs, first)
    arguments = model.prepare_inputs_for_generation(input_ids[first], is_first_iteration=True, **prompts)
    outputs = model(**arguments, return_dict=True)
    logits = outputs.logits[prompt_of_row, -1]
    repeat_rows(cache, prompt_of_row, most=longest - input_ids.size(1))

    with model._optimize_model_for_decode():
        while True:
            inputs = model._update_model_kwargs_for_generation(outputs, inputs)
            scores = logits_processor(token_ids, logits.to(copy=True, dtype=torch.float32))
            is_random = generation_config.do_sample
            tokens = draw(scores.softmax(-1), rows, num_rows) if is_random else scores.argmax(-1)
            tokens = torch.where(has_ended, pad, tokens)
            token_ids = torch.cat([token_ids, tokens[:, None]], dim=1)
            has_ended = has_ended | stopping_criteria(token_ids, None)

            num_unfinished = int((~has_ended).sum())
            if num_unfinished < LEAST_UNFINISHED * len(rows):
                result[rows, : token_ids.size(1)] = token_ids
                if num_unfinished == 0:
                    return result[:, : token_ids.size(1)]
                unfinished = (~has_ended).nonzero()[:, 0]
                rows = rows[unfinished]
                has_ended = has_ended[unfinished]
                token_ids = token_ids[unfinished]
                inputs = select_rows(inputs, unfinished)
                select_rows_of_processors(logits_processor, unfinished)
                cache.batch_select_indices(unfinished)

            arguments = model.prepare_inputs_for_generation(token_ids, next_sequence_length=1, **inputs)
            outputs = model(**arguments, return_dict=True)
            logits = outputs.logits[:, -1]


def find_prompts(model: nn.Module, input_ids: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
    """Return the first row of each prompt `[P]`, and the number of each row's prompt, from 0 to P - 1, `[B]`.

    `mask` is `None` if no row has padding. The rows of a group follow each other. With dropout each row has a prompt
    of its own, because the completions of a group must not have the same units dropped.
    """
    num_rows = len(input_ids)
    is_first = torch.ones(num_rows, dtype=torch.bool, device=input_ids.device)
    if not has_dropout(model):
        is_first[1:] = (input_ids[1:] != input_ids[:-1]).any(1)
        if mask is not None:
            is_first[1:] |= (mask[1:] != mask[:-1]).any(1)
    return is_first.nonzero()[:, 0], is_first.cumsum(0) - 1


def has_dropout(model: Any) -> bool:
    """Return whether the `model` draws random numbers in a pass: it is in training mode and has dropout or jitter."""
    if not model.training:
        return False
    modules = [module.p for module in model.modules() if isinstance(module, nn.modules.dropout._DropoutNd)]
    settings = model.config.get_text_config().to_dict().items()
    rates = [rate for name, rate in settings if "drop" in name or "jitter" in name]
    return any(isinstance(rate, float) and rate > 0 for rate in modules + rates)


def select_rows(inputs: dict[str, Any], rows: Tensor) -> dict[str, Any]:
    """Return the model's inputs for these `rows` of the batch. The cache stays as it is."""
    return {name: x[rows] if isinstance(x, Tensor) else x for name, x in inputs.items()}


def select_rows_of_processors(processors: LogitsProcessorList, rows: Tensor) -> None:
    """Keep only these `rows` of the batch in the processors.

    Since Transformers 5.24, the repetition penalty stores the padding of each row.
    """
    for processor in processors:
        padding = getattr(processor, "prompt_ignore_length", None)
        if isinstance(padding, Tensor):
            processor.prompt_ignore_length = padding[rows.to(padding.device)]


def draw(probabilities: Tensor, rows: Tensor, num_rows: int) -> Tensor:
    r"""Return a token `[b]` for each of b rows, drawn with the given `probabilities` `[b, V]`.

    Torch draws \(\arg\max_v p_v / q_v\) with \(q_v \sim \mathrm{Exp}(1)\). The numbers q are drawn for all `num_rows`
    rows, so that a row gets the same numbers whichever other rows have left the batch. `rows` are still in it.
    """
    if len(rows) == num_rows:
        return torch.multinomial(probabilities, num_samples=1)[:, 0]
    of_all_rows = probabilities.new_ones(num_rows, probabilities.size(1))
    of_all_rows[rows] = probabilities
    return torch.multinomial(of_all_rows, num_samples=1)[rows, 0]
