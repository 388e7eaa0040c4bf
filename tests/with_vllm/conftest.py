"""A model that vLLM's CPU build takes, and problems for it."""

import json

import pytest
import torch
from accelerate.utils.other import get_free_port
from support.runs import save_tiny_model
from support.vllm_on_cpu import keep_weights

torch.set_num_threads(1)
keep_weights()


@pytest.fixture(autouse=True)
def port(monkeypatch):
    """A port of its own: colocated vLLM leaves WORLD_SIZE behind, and Accelerate then listens on 29500, as others."""
    monkeypatch.setenv("MASTER_PORT", str(get_free_port()))


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    # vLLM's CPU attention wants heads of 32 numbers or more.
    sizes = {"hidden_size": 128, "num_attention_heads": 2, "num_key_value_heads": 1}
    return str(save_tiny_model(tmp_path_factory.mktemp("model"), **sizes))


@pytest.fixture(scope="module")
def problems(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "sums.jsonl"
    path.write_text("".join(json.dumps({"problem": f"{i}+1=", "answer": str(i + 1)}) + "\n" for i in range(6)))
    return path
