"""A vocabulary masked by logits of minus infinity trains as the vocabulary without the masked tokens."""

from types import SimpleNamespace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from support.methods.cases import CASES, threshold
from support.runs import has_one
from support.subclasses import TOKENIZER, make
from transformers import PhiConfig, PhiForCausalLM
from trl.trainer.utils import add_fused_lm_head

from steer_trl import SteerGRPOTrainer
from steer_trl.shaping import SHAPERS
from steer_trl.trainer.forward.masked_vocabulary import replace_infinite_biases

NUM_TOKENS = len(TOKENIZER)
NUM_MASKED = 9
SIZES = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
SIZES |= {"pad_token_id": 0, "eos_token_id": 1, "bos_token_id": None, "initializer_range": 0.15}
SIZES |= {"resid_pdrop": 0.0, "embd_pdrop": 0.0}


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """The folder of a model whose last tokens are masked, and of the same model without these tokens."""
    torch.manual_seed(0)
    masked = PhiForCausalLM(PhiConfig(vocab_size=NUM_TOKENS + NUM_MASKED, **SIZES))
    masked.lm_head.bias.data[NUM_TOKENS:] = -torch.inf
    alone = PhiForCausalLM(PhiConfig(vocab_size=NUM_TOKENS, **SIZES))
    alone.load_state_dict(cut(masked))
    folders = [str(tmp_path_factory.mktemp(name)) for name in ("masked", "alone")]
    for model, folder in zip((masked, alone), folders, strict=True):
        model.save_pretrained(folder)
    return folders


def cut(model):
    """The parameters without the rows of the masked tokens."""
    rows = NUM_TOKENS + NUM_MASKED
    return {name: x[:NUM_TOKENS] if len(x) == rows else x for name, x in model.state_dict().items()}


@pytest.mark.parametrize("off_policy", [False, True])
@pytest.mark.parametrize("name", ["none", *SHAPERS])
def test_every_method_trains_as_without_the_masked_tokens(tmp_path, models, name, off_policy):
    settings = {"advantage_shaping": name, "num_iterations": 2 if off_policy else 1, "learning_rate": 0.05}
    if name in CASES:
        settings |= threshold(name, 0.5) | CASES[name].needed | CASES[name].lively
        settings |= {"reward": has_one} if CASES[name].two_valued else {}
    trained = []
    for place, model in enumerate(models):
        trainer = make(tmp_path / str(place), SteerGRPOTrainer, model=model, max_steps=2, **settings)
        trainer.train()
        trained.append(trainer)
        # Without a method the model stays as it is, and TRL's entropies of a masked vocabulary are NaN.
        if name != "none":
            assert [entry["sanity/not_finite"] for entry in trainer.state.log_history[:2]] == [0, 0]
    masked, alone = (trainer.model for trainer in trained)
    torch.testing.assert_close(cut(masked), dict(alone.state_dict()), atol=1e-5, rtol=1e-4)


@given(st.integers(0, 2**31), st.integers(2, 40), st.floats(0.1, 5.0), st.floats(0.1, 3.0))
def test_the_head_has_the_values_and_gradients_of_the_tokens_that_are_left(seed, vocabulary, spread, temperature):
    generator = torch.Generator().manual_seed(seed)
    hidden = torch.randn(1, 6, 8, generator=generator)
    weight = torch.randn(vocabulary, 8, generator=generator) * spread
    is_left = torch.rand(vocabulary, generator=generator) < 0.6
    is_left[0] = True
    bias = torch.where(is_left, torch.randn(vocabulary, generator=generator), -torch.inf)
    left = is_left.nonzero().flatten()
    places = torch.randint(0, len(left), (1, 6), generator=generator)
    masked = run_head(hidden, weight, bias, left[places], temperature)
    alone = run_head(hidden, weight[is_left], bias[is_left], places, temperature)
    for ours, expected in zip(masked, alone, strict=True):
        ours = ours[is_left] if len(ours) == vocabulary and ours.shape != expected.shape else ours
        # In float32, the error of a sum follows its largest term.
        torch.testing.assert_close(ours, expected, atol=1e-4 * (1 + expected.abs().max().item()), rtol=1e-4)


def run_head(hidden, weight, bias, ids, temperature):
    """Log-probabilities, entropies, and the gradients of their sum, of TRL's head after the biases were replaced."""
    head = torch.nn.Linear(8, len(bias))
    head.weight.data, head.bias.data = weight.clone(), bias.clone()
    hidden = hidden.clone().requires_grad_()
    model = PhiForCausalLM(PhiConfig(vocab_size=2, **SIZES))
    model.set_output_embeddings(head)
    replace_infinite_biases(model)
    model.model.forward = lambda **_: SimpleNamespace(last_hidden_state=hidden)
    add_fused_lm_head(model, temperature, outputs=("log_probs", "entropy"))
    output = model(labels=ids, fused_lm_head=True)
    (output.log_probs.sum() + output.entropy.sum()).backward()
    return output.log_probs.detach(), output.entropy.detach(), hidden.grad, head.weight.grad, head.bias.grad
