"""The smallest step that weights register, against weights that really take it and are really rounded."""

from types import SimpleNamespace

import pytest
import torch
from peft import LoraConfig, get_peft_model
from torch import nn

from steer_trl.callbacks.smallest_step import smallest_step

ADAM = SimpleNamespace(optim="adamw_torch_fused")
SIZE = 64


class OneLayer(nn.Module):
    """Of weights as a language model's are: normal, 0.02 wide."""

    def __init__(self, columns=SIZE, dtype=torch.bfloat16):
        super().__init__()
        self.linear = nn.Linear(columns, SIZE, bias=False, dtype=dtype)
        nn.init.normal_(self.linear.weight, std=0.02)


def adapted(columns=SIZE, dtype=torch.bfloat16, dtype_of_adapter=torch.float32, **fields):
    model = get_peft_model(OneLayer(columns, dtype), LoraConfig(target_modules=["linear"], **fields))
    for weight in model.parameters():
        if weight.requires_grad:
            weight.data = weight.data.to(dtype_of_adapter)
    return model


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


def share_changed(move, weight):
    """The share of the entries of a weight that `move` changes."""
    before = weight().clone()
    with torch.no_grad():
        move()
    return (weight() != before).float().mean().item()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_about_half_of_the_weights_register_it(dtype):
    """Half a distance is that to the next power of two at most, so it is up to twice what some need."""
    model = OneLayer(dtype=dtype)
    weight = model.linear.weight
    step = smallest_step(model, ADAM, steps=100)

    def moved_by(factor):
        return ((weight.double() + factor * step).to(dtype) != weight).float().mean().item()

    assert moved_by(0.25) < 0.3 and moved_by(1.0) > 0.45 and moved_by(4.0) > 0.85


@pytest.mark.parametrize("fields", [{"r": 4, "lora_alpha": 16}, {"r": 16, "lora_alpha": 8, "use_rslora": True}])
@pytest.mark.parametrize("steps", [20, 500])
def test_all_steps_of_an_adapter_change_less_than_half_of_its_merged_weights_below_it(fields, steps):
    model = adapted(**fields)
    layer = model.base_model.model.linear
    step = smallest_step(model, ADAM, steps)
    a, b = layer.lora_A["default"].weight, layer.lora_B["default"].weight
    signs = torch.randint(0, 2, b.shape) * 2.0 - 1

    def train_and_merge(rate):
        def move():
            b.copy_(rate * steps * signs)
            layer.merge()

        return move

    assert b.abs().max() == 0 and a.abs().max() > 0
    assert share_changed(train_and_merge(0.99 * step), lambda: layer.get_base_layer().weight.data) < 0.5
    layer.unmerge()
    assert share_changed(train_and_merge(30 * step), lambda: layer.get_base_layer().weight.data) > 0.5


def test_the_example_of_the_page():
    model = adapted(columns=1536, r=16, lora_alpha=32)
    assert smallest_step(model, ADAM, steps=130) == pytest.approx(1e-6, rel=0.1)
    assert smallest_step(model, ADAM, steps=13) == pytest.approx(1e-5, rel=0.1)
    layer = model.base_model.model.linear
    layer.lora_B["default"].weight.data.normal_().sign_().mul_(1e-6)
    assert layer.get_delta_weight("default").std().item() == pytest.approx(1e-6 / 8, rel=0.1)
    assert smallest_step(adapted(columns=1536, dtype=torch.float32, r=16, lora_alpha=32), ADAM, 130) < 1e-10


def test_factors_in_half_precision_are_no_fault():
    """TRL's QLoRA has them: A is too large for small steps, and B grows from 0."""
    model = adapted(dtype=torch.float32, dtype_of_adapter=torch.bfloat16, r=8, lora_alpha=16)
    assert smallest_step(model, ADAM, steps=100) < 1e-9


def test_what_is_not_known():
    assert smallest_step(OneLayer(), SimpleNamespace(optim="sgd"), 10) is None
    assert smallest_step(OneLayer(), SimpleNamespace(optim="adamw_torch", deepspeed="zero3.json"), 10) is None
    assert smallest_step(None, ADAM, 10) is None
    frozen = OneLayer()
    frozen.requires_grad_(False)
    assert smallest_step(frozen, ADAM, 10) is None
    quantized = adapted()
    weight = quantized.base_model.model.linear.get_base_layer().weight
    weight.data = torch.zeros(weight.shape, dtype=torch.uint8)
    assert smallest_step(quantized, ADAM, 10) is None


def test_a_weight_of_zero_registers_anything():
    model = OneLayer()
    model.linear.weight.data.zero_()
    assert smallest_step(model, ADAM, 10) == 0.0
