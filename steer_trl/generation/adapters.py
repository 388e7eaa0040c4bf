"""Adapters of PEFT, as far as passes in other shapes than Transformers' must know them."""

from typing import Any


def reads_rows(model: Any) -> bool:
    """Return whether an adapter of a `model` may compute a row differently, depending on where it stands.

    LoRA adds the same product to each token. Prompt learning puts tokens in front of each row, activated LoRA begins
    at a token of each row, and nobody has looked at the others. A comparison of passes does not show it, because a new
    adapter often adds nothing yet.
    """
    adapters = dict(getattr(model, "peft_config", None) or {}).values()
    return any(
        adapter.peft_type != "LORA" or getattr(adapter, "alora_invocation_tokens", None) for adapter in adapters
    )
