"""Remarks where the policy that is scored is another than the one that writes."""

import logging
from types import SimpleNamespace

import pytest
from support.digits import ones, written
from torch import nn
from trl import GRPOConfig, GRPOTrainer

from steer_trl import AlarmsCallback, SteerGRPOTrainer
from steer_trl.demo.tiny import tiny_qwen2
from steer_trl.monitoring.sampling_warnings import dropping, truncation

VLLM = {"use_vllm": True, "vllm_importance_sampling_correction": True}
PLAIN = {"top_p": 1.0, "top_k": 0, "min_p": None, "generation_kwargs": None}


@pytest.mark.parametrize("whole", [{}, {"top_k": -1}, {"top_k": None, "top_p": None}, {"min_p": 0.0}])
def test_whole_sampling_is_not_remarked_upon(whole):
    assert truncation(SimpleNamespace(**PLAIN | VLLM | whole)) is None


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"top_p": 0.8, "top_k": 50}, ("(top_p=0.8, top_k=50)", "top_p=1.0, top_k=0")),
        ({"min_p": 0.1}, ("(min_p=0.1)", "min_p=None")),
        ({"generation_kwargs": {"top_p": 0.5}}, ("(top_p=0.5)", "top_p=1.0")),
    ],
)
def test_truncated_sampling(given, said):
    text = truncation(SimpleNamespace(**PLAIN | VLLM | given))
    assert all(part in text for part in said) and "vLLM" in text
    alone = truncation(SimpleNamespace(**PLAIN | given))
    assert all(part in alone for part in said) and "vLLM" not in alone


def test_every_checked_field_is_one_of_trl():
    assert {*PLAIN, *VLLM} <= vars(GRPOConfig("out", use_cpu=True, bf16=False)).keys()


def test_modules_that_drop():
    model = nn.ModuleDict({"on": nn.Dropout(0.1), "off": nn.Dropout(0.0), "planes": nn.Dropout2d(0.5)})
    model["attention"] = nn.Linear(1, 1)
    model["attention"].attention_dropout = 0.1
    assert list(dropping(model)) == ["on", "planes", "attention"]


@pytest.fixture
def with_dropout(tokenizer):
    model = tiny_qwen2(tokenizer)
    first, second = model.model.layers
    first.self_attn.attention_dropout = 0.1
    second.mlp.down_proj = nn.Sequential(second.mlp.down_proj, nn.Dropout(0.1))
    return model


@pytest.mark.parametrize(("kind", "callbacks"), [(SteerGRPOTrainer, []), (GRPOTrainer, [AlarmsCallback])])
def test_truncation_and_dropout_are_warned_of_once(make_trainer, with_dropout, caplog, kind, callbacks):
    rest = {"reward_funcs": ones, "rollout_func": written, "callbacks": [callback() for callback in callbacks]}
    with caplog.at_level(logging.WARNING, "steer_trl.monitoring.sampling_warnings"):
        trainer = make_trainer(kind, model=with_dropout, trainer_arguments=rest, top_p=0.9, max_steps=1)
        if callbacks:
            trainer.train()
    cut, drop = [record.getMessage() for record in caplog.records if record.name.endswith("sampling_warnings")]
    assert cut.startswith("Sampling is truncated (top_p=0.9)")
    assert "in model.layers.0.self_attn, model.layers.1.mlp.down_proj.1: the model" in drop


def test_dropout_that_trl_has_switched_off_is_none(make_trainer, with_dropout, caplog):
    with_dropout.model.layers[0].self_attn.attention_dropout = 0.0  # which TRL does not know
    make_trainer(SteerGRPOTrainer, model=with_dropout, disable_dropout=True)
    assert "Dropout" not in caplog.text
