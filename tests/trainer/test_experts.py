"""A mixture of experts trains, and a remark states what its routing does to the numbers."""

import logging
import math

import pytest
from transformers import Qwen2MoeConfig, Qwen2MoeForCausalLM

from steer_trl import SteerGRPOTrainer

REMARK = "A mixture of experts: TRL has no router replay"


@pytest.fixture
def experts(tokenizer):
    sizes = {"hidden_size": 32, "intermediate_size": 64, "moe_intermediate_size": 32, "num_hidden_layers": 2}
    sizes |= {"shared_expert_intermediate_size": 32, "num_attention_heads": 4, "num_key_value_heads": 2}
    tokens = {"vocab_size": len(tokenizer), "pad_token_id": tokenizer.pad_token_id, "bos_token_id": None}
    tokens["eos_token_id"] = tokenizer.eos_token_id
    return Qwen2MoeForCausalLM(Qwen2MoeConfig(**sizes, **tokens, num_experts=4, num_experts_per_tok=2))


@pytest.mark.parametrize("method", ["steer", "none"])
def test_a_mixture_of_experts_trains_with_a_remark_where_a_method_reads_it(train, experts, caplog, method):
    with caplog.at_level(logging.WARNING, "steer_trl.trainer.checks.experts"):
        trainer = train(SteerGRPOTrainer, model=experts, advantage_shaping=method, max_steps=2)
    assert caplog.text.count(REMARK) == (method != "none")
    log = [entry for entry in trainer.state.log_history if "loss" in entry]
    assert len(log) == 2 and all(math.isfinite(entry["entropy"]) for entry in log)


def test_other_models_are_not_remarked_upon(make_trainer, caplog):
    make_trainer(SteerGRPOTrainer)
    assert REMARK not in caplog.text
