"""One packed row gives TRL's log-probabilities and gradients, in every architecture that it does not refuse.

TRL's own forward pass on padded rows is the oracle.
"""

from types import SimpleNamespace

import pytest
import torch
import transformers as tf
from accelerate import Accelerator
from hypothesis import given, settings
from hypothesis import strategies as st
from peft import LoraConfig, get_peft_model
from trl import GRPOTrainer
from trl.trainer.utils import add_fused_lm_head

from steer_trl.trainer.forward.attention import LAYOUT, attend_in_blocks, wrap_attention
from steer_trl.trainer.forward.cost import Cost
from steer_trl.trainer.forward.decision import ALWAYS, NEVER
from steer_trl.trainer.forward.layout import find_parts, has_holes, make_layout
from steer_trl.trainer.forward.packed import run_packed

SMALL = {"vocab_size": 64, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 3}
SMALL |= {"num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 512}
SMALL |= {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
HEADS = {"head_dim": 8}
EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32}
MIXED = {"layer_types": ["sliding_attention", "full_attention", "sliding_attention"], "sliding_window": 8}
ARCHITECTURES = {
    "Qwen2": (tf.Qwen2Config, {}),
    "Qwen2 with a window": (tf.Qwen2Config, MIXED | {"use_sliding_window": True}),
    "Llama": (tf.LlamaConfig, {}),
    "Qwen3": (tf.Qwen3Config, HEADS),
    "Mistral with a window": (tf.MistralConfig, {"sliding_window": 8}),
    "Gemma 3 with windows": (tf.Gemma3TextConfig, HEADS | MIXED),
    "Phi-3": (tf.Phi3Config, {}),
    "OLMo-2": (tf.Olmo2Config, {}),
    "SmolLM3": (tf.SmolLM3Config, {}),
    "Qwen3-MoE": (tf.Qwen3MoeConfig, HEADS | EXPERTS),
}
TRAINER = SimpleNamespace(accelerator=Accelerator(cpu=True))


def run_padded(model, **inputs):
    """TRL's own forward pass."""
    return GRPOTrainer._get_per_token_logps_and_entropies.__wrapped__(TRAINER, model, **inputs)


def make_model(config_class, sizes, dtype=torch.float64):
    torch.manual_seed(0)
    config = config_class(**SMALL | sizes)
    model = tf.AutoModelForCausalLM.from_config(config)
    # Routing by experts is a choice by comparison, and its kernel has no double precision on CPU.
    model = model if "num_experts" in sizes else model.to(dtype)
    add_fused_lm_head(model, outputs=("log_probs", "entropy"))
    wrap_attention("sdpa", attend_in_blocks)
    return model


def make_inputs(prompts=(12, 7), completions=(15, 3, 9, 1, 6, 14, 2, 11), seed=1):
    """Rows whose prompts have these lengths, and equally many completions each."""
    words = torch.Generator().manual_seed(seed)
    prompt_width, width = max(prompts), max(*completions, 1)
    ids = torch.zeros(len(completions), prompt_width + width, dtype=torch.long)
    mask = torch.zeros_like(ids)
    texts = [torch.randint(3, 64, (n,), generator=words) for n in prompts]
    for row, length in enumerate(completions):
        prompt = texts[row * len(prompts) // len(completions)]
        text = torch.cat([prompt, torch.randint(3, 64, (length,), generator=words)])
        first = prompt_width - len(prompt)
        ids[row, first : first + len(text)] = text
        mask[row, first : first + len(text)] = 1
    inputs = {"input_ids": ids, "attention_mask": mask, "logits_to_keep": width, "batch_size": None}
    return inputs | {"compute_entropy": True}


def run_and_differentiate(model, run, inputs):
    """Log-probabilities, and the gradient of a sum with random weights of log-probabilities and entropies."""
    model.zero_grad()
    logps, entropies, _ = run(model, **inputs)
    weights = torch.rand(logps.shape, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    is_token = inputs["attention_mask"][:, -inputs["logits_to_keep"] :].bool()
    loss = torch.where(is_token, weights * (logps + 0.1 * entropies), 0.0).sum()
    loss.backward()
    gradients = [x.grad.flatten().double() for x in model.parameters() if x.grad is not None]
    return torch.where(is_token, logps, 0.0).detach(), torch.cat(gradients)


def assert_same(model, inputs, cost=ALWAYS, bound=1e-6, multiple=None):
    def packed(model, **inputs):
        return run_packed(run_padded, model, inputs, cost, multiple)

    logps, gradient = run_and_differentiate(model, run_padded, inputs)
    found, found_gradient = run_and_differentiate(model, packed, inputs)
    assert gradient.norm() > 1e-3
    torch.testing.assert_close(found, logps, rtol=0, atol=10 * bound)
    assert (found_gradient - gradient).norm() <= bound * gradient.norm()


CHECKPOINTING = {"none": None, "not reentrant": {"use_reentrant": False}, "reentrant": {"use_reentrant": True}}


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("checkpointing", CHECKPOINTING)
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_the_gradient_is_that_of_padded_rows(name, checkpointing):
    model = make_model(*ARCHITECTURES[name]).train()
    if CHECKPOINTING[checkpointing]:
        model.gradient_checkpointing_enable(CHECKPOINTING[checkpointing])
        # As Transformers does for the reentrant kind, which needs an input with a gradient.
        model.enable_input_require_grads()
    for cost in (ALWAYS, NEVER):
        assert_same(model, make_inputs(), cost)
