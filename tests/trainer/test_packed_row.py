"""One packed row gives TRL's log-probabilities and gradients, in every architecture that it does not refuse.

TRL's own forward pass on padded rows is the oracle.
"""

from collections import defaultdict
from functools import partial
from types import SimpleNamespace

import pytest
import torch
import transformers as tf
from accelerate import Accelerator
from hypothesis import given, settings
from hypothesis import strategies as st
from peft import LoraConfig, get_peft_model
from torch.distributed.utils import _apply_to_tensors
from transformers import modeling_flash_attention_utils as flash_utils
from transformers.integrations.flash_attention import flash_attention_forward
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from trl import GRPOTrainer
from trl.trainer.utils import add_fused_lm_head

from steer_trl.trainer.forward.attention import LAYOUT, attend_in_blocks, wrap_attention
from steer_trl.trainer.forward.check import make_case, move
from steer_trl.trainer.forward.cost import Cost
from steer_trl.trainer.forward.decision import ALWAYS, NEVER, _find_reason_of_model
from steer_trl.trainer.forward.layout import find_parts, has_holes, make_layout
from steer_trl.trainer.forward.packed import run_packed
from steer_trl.trainer.forward.varlen import attend_with_varlen

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


@pytest.fixture(autouse=True)
def accelerator():
    """Its state is shared, and each `TrainingArguments` that another test makes resets it."""
    TRAINER.accelerator = Accelerator(cpu=True)


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


@pytest.mark.parametrize("checkpointing", ["none", "reentrant"])
def test_adapters_get_the_same_gradient(checkpointing):
    model = make_model(*ARCHITECTURES["Qwen2"])
    model = get_peft_model(model, LoraConfig(target_modules=["q_proj", "v_proj"], init_lora_weights=False))
    if CHECKPOINTING[checkpointing]:
        model.gradient_checkpointing_enable(CHECKPOINTING[checkpointing])
        model.enable_input_require_grads()
    assert_same(model.train(), make_inputs(), bound=1e-5)


def test_half_precision_differs_by_its_rounding():
    """The bound is the distance of two padded passes in bfloat16, one of which has more padding."""
    inputs = make_inputs()
    model = make_model(*ARCHITECTURES["Qwen2"], dtype=torch.bfloat16)
    moved = {name: torch.nn.functional.pad(inputs[name], (5, 0)) for name in ("input_ids", "attention_mask")}
    gradients = [run_and_differentiate(model, run_padded, case)[1] for case in (inputs, inputs | moved)]
    rounding = (gradients[0] - gradients[1]).norm() / gradients[0].norm()
    assert 1e-4 < rounding < 0.1
    found = run_and_differentiate(model, lambda model, **x: run_packed(run_padded, model, x, ALWAYS, None), inputs)[1]
    assert (found - gradients[0]).norm() < 2 * rounding * gradients[0].norm()


@pytest.mark.parametrize("multiple", [8, 100])
def test_a_row_is_filled_up_to_a_multiple(multiple):
    model = make_model(*ARCHITECTURES["Mistral with a window"])
    assert_same(model, make_inputs(), multiple=multiple)
    layout = layout_of(make_inputs(), ALWAYS, multiple)
    assert layout.length % multiple == 0


def layout_of(inputs, cost, multiple=1):
    ids, mask = (inputs[name].numpy() for name in ("input_ids", "attention_mask"))
    return make_layout(ids, mask, ids.shape[1] - inputs["logits_to_keep"], cost, multiple, torch.device("cpu"))


LENGTHS = st.lists(st.integers(0, 40), min_size=8, max_size=8)


@given(st.lists(st.integers(1, 30), min_size=2, max_size=4), LENGTHS, st.sampled_from([ALWAYS, NEVER, Cost(32)]))
@settings(max_examples=40)
def test_rows_of_any_length_are_computed_as_padded_ones(prompts, completions, cost):
    if len(prompts) == 3:
        prompts = prompts[:2]
    if not any(completions):
        completions = [*completions[:-1], 1]
    assert_same(MODEL(), make_inputs(prompts, completions), cost)


MODELS = {}


def MODEL():
    """A model that all examples use."""
    if not MODELS:
        MODELS["Gemma 3 with windows"] = make_model(*ARCHITECTURES["Gemma 3 with windows"])
    return MODELS["Gemma 3 with windows"]


@given(st.lists(st.integers(1, 30), min_size=2, max_size=2), LENGTHS, st.integers(0, 10_000))
def test_no_layout_is_longer_than_all_rows(prompts, completions, hidden_size):
    """The rows of today's passes were at least as long: each as its own tokens."""
    layout = layout_of(make_inputs(prompts, completions), Cost(hidden_size))
    rows = [prompts[i // 4] + length for i, length in enumerate(completions) if length]
    least = sum(n - 1 for n, own in zip(prompts, (completions[:4], completions[4:]), strict=True) if any(own))
    least += sum(length for length in completions)
    assert least <= layout.length <= max(sum(rows), 2)
    assert sum(block.end - block.begin for block in layout.blocks) == layout.length
    scored = [int(x) for x in layout.is_scored]
    assert sum(scored) == sum(completions)


def test_a_shared_prompt_is_computed_once_where_that_is_cheaper():
    """A long prompt is shared by any model. A short one before long completions is shared by wide models only."""
    cases = {"long prompt": ((64, 64), (16,) * 8), "long completions": ((16, 16), (128,) * 8)}
    for name, (prompts, completions) in cases.items():
        inputs = make_inputs(prompts, completions)
        ids, mask = (inputs[key].numpy() for key in ("input_ids", "attention_mask"))
        for hidden_size in (64, 4096):
            parts = find_parts(ids, mask, prompts[0], Cost(hidden_size))
            assert any(part.prompt for part in parts) == (name == "long prompt" or hidden_size == 4096)


def test_a_single_row_needs_neither_mask_nor_index():
    layout = layout_of(make_inputs((12, 12), (9,) * 8), NEVER)
    (block,) = layout.blocks
    assert block.index is None and block.prompts is None and not layout.masks


@pytest.mark.parametrize("batch_size", [1, 3, 8, None])
def test_the_model_runs_as_often_as_in_trls_pass(batch_size):
    """On every rank, whatever is shared: FSDP and ZeRO-3 gather weights in each pass."""
    model = make_model(*ARCHITECTURES["Qwen2"])
    calls = []
    model.get_decoder().register_forward_pre_hook(
        lambda _, args, x: calls.append(x["input_ids"].shape), with_kwargs=True
    )
    for completions in ((15, 3, 9, 1, 6, 14, 2, 11), (0,) * 8):
        inputs = make_inputs(completions=completions) | {"batch_size": batch_size}
        with torch.no_grad():
            logps, *_ = run_padded(model, **inputs)
            padded = calls.copy()
            calls.clear()
            found, *_ = run_packed(run_padded, model, inputs, ALWAYS, None)
        assert len(calls) == len(padded)
        assert max(a * b for a, b in calls) <= max(a * b for a, b in padded)
        is_token = inputs["attention_mask"][:, -inputs["logits_to_keep"] :].bool()
        torch.testing.assert_close(found, torch.where(is_token, logps, 0.0), rtol=0, atol=1e-5)
        calls.clear()


@pytest.mark.parametrize("place", ["completion", "prompt"])
def test_a_mask_with_holes_hides_tokens_as_in_trl(place):
    inputs = make_inputs()
    column = 12 + 2 if place == "completion" else 8
    inputs["attention_mask"][0, column] = 0
    model = make_model(*ARCHITECTURES["Qwen2"])
    assert_same(model, inputs)
    assert_same(model, inputs | {"batch_size": 2})
    assert has_holes(inputs["attention_mask"].numpy(), 12)


ONES_WITH_ARGUMENTS = {
    "softcap": (tf.Gemma2Config, HEADS | {"query_pre_attn_scalar": 8}),
    "s_aux": (tf.GptOssConfig, HEADS | {"num_local_experts": 4, "num_experts_per_tok": 2}),
}


@pytest.mark.parametrize("argument", ONES_WITH_ARGUMENTS)
def test_an_unknown_argument_of_the_attention_is_refused(argument):
    with torch.random.fork_rng():
        model = make_model(*ONES_WITH_ARGUMENTS[argument], dtype=torch.float32)
    model.config._attn_implementation = "sdpa"
    with torch.no_grad(), pytest.raises(TypeError, match=argument):
        run_packed(run_padded, model, make_inputs(), ALWAYS, None)


def test_a_model_that_loses_the_layout_is_refused():
    """Its attention would read the whole row."""
    model = make_model(*ARCHITECTURES["Qwen2"])
    layer = model.get_decoder().layers[1]
    run_layer = layer.forward
    layer.forward = lambda *args, **kwargs: run_layer(*args, **{k: x for k, x in kwargs.items() if k != LAYOUT})
    with torch.no_grad(), pytest.raises(RuntimeError, match="2 of its 3 layers"):
        run_packed(run_padded, model, make_inputs(), ALWAYS, None)


def test_layers_whose_arguments_fsdp_copies_get_the_layout():
    """FSDP casts the arguments of every module that it wraps, and copies the containers that they are in."""
    model = make_model(*ARCHITECTURES["Qwen2"])
    inputs = make_inputs()
    with torch.no_grad():
        before = run_packed(run_padded, model, inputs, ALWAYS, None)[0]

    def cast(_module, args, kwargs):
        return _apply_to_tensors(torch.clone, args), _apply_to_tensors(torch.clone, kwargs)

    for module in (model, *model.get_decoder().layers):
        module.register_forward_pre_hook(cast, with_kwargs=True)
    with torch.no_grad():
        assert torch.equal(run_packed(run_padded, model, inputs, ALWAYS, None)[0], before)


def test_nothing_is_left_on_the_model():
    model = make_model(*ARCHITECTURES["Gemma 3 with windows"])
    inputs = make_inputs()
    prompts = {"input_ids": inputs["input_ids"][:, :12], "attention_mask": inputs["attention_mask"][:, :12]}

    def state():
        config = {name: repr(x) for name, x in vars(model.config).items()}
        hooks = [len(module._forward_hooks) + len(module._forward_pre_hooks) for module in model.modules()]
        return config, hooks, [set(vars(module)) for module in model.modules()]

    before = state()
    written = model.generate(**prompts, max_new_tokens=12, do_sample=False)
    model.train()
    run_and_differentiate(model, lambda model, **x: run_packed(run_padded, model, x, ALWAYS, None), inputs)
    model.eval()
    assert torch.equal(model.generate(**prompts, max_new_tokens=12, do_sample=False), written)
    config, hooks, names = state()
    assert (config, hooks) == before[:2]
    assert names == before[2]


def attend_by_hand(query, key, value, cu_seqlens_q, cu_seqlens_k, *, causal, softmax_scale, window_size=(-1, -1), **_):
    """What flash attention computes of sequences of different lengths, `[tokens, heads, size]`."""
    assert causal
    groups = query.size(1) // key.size(1)
    outputs = []
    for i in range(len(cu_seqlens_q) - 1):
        q = query[cu_seqlens_q[i] : cu_seqlens_q[i + 1]].transpose(0, 1)
        k, v = (
            x[cu_seqlens_k[i] : cu_seqlens_k[i + 1]].transpose(0, 1).repeat_interleave(groups, 0) for x in (key, value)
        )
        scores = q @ k.transpose(1, 2) * softmax_scale
        places = torch.arange(k.size(1))
        distance = places[k.size(1) - q.size(1) :, None] - places
        sees = distance >= 0
        if window_size[0] >= 0:
            sees &= distance <= window_size[0]
        outputs.append((scores.masked_fill(~sees, -torch.inf).softmax(-1) @ v).transpose(0, 1))
    return torch.cat(outputs)


@pytest.mark.parametrize("window", [None, 8])
@pytest.mark.parametrize("cost", [ALWAYS, NEVER])
def test_flash_attention_would_get_the_same_sequences(monkeypatch, window, cost):
    """Through Transformers' own function, whose kernel is replaced: there is no GPU here."""
    arguments = flash_utils._process_flash_attention_kwargs
    arguments = partial(arguments, supports_mapping=defaultdict(bool, window_size=True))
    # Transformers 5.24 also has a function for a paged cache.
    arguments = (arguments, None) if hasattr(flash_utils, "_process_with_kvcache_kwargs_fn") else arguments
    monkeypatch.setattr(
        flash_utils, "lazy_import_flash_attention", lambda *_: ((None, attend_by_hand, *[None] * 3), arguments)
    )
    monkeypatch.setattr(tf.integrations.flash_attention, "_use_top_left_mask", False)
    layout = layout_of(make_inputs(), cost)
    model = make_model(*ARCHITECTURES["Qwen2"])
    module = model.get_decoder().layers[0].self_attn
    dice = torch.Generator().manual_seed(0)
    query, key, value = (
        torch.randn(1, heads, layout.length, 8, generator=dice, dtype=torch.float64) for heads in (4, 2, 2)
    )
    expected, _ = attend_in_blocks(
        sdpa_attention_forward, layout, module, query, key, value, scaling=0.3, sliding_window=window
    )
    found, _ = attend_with_varlen(
        flash_attention_forward, layout, module, query, key, value, scaling=0.3, sliding_window=window
    )
    torch.testing.assert_close(found, expected)


SEQUENTIAL = {"linear_key_head_dim": 8, "linear_value_head_dim": 8, "linear_num_key_heads": 2}
SEQUENTIAL |= {"linear_num_value_heads": 4, "shared_expert_intermediate_size": 32}
HYBRID = {"layer_types": ["linear_attention", "full_attention", "linear_attention"]}
ROPE = {"rope_theta": 1e4, "factor": 2.0, "original_max_position_embeddings": 64}
LONG = {"long_factor": [1.0] * 4, "short_factor": [1.0] * 4}
REFUSED = {
    "conv": (tf.Lfm2Config, {"layer_types": ["conv", "full_attention", "conv"]}),
    "linear_attention": (tf.Qwen3NextConfig, HEADS | EXPERTS | SEQUENTIAL | HYBRID),
    "rotary": (tf.GPT2Config, {"n_embd": 32, "n_layer": 1, "n_head": 4}),
    "dynamic": (tf.LlamaConfig, {"rope_parameters": ROPE | {"rope_type": "dynamic"}}),
    "longrope": (tf.Phi3Config, {"rope_parameters": ROPE | LONG | {"rope_type": "longrope"}}),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("reason", REFUSED)
def test_a_model_that_reads_more_than_distances_is_refused(reason):
    config_class, sizes = REFUSED[reason]
    model = tf.AutoModelForCausalLM.from_config(config_class(**SMALL | sizes))
    assert reason in _find_reason_of_model(model)


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_a_model_that_reads_distances_is_not_refused(name):
    config_class, sizes = ARCHITECTURES[name]
    assert _find_reason_of_model(tf.AutoModelForCausalLM.from_config(config_class(**SMALL | sizes))) is None


def test_the_check_moves_rows_and_shares_prompts_itself():
    """Also if a micro-batch has one row, or rows of one length without any padding."""
    for case in (make_inputs((9,), (5,)), make_inputs((9,), (5,) * 4)):
        made = make_case(case, 4)
        prompts = made["input_ids"][:, :9]
        assert len(prompts) >= 2 and torch.equal(prompts[0], prompts[1])
        moved = move(made)
        assert not moved["attention_mask"][:, :8].any()
        assert torch.equal(moved["input_ids"][:, 8:], made["input_ids"])
