"""The exact sensitivity of a token, on the trainer's real path: what it is, what it costs, and that it is off."""

import math
from types import SimpleNamespace

import pytest
import torch
from peft import LoraConfig
from support.digits import given
from support.runs import CHARACTERS, same_parameters, save_tiny_model
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import AutoConfig, AutoModelForCausalLM
from trl import GRPOTrainer
from trl.trainer import utils

from steer_trl import SteerGRPOTrainer
from steer_trl.demo.tiny import tiny_qwen2, tiny_tokenizer
from steer_trl.functional import entropy_change, steer_weights
from steer_trl.shaping import Shaper
from steer_trl.trainer.inputs import STORED_SENSITIVITIES

EXACT = {"steer_form": "exact", "steer_lambda_min": 0.3}
SIZES = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
SIZES |= {"num_key_value_heads": 2, "vocab_size": len(tiny_tokenizer(CHARACTERS)), "pad_token_id": 0}
SIZES |= {"eos_token_id": 1, "bos_token_id": None, "initializer_range": 0.3}  # distributions far from uniform
SIZES |= {"moe_intermediate_size": 32, "shared_expert_intermediate_size": 32, "num_experts": 4}


class Keeping(SteerGRPOTrainer):
    """Keeps what the loss's own passes say: advantages before, inputs after, score, and the parameters in float64."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.kept, self.shape, self.parts.step.shape = [], self.parts.step.shape, self.keep

    def keep(self, inputs, score):
        raw, parameters = inputs["advantages"], {n: p.detach().double() for n, p in self.model.named_parameters()}
        self.shape(inputs, score)
        self.kept.append((raw, inputs, score, parameters))


def exact_changes(trainer, inputs, parameters):
    """dH of a unit step on each completion token `[B, T]`, by autograd and by a finite difference, in float64.

    From the model's own logits, not from TRL's head.
    """
    ids = torch.cat([inputs["prompt_ids"], inputs["completion_ids"]], dim=1)
    attention = torch.cat([inputs["prompt_mask"], inputs["completion_mask"]], dim=1)
    arguments = {"input_ids": ids, "attention_mask": attention}
    with torch.no_grad():
        logits = torch.func.functional_call(trainer.model, parameters, kwargs=arguments).logits.double()
    completion = inputs["completion_ids"]
    logits = (logits[:, -completion.size(1) - 1 : -1] / trainer.temperature).requires_grad_()

    def entropy(x):
        return torch.special.entr(x.softmax(-1)).sum(-1)

    # The policy gradient of ln pi(token).
    step = torch.nn.functional.one_hot(completion, logits.size(-1)) - logits.detach().softmax(-1)
    (gradient,) = torch.autograd.grad(entropy(logits).sum(), logits)
    with torch.no_grad():
        difference = (entropy(logits + 1e-5 * step) - entropy(logits - 1e-5 * step)) / 2e-5
    return (gradient * step).sum(-1), difference


def lora(**_):
    return {"peft_config": LoraConfig(r=4, target_modules=["q_proj", "v_proj"], init_lora_weights=False)}


def tool_tokens(prompts, trainer):
    ids = [[*range(5, 12), 4 + i % 10] for i in range(len(prompts))]
    return given(prompts, trainer, ids, [[1, 1, 0, 0, 1, 1, 0, 1]] * len(ids))


def model(kind, **settings):
    return lambda: AutoModelForCausalLM.from_config(AutoConfig.for_model(kind, **SIZES, **settings))


CASES = {
    "plain": {},
    "several chunks of a rollout": {"steps_per_generation": 4, "temperature": 0.7},
    "gradient checkpointing": {"gradient_checkpointing": True},
    "head in float32": {"cast_lm_head_to_fp32": True, "tie": False},
    "a soft cap": {"model": model("gemma2", head_dim=8, final_logit_softcapping=3.0), "temperature": 0.8},
    "a divided logit": {"model": model("granite", logits_scaling=0.5), "temperature": 1.5},
    "lora": {"trainer_arguments": lora},
    "tools": {"trainer_arguments": lambda: {"rollout_func": tool_tokens}},
}


@pytest.mark.parametrize("case", CASES)
def test_sensitivity_is_the_derivative_of_the_entropy(train, tokenizer, case):
    torch.manual_seed(0)
    fields = {name: value() if callable(value) else value for name, value in CASES[case].items()}
    tie = fields.pop("tie", True)
    fields.setdefault("model", tiny_qwen2(tokenizer, initializer_range=0.3, tie_word_embeddings=tie))
    trainer = train(Keeping, **{"max_steps": 2} | fields, **EXACT)
    assert len(trainer.kept) == 4
    for _, inputs, score, parameters in trainer.kept:
        by_autograd, by_difference = exact_changes(trainer, inputs, parameters)
        mask = inputs["completion_mask"].bool()
        ours = -score.sensitivities
        assert by_autograd[mask].abs().max() > 0.02
        torch.testing.assert_close(ours[mask].double(), by_autograd[mask], atol=1e-5, rtol=1e-4)
        torch.testing.assert_close(ours[mask].double(), by_difference[mask], atol=1e-5, rtol=1e-4)
        assert (ours[~mask] == 0).all() and not ours.requires_grad


@pytest.mark.parametrize("method", ["steer", "none"])
def test_experts_train_with_their_auxiliary_loss(train, method):
    experts = model("qwen2_moe", num_experts_per_tok=2)()
    trainer = train(SteerGRPOTrainer, model=experts, advantage_shaping=method, max_steps=2)
    log = [entry for entry in trainer.state.log_history if "loss" in entry]
    assert len(log) == 2 and all(math.isfinite(entry["entropy"]) for entry in log)


def test_bf16_is_as_exact_as_its_logits(train, tokenizer):
    trainer = train(Keeping, model=tiny_qwen2(tokenizer, initializer_range=0.3), max_steps=1, bf16=True, **EXACT)
    for _, inputs, score, parameters in trainer.kept:
        mask = inputs["completion_mask"].bool()
        expected, ours = exact_changes(trainer, inputs, parameters)[0][mask], -score.sensitivities[mask]
        assert 1e-4 < (ours - expected).norm() / expected.norm() < 0.15


def test_the_weights_are_steers_with_the_exact_change(train):
    """In both passes over a rollout, the second of which is compared with the current policy's numbers."""
    settings = {"num_iterations": 2, "max_steps": 2, "gradient_accumulation_steps": 1, "shaping_scope": "exact_step"}
    trainer = train(Keeping, **settings, **EXACT)
    for raw, inputs, score, _ in trainer.kept:
        numbers = score.logps, inputs.get("old_per_token_logps", score.logps), score.entropies, raw
        omega = entropy_change(*numbers, sensitivities=score.sensitivities)
        weights = steer_weights(omega, inputs["completion_mask"], lambda_min=0.3)
        assert torch.equal(inputs["advantages"], raw.unsqueeze(1) * weights) and weights.min() == 0.3
    (_, first, before, _), (_, second, after, _) = trainer.kept
    assert torch.equal(first[STORED_SENSITIVITIES], before.sensitivities)  # of the policy that wrote it
    assert torch.equal(second[STORED_SENSITIVITIES], before.sensitivities)
    assert not torch.equal(after.sensitivities, before.sensitivities)


# Two optimizer steps of two micro-batches. What GRPO makes; STEER's passes beside them; how many passes of the head
# come on top: one after each, except for those whose numbers nobody would read.
SCHEDULES = {
    "on-policy": ({}, 4, 2, 6),
    "scored by TRL": ({"num_iterations": 2}, 4 + 2, 0, 6),
    "scored by TRL, current policy": ({"num_iterations": 2, "shaping_scope": "exact_step"}, 4 + 2, 1, 7),
    "scored by TRL, micro-batches": ({"num_iterations": 2, "shaping_scope": "micro_batch"}, 4 + 2, 0, 4),
}


MEASURED = 2
"""The passes in which the first rollout is compared with its own policy."""


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_sensitivities_cost_one_head_pass(train, monkeypatch, schedule):
    schedule, theirs, ahead, again = SCHEDULES[schedule]
    passes, head = [], utils._ChunkedLogProbFunction
    counting = SimpleNamespace(apply=lambda *args: passes.append(1) or head.apply(*args))
    monkeypatch.setattr(utils, "_ChunkedLogProbFunction", counting)

    def run(trainer_class, **fields):
        passes.clear()
        trainer = train(trainer_class, **fields, max_steps=2)
        return len(passes) - (MEASURED if trainer_class is SteerGRPOTrainer else 0), trainer

    calls, grpo = run(GRPOTrainer, **{name: schedule[name] for name in schedule if name != "shaping_scope"})
    assert calls == theirs
    off, trainer = run(SteerGRPOTrainer, **schedule, **EXACT | {"steer_lambda_min": 1.0})
    assert off == theirs and same_parameters(trainer, grpo)
    assert run(SteerGRPOTrainer, **schedule)[0] == theirs + ahead
    on, trainer = run(SteerGRPOTrainer, **schedule, **EXACT)
    assert on == theirs + ahead + again and not same_parameters(trainer, grpo)
    for module in trainer.model.modules():
        assert not module._forward_hooks  # the model is as TRL left it


class NoDraw(Shaper):
    reads = ("sensitivities",)

    def weights(self, batch, measure):
        assert batch.sensitivities is not None and batch.sensitivities.shape == batch.logps.shape
        return torch.ones_like(batch.logps)


@pytest.mark.parametrize("adapter", [False, True])  # with a reference model, and with LoRA's, the policy's own
def test_the_extra_pass_disturbs_nothing(train, prompts, tmp_path, adapter):
    """A method of one's own reads them, in evaluation as well; the training is GRPO's bit for bit."""
    model = str(save_tiny_model(tmp_path / "model", CHARACTERS, attention_dropout=0.2))

    def run(trainer_class, **fields):
        torch.manual_seed(0)
        arguments = {"eval_dataset": prompts.select(range(3))} | (lora() if adapter else {})
        more = {"eval_strategy": "steps", "eval_steps": 1, "disable_dropout": False, "beta": 0.1, "max_steps": 2}
        return train(trainer_class, model=model, trainer_arguments=arguments, **more, **fields)

    assert same_parameters(run(GRPOTrainer), run(SteerGRPOTrainer, advantage_shaping=f"{__name__}:NoDraw"))


class Largest(TorchDispatchMode):
    """Remembers how many numbers the largest tensor has that anything makes."""

    numbers = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **kwargs or {})
        made = result if isinstance(result, (tuple, list)) else [result]
        self.numbers = max([self.numbers, *(x.numel() for x in made if isinstance(x, torch.Tensor))])
        return result


def test_no_tensor_has_the_vocabulary_for_every_token(make_trainer, tokenizer):
    vocabulary, tokens = 100_000, 400
    model = tiny_qwen2(tokenizer, vocab_size=vocabulary, hidden_size=8)
    ids = {"prompt_ids": torch.full((4, 2), 5), "completion_ids": torch.randint(4, 14, (4, tokens // 4))}
    rollout = ids | {name.replace("ids", "mask"): torch.ones_like(x) for name, x in ids.items()}
    sizes = []
    for form in ("paper", "exact"):
        trainer = make_trainer(SteerGRPOTrainer, model=model, **EXACT | {"steer_form": form})
        with Largest() as largest:
            score = trainer.parts.rollouts.score(rollout)
        assert (score.sensitivities is not None) == (form == "exact")
        sizes.append(largest.numbers)
    assert sizes[0] == sizes[1] < vocabulary * tokens / 2


def test_rollouts_scored_for_others_are_rescored(train, make_trainer, tmp_path):
    """The run was saved in the middle of a rollout, and goes on with a form that reads more than its score says."""
    fields = {"num_iterations": 2, "save_strategy": "steps", "save_steps": 1, "max_steps": 2, "steer_lambda_min": 0.3}
    train(SteerGRPOTrainer, **fields)
    resumed = make_trainer(Keeping, **fields, steer_form="exact")
    resumed.train(resume_from_checkpoint=str(tmp_path / "run/checkpoint-1"))
    assert len(resumed.kept) == 2 and all(STORED_SENSITIVITIES not in inputs for _, inputs, *_ in resumed.kept)
    lightest = [entry["shaping/weight_min"] for entry in resumed.state.log_history if "shaping/weight_min" in entry]
    assert lightest[-1] == pytest.approx(0.3, abs=1e-6)  # of the whole step, under the current policy
