"""Transformers' `generate` with the decoding loop of this package where it serves, and else with its own loop."""

from collections.abc import Callable
from typing import Any

from accelerate.utils import is_peft_model
from torch import Tensor
from transformers import GenerationMixin

from steer_trl.generation.adapters import reads_rows
from steer_trl.generation.decoding import decode
from steer_trl.generation.limits import NotServedError


def ignore(_reason: str) -> None:
    """Report nothing."""


def generate_faster(model: Any, **inputs: Any) -> Tensor:
    """Return prompts with their completions `[B, T]`, as `model.generate(**inputs)` does.

    Prompts that are equal and follow each other are computed once. The completions are those of `generate` under the
    same seed, except for rounding.
    """
    if has_own_generate(model) or reads_rows(model):
        written: Tensor = model.generate(**inputs)
        return written
    return decode_or_generate(model.generate, **inputs)


def decode_or_generate(
    generate: Callable[..., Tensor], *args: Any, report: Callable[[str], None] = ignore, **inputs: Any
) -> Tensor:
    """Call a model's `generate` with the loop of this package, or again with its own if the loop does not serve.

    `report` is called with the reason.
    """
    try:
        return generate(*args, custom_generate=decode, **inputs)
    except NotServedError as error:
        report(str(error))
    return generate(*args, **inputs)


def has_own_generate(model: Any) -> bool:
    """Return whether the model's class or a user has replaced Transformers' `generate`."""
    base = model.get_base_model() if is_peft_model(model) else model
    return type(base).generate is not GenerationMixin.generate or "generate" in vars(model) | vars(base)
