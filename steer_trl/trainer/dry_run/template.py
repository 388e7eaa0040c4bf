"""The surprisal of the tokens with which a chat template opens an answer. It shows whether the model knows them.

A template ends a prompt with tokens such as `<|im_start|>assistant` and a line break. A model that was trained with it
expects them. To one that never saw them they are less likely than a token that is drawn by chance:

    value = mean over these tokens of -ln p / ln V        1 for a uniform choice from V tokens
"""

import math
from collections.abc import Sequence
from typing import Any

import torch
from trl.data_utils import is_conversational
from trl.models.utils import disable_gradient_checkpointing

from steer_trl.support.randomness import keep_random_state
from steer_trl.trainer.trl import forward, tokenizer_of


def count_opening(trainer: Any, prompt: Any) -> int:
    """Return the number of tokens with which the chat template opens an answer to `prompt`; 0 without a template."""
    if prompt[-1].get("role") == "assistant":
        return 0
    settings = getattr(trainer, "chat_template_kwargs", None) or {}
    tokenizer = tokenizer_of(trainer)
    text = {
        opens: tokenizer.apply_chat_template(prompt, tokenize=False, add_generation_prompt=opens, **settings)
        for opens in (True, False)
    }
    opening = str(text[True]).removeprefix(str(text[False]))
    return len(tokenizer(opening, add_special_tokens=False)["input_ids"]) if opening != text[True] else 0


@torch.no_grad()
def measure_template(trainer: Any, prompt: Any, ids: Sequence[int]) -> float | None:
    """Return the value of this module for a `prompt` with these token `ids`; `None` without a template.

    Collective, if prompts are conversations.
    """
    if not is_conversational({"prompt": prompt}):
        return None
    device = trainer.accelerator.device
    opening = count_opening(trainer, prompt)
    row = torch.tensor([list(ids)], device=device)
    # Every rank runs the model, because a pass of a sharded model is collective.
    count = min(max(opening, 1), row.size(1) - 1)
    with (
        keep_random_state(device),
        disable_gradient_checkpointing(trainer.model, trainer.args.gradient_checkpointing_kwargs),
    ):
        logps, *_ = forward(trainer, trainer.model, row, torch.ones_like(row), count)
    vocabulary_size = trainer.model.config.get_text_config().vocab_size
    return -logps.mean().item() / math.log(vocabulary_size) if opening else None
