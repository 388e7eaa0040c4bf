"""Transformers' `generate` with the decoding loop of this package where it serves, and else with its own loop."""

from typing import Any

from accelerate.utils import is_peft_model
from torch import Tensor
from transformers import GenerationMixin

from steer_trl.generation.adapters import reads_rows
from steer_trl.generation.decoding import decode
from steer_trl.generation.limits import NotServedError


def generate_faster(model: Any, **inputs: Any) -> Tensor:
    """Return prompts with their completions `[B, T]`, as `model.generate(**inputs)` does.

    Prompts that are equal and follow each other are computed once. The completions are those of `generate` under the
    same seed, except for rounding.
    """
    if not (has_own_generate(model) or reads_rows(model)):
        try:
            served: Tensor = model.generate(custom_generate=decode, **inputs)
            return served
        except NotServedError:
            pass
    written: Tensor = model.generate(**inputs)
    return written


def has_own_generate(model: Any) -> bool:
    """Return whether the model's class or a user has replaced Transformers' `generate`."""
    base = model.get_base_model() if is_peft_model(model) else model
    return type(base).generate is not GenerationMixin.generate or "generate" in vars(model) | vars(base)
