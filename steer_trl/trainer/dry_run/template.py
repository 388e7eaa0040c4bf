"""The surprisal of the tokens with which a chat template opens an answer. It shows whether the model knows them.

A template ends a prompt with tokens such as `<|im_start|>assistant` and a line break. A model that was trained with it
on whole conversations expects them. To one that never saw them they are less likely than a token that is drawn by
chance. So they are to one that was trained with it on completions only:

    value = mean over these tokens of -ln p / ln V        1 for a uniform choice from V tokens

The probabilities are those at temperature 1.
"""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from accelerate.utils import is_peft_model
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


@contextmanager
def at_temperature_one(trainer: Any) -> Iterator[None]:
    """Score tokens at temperature 1 inside the `with` block.

    TRL's LM head divides the logits by the temperature, so the states before it are multiplied by it.
    """
    policy = trainer.accelerator.unwrap_model(trainer.model, keep_torch_compile=False)
    policy = policy.get_base_model() if is_peft_model(policy) else policy

    def scale(_backbone: Any, _args: Any, output: Any) -> Any:
        output.last_hidden_state = output.last_hidden_state * trainer.temperature
        return output

    hook = policy.base_model.register_forward_hook(scale)
    try:
        yield
    finally:
        hook.remove()


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
        at_temperature_one(trainer),
    ):
        logps, *_ = forward(trainer, trainer.model, row, torch.ones_like(row), count)
    vocabulary_size = trainer.model.config.get_text_config().vocab_size
    return -logps.mean().item() / math.log(vocabulary_size) if opening else None
