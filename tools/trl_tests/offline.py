"""A pytest plugin that runs TRL's own GRPO tests without the Hub, with TRL's trainer or with ours.

    make test-trl TRL=path/to/a/checkout/of/trl            # plain TRL
    make test-trl TRL=path/to/a/checkout/of/trl METHOD=none

The trainer is the installed TRL's, of which the checkout should have the version. The tests of another version may ask
for optional packages that the installed TRL does not know: they count as missing. With the tests of TRL 1.10 and the
trainer of TRL 1.16, the same 12 tests fail with both trainers, and 101 pass: seven load models that are not made here,
and the others depend on TRL's tiny tokenizer, the text of its prompts, or attributes of that version.

Models and data with the names that these tests load are made here. Tests of pictures, vLLM, Liger and other data sets
are skipped. With `METHOD`, `GRPOTrainer` and `GRPOConfig` in the tests are `SteerGRPOTrainer` and `SteerGRPOConfig`.

Three differences from plain TRL are expected. A test that makes a trainer with `__new__`, without its constructor,
fails, because the parts of ours are made there. TRL's `conftest.py` changes the default of `bf16` after our check, so
`bf16` is set here. The messages of errors about arguments that both refuse are ours.
"""

import os
from importlib import import_module
from pathlib import Path
from typing import Any

import datasets
import pytest
import torch
import transformers

import steer_trl
from steer_trl.demo.tiny import tiny_tokenizer

CACHE = Path(os.environ["HF_HOME"])
METHOD = os.environ.get("METHOD")
SIZES = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "max_position_embeddings": 4096}
SIZES |= {"num_attention_heads": 4, "num_key_value_heads": 2}
EXPERTS = {"head_dim": 8, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32}
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "tiny-Qwen2ForCausalLM-2.5": ("Qwen2", {}),
    "tiny-Qwen2ForSequenceClassification-2.5": ("Qwen2", {"num_labels": 1}),
    "tiny-Qwen3ForCausalLM": ("Qwen3", {"head_dim": 8}),
    "tiny-Qwen3ForSequenceClassification": ("Qwen3", {"head_dim": 8, "num_labels": 1}),
    "tiny-LlamaForCausalLM-3.2": ("Llama", {}),
    "tiny-LlamaForSequenceClassification-3.2": ("Llama", {"num_labels": 1}),
    "tiny-MistralForCausalLM-0.2": ("Mistral", {}),
    "tiny-Qwen3MoeForCausalLM": ("Qwen3Moe", EXPERTS),
}
DATA = "trl-internal-testing/zen"
PROMPTS = [f"Sentence {number} is better than" for number in range(19)]


def make_models() -> None:
    """Save every model of `MODELS` where `from_pretrained` looks for a download."""
    tokenizer = tiny_tokenizer()
    tokens = {"vocab_size": len(tokenizer), "pad_token_id": tokenizer.pad_token_id, "bos_token_id": None}
    for name, (family, special) in MODELS.items():
        folder = CACHE / "hub" / f"models--trl-internal-testing--{name}"
        snapshot = folder / "snapshots" / ("0" * 40)
        if snapshot.exists():
            continue
        torch.manual_seed(0)
        snapshot.mkdir(parents=True)
        (folder / "refs").mkdir()
        (folder / "refs/main").write_text("0" * 40)
        head = "ForSequenceClassification" if "num_labels" in special else "ForCausalLM"
        config = getattr(transformers, f"{family}Config")(
            **SIZES, **tokens, eos_token_id=tokenizer.eos_token_id, **special
        )
        getattr(transformers, family + head)(config).save_pretrained(snapshot)
        tokenizer.save_pretrained(snapshot)


def load_dataset(name: str, config: str | None = None, split: str | None = None, streaming: bool = False) -> Any:
    """Return the prompts in the form of the data set that the tests load. Tests with other data are skipped."""
    if name != DATA:
        pytest.skip(f"{name} is not made here")
    is_chat = str(config).startswith("conversational")
    rows = [{"prompt": [{"role": "user", "content": text}] if is_chat else text} for text in PROMPTS]
    parts: Any = {"train": datasets.Dataset.from_list(rows[:17]), "test": datasets.Dataset.from_list(rows[17:])}
    if streaming:
        parts = {part: data.to_iterable_dataset() for part, data in parts.items()}
    if split is not None:
        return parts[split]
    return datasets.IterableDatasetDict(parts) if streaming else datasets.DatasetDict(parts)


class Config(steer_trl.SteerGRPOConfig):
    """Our configuration with the method under test."""

    def __init__(self, *args: Any, **fields: Any) -> None:
        super().__init__(*args, **{"advantage_shaping": METHOD, "bf16": False} | fields)


def find_availability(name: str) -> Any:
    """Return a function that reports a package as missing, in place of one that the installed TRL lacks."""
    if name.startswith("is_") and name.endswith("_available"):
        return lambda *_: False
    raise AttributeError(name)


def pytest_collection_modifyitems(items: list[Any]) -> None:
    """Replace the names that the tests import."""
    for module in {item.module for item in items}:
        if hasattr(module, "load_dataset"):
            module.load_dataset = load_dataset
        if METHOD and hasattr(module, "GRPOTrainer"):
            module.GRPOTrainer = steer_trl.SteerGRPOTrainer
            module.GRPOConfig = Config


torch.set_num_threads(1)
vars(import_module("trl.import_utils"))["__getattr__"] = find_availability
make_models()
