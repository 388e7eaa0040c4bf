"""How Transformers draws: seeds, greedy, top-p, and where a saved model ends a text."""

import shutil
from dataclasses import replace
from functools import partial

import pytest
import torch
from support.eval_command import other_eos
from transformers import GenerationMixin

from steer_trl.demo.tiny import tiny_qwen2, tiny_tokenizer
from steer_trl.evaluation import Sampling
from steer_trl.evaluation.backends import TransformersGenerator, cut_at_eos, prompt_token_ids, read_eos_token_ids
from steer_trl.rewards import MathReward


@pytest.fixture(scope="module")
def generator():
    tokenizer = tiny_tokenizer()
    model = tiny_qwen2(tokenizer)
    model.generation_config.repetition_penalty = 100.0  # a habit of the model that must not be mixed in
    return TransformersGenerator(model, tokenizer)


class TestTransformersBackEnd:
    PROMPTS = [[{"role": "user", "content": text}] for text in ("1+1?", "a longer problem than that")]

    def test_a_seed_fixes_the_completions_and_leaves_the_random_state(self, generator):
        sampling = Sampling(max_tokens=12)
        state = torch.get_rng_state()
        drawn = generator(self.PROMPTS, sampling, seed=0)
        assert drawn == generator(self.PROMPTS, sampling, seed=0) != generator(self.PROMPTS, sampling, seed=1)
        assert torch.equal(torch.get_rng_state(), state)
        assert all(one.num_tokens == 12 if one.truncated else one.num_tokens <= 12 for one in drawn)

    def test_greedy_is_the_most_probable_token(self, generator):
        drawn = generator(self.PROMPTS[:1], Sampling(temperature=0.0, max_tokens=4), seed=0)[0]
        ids = prompt_token_ids(generator.tokenizer, self.PROMPTS[:1])[0]
        start = len(ids)
        for _ in range(drawn.num_tokens):
            with torch.no_grad():
                ids = [*ids, generator.model(torch.tensor([ids])).logits[0, -1].argmax().item()]
        assert generator.tokenizer.decode(ids[start:], skip_special_tokens=True) == drawn.text

    @pytest.mark.parametrize("sampling", [Sampling(temperature=0.0), Sampling(top_k=1), Sampling(top_k=2)])
    def test_a_sampling_is_greedy_if_all_samples_are_equal(self, generator, sampling):
        prompts = self.PROMPTS[:1] * 16
        drawn = generator(prompts, replace(sampling, max_tokens=12), seed=0)
        assert sampling.is_greedy is (len(set(drawn)) == 1)

    def test_top_p_draws_from_the_head_only(self, generator):
        greedy = generator(self.PROMPTS, Sampling(temperature=0.0, max_tokens=6), seed=0)
        assert generator(self.PROMPTS, Sampling(top_p=1e-6, max_tokens=6), seed=3) == greedy

    @pytest.mark.parametrize("sampling", [Sampling(), Sampling(temperature=0.5, top_p=0.8), Sampling(temperature=0.0)])
    def test_the_completions_are_those_of_generate_and_a_prompt_is_computed_once(
        self, generator, monkeypatch, sampling
    ):
        """In double precision, where two tokens are never equally likely up to rounding."""
        model = generator.model
        prompts = [prompt for prompt in self.PROMPTS for _ in range(8)]
        rows = []
        hook = model.register_forward_pre_hook(lambda *call: rows.append(len(call[2]["input_ids"])), with_kwargs=True)
        model.double()
        drawn = generator(prompts, replace(sampling, max_tokens=12), seed=5)
        assert rows[0] == len(self.PROMPTS) and max(rows) == len(prompts)
        monkeypatch.setattr(model, "generate", partial(GenerationMixin.generate, model))
        rows.clear()
        assert generator(prompts, replace(sampling, max_tokens=12), seed=5) == drawn
        assert rows[0] == len(prompts)
        hook.remove()
        model.float()

    def test_texts_and_conversations_may_meet_in_a_batch(self, generator):
        mixed = ["1+1=", *self.PROMPTS, "2+2="]
        each = [prompt_token_ids(generator.tokenizer, [prompt])[0] for prompt in mixed]
        assert prompt_token_ids(generator.tokenizer, mixed) == each


def test_saved_eos_token_ids(tiny_folder, tmp_path):
    model = shutil.copytree(tiny_folder, tmp_path / "model")
    assert read_eos_token_ids(str(model)) == [1]
    other_eos(model)
    assert read_eos_token_ids(str(model)) == [1, 5]
    (model / "generation_config.json").unlink()
    assert read_eos_token_ids(str(model)) == [1]


SPECIAL = ["<|start|>", "<|channel|>", "<|message|>", "<|end|>", "<|return|>", "[THINK]", "[/THINK]"]
THOUGHTS = [
    # What the model writes, and the answer.
    (r"<|channel|>analysis<|message|>Is it \boxed{5}", None),
    (r"<|channel|>analysis<|message|>Is it \boxed{5}<|end|>", None),
    (
        r"<|channel|>analysis<|message|>Is it \boxed{5}<|end|><|start|>assistant<|channel|>final<|message|>"
        r"It is \boxed{6}<|return|>",
        "6",
    ),
    (
        r"<|channel|>analysis<|message|>Is it \boxed{5}<|end|><|start|>assistant<|channel|>final<|message|>"
        r"I do not know<|return|>",
        None,
    ),
    (r"[THINK]Is it \boxed{5}", None),
    (r"[THINK]Is it \boxed{5}[/THINK]It is \boxed{6}", "6"),
    (r"<think>Is it \boxed{5}</think>It is \boxed{6}<|return|>", "6"),
    (r"It is \boxed{6}<|return|>", "6"),
]


@pytest.fixture(scope="module")
def tokenizer():
    tokenizer = tiny_tokenizer()
    tokenizer.add_special_tokens({"additional_special_tokens": SPECIAL})
    # As Qwen3 has them.
    tokenizer.add_tokens(["<think>", "</think>"])
    return tokenizer


class TestMarksOfThoughtsThatAreSpecialTokens:
    def read(self, tokenizer, text):
        ids = tokenizer(text, add_special_tokens=False)["input_ids"]
        return cut_at_eos(ids, [tokenizer.convert_tokens_to_ids("<|return|>")], tokenizer).text

    @pytest.mark.parametrize(("written", "answer"), THOUGHTS)
    def test_a_thought_is_judged_as_a_thought(self, tokenizer, written, answer):
        (verdict,) = MathReward().judge([self.read(tokenizer, written)], ["5"])
        assert (verdict.answer, verdict.correct) == (answer, False)

    @pytest.mark.parametrize(("written", "answer"), THOUGHTS)
    def test_no_other_special_token_is_in_the_text(self, tokenizer, written, answer):
        text = self.read(tokenizer, written)
        marks = {"<|channel|>", "[THINK]", "[/THINK]"}
        assert not [token for token in SPECIAL if token in text and token not in marks]
        without_marks = text
        for mark in marks:
            without_marks = without_marks.replace(mark, "")
        ids = tokenizer(written, add_special_tokens=False)["input_ids"]
        assert without_marks == tokenizer.decode(ids, skip_special_tokens=True)
