"""Drops prompts with too many tokens before training, and checks that a tokenizer works."""

import sys
from typing import Any

from datasets import Dataset
from tqdm import tqdm

from steer_trl.support.exceptions import InvalidValueError


def drop_long_prompts(dataset: Dataset, tokenizer: Any, max_tokens: int, **chat_template_kwargs: Any) -> Dataset:
    """Return the rows whose `prompt` has at most `max_tokens` tokens, and print how many were dropped.

    A conversation's tokens are counted after the chat template has been applied, with the `chat_template_kwargs` of
    the training run.
    """
    short = dataset.filter(
        lambda prompt: _num_tokens(prompt, tokenizer, **chat_template_kwargs) <= max_tokens,
        input_columns="prompt",
        desc="Measuring prompts",
    )
    if not len(short):
        raise InvalidValueError(
            f"max_prompt_length={max_tokens} leaves none of the {len(dataset)} prompts. Raise it, or leave it unset."
        )
    if len(short) < len(dataset):
        tqdm.write(
            f"Removed {len(dataset) - len(short)} of {len(dataset)} prompts with more than {max_tokens} tokens "
            "(max_prompt_length).",
            file=sys.stderr,
        )
    return short


def check_tokenizer(tokenizer: Any, name: str) -> None:
    """Raise `InvalidValueError` if the `tokenizer` has no vocabulary.

    Transformers loads such a tokenizer from a folder that has no tokenizer files.
    """
    # Such a tokenizer still has its special tokens. A vocabulary of letters or amino acids may lack any given text.
    if set(tokenizer.get_vocab().values()) <= set(tokenizer.all_special_ids):
        owner = f" of {name!r}" if name else ""
        raise InvalidValueError(
            f"The tokenizer{owner} has no vocabulary: its files are missing. Save it there with "
            "tokenizer.save_pretrained."
        )


def _num_tokens(prompt: Any, tokenizer: Any, **chat_template_kwargs: Any) -> int:
    if isinstance(prompt, str):
        return len(tokenizer(prompt)["input_ids"])
    encoded = tokenizer.apply_chat_template(
        prompt, add_generation_prompt=True, return_dict=True, **chat_template_kwargs
    )
    return len(encoded["input_ids"])
