"""Prompts in tokens: those that are too long are dropped before training, and counted."""

import sys
from typing import Any

from datasets import Dataset
from tqdm import tqdm

from steer_trl.exceptions import InvalidValueError


def drop_long_prompts(dataset: Dataset, tokenizer: Any, max_tokens: int) -> Dataset:
    """Return the rows whose `prompt`, in its chat template, has at most `max_tokens` tokens; print how many went."""
    kept = dataset.filter(
        lambda prompt: _num_tokens(prompt, tokenizer) <= max_tokens, input_columns="prompt", desc="Measuring prompts"
    )
    if not len(kept):
        raise InvalidValueError(
            f"max_prompt_length={max_tokens} leaves none of the {len(dataset)} prompts. Raise it, or leave it unset."
        )
    if len(kept) < len(dataset):
        tqdm.write(
            f"Removed {len(dataset) - len(kept)} of {len(dataset)} prompts with more than {max_tokens} tokens "
            "(max_prompt_length).",
            file=sys.stderr,
        )
    return kept


def check_tokenizer(tokenizer: Any, name: str) -> None:
    """Refuse a `tokenizer` that makes no token of a text: Transformers makes one of a folder without its files."""
    if not tokenizer("1")["input_ids"]:
        raise InvalidValueError(
            f"The tokenizer of {name!r} has no vocabulary: its files are missing. Save it there with "
            "tokenizer.save_pretrained."
        )


def _num_tokens(prompt: Any, tokenizer: Any) -> int:
    if isinstance(prompt, str):
        return len(tokenizer(prompt)["input_ids"])
    return len(tokenizer.apply_chat_template(prompt, add_generation_prompt=True, return_dict=True)["input_ids"])
