"""A mixture of experts trains, with its auxiliary loss."""

import math

import pytest
from transformers import Qwen2MoeConfig, Qwen2MoeForCausalLM

from steer_trl import SteerGRPOTrainer


@pytest.fixture
def experts(tokenizer):
    sizes = {"hidden_size": 32, "intermediate_size": 64, "moe_intermediate_size": 32, "num_hidden_layers": 2}
    sizes |= {"shared_expert_intermediate_size": 32, "num_attention_heads": 4, "num_key_value_heads": 2}
    tokens = {"vocab_size": len(tokenizer), "pad_token_id": tokenizer.pad_token_id, "bos_token_id": None}
    tokens["eos_token_id"] = tokenizer.eos_token_id
    return Qwen2MoeForCausalLM(Qwen2MoeConfig(**sizes, **tokens, num_experts=4, num_experts_per_tok=2))


@pytest.mark.parametrize("method", ["steer", "none"])
def test_a_mixture_of_experts_trains(train, experts, method):
    trainer = train(SteerGRPOTrainer, model=experts, advantage_shaping=method, max_steps=2)
    log = [entry for entry in trainer.state.log_history if "loss" in entry]
    assert len(log) == 2 and all(math.isfinite(entry["entropy"]) for entry in log)
