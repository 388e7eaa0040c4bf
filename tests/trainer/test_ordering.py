"""Ordered completions give TRL's update and log, whatever a micro-batch then holds."""

import pytest
import torch
from datasets import Dataset
from peft import LoraConfig, PromptTuningConfig
from support.digits import given
from support.runs import Spy, same_parameters
from transformers import GPT2Config, GPT2LMHeadModel
from trl import GRPOTrainer

from steer_trl import SteerGRPOTrainer
from steer_trl.demo.tiny import tiny_tokenizer
from steer_trl.trainer.forward import decision
from steer_trl.trainer.forward.decision import Padding
from steer_trl.trainer.trl import micro_batches_of_rollout

RUN = {"optim": "sgd", "learning_rate": 0.5, "max_grad_norm": 1e9, "max_steps": 2, "advantage_shaping": "none"}
RUN |= {"per_device_train_batch_size": 4, "gradient_accumulation_steps": 4, "steps_per_generation": 8}
RUN |= {"max_completion_length": 16, "skip_padding": True}


def write(prompts, trainer):
    """A `rollout_func` of completions of all lengths."""
    words = torch.Generator().manual_seed(trainer.state.global_step)
    texts = torch.randint(3, 9, (len(prompts), 16), generator=words).tolist()
    end = trainer.processing_class.eos_token_id
    return given(prompts, trainer, [[*text[: 1 + (7 * i) % 15], end] for i, text in enumerate(texts)])


def write_alike(prompts, trainer):
    """Completions of one length, for prompts of one length."""
    end = trainer.processing_class.eos_token_id
    return given(["1+1="] * len(prompts), trainer, [[4 + i % 5, 5, end] for i, _ in enumerate(prompts)])


def flat_in_half_of_the_groups(completion_ids, **_):
    """Different rewards in every second group of four."""
    return [(i % 4) * float(i // 4 % 2) for i in range(len(completion_ids))]


@pytest.fixture
def build(make_trainer):
    """Make a trainer on fixed completions: `build(**settings)`."""

    def make(trainer_class=SteerGRPOTrainer, rewards=flat_in_half_of_the_groups, peft_config=None, **settings):
        texts = ["1+1=", "7=", "1+2+3+4+5+6+7+8=", "2+2+2+2="]
        arguments = {"rollout_func": write, "reward_funcs": rewards}
        arguments |= {"peft_config": peft_config, "train_dataset": Dataset.from_dict({"prompt": texts * 8})}
        return make_trainer(trainer_class, **RUN | settings, trainer_arguments=arguments)

    return make


@pytest.fixture
def run(build):
    """Train on fixed completions: `run(**settings)`."""

    def train(*args, **settings):
        trainer = build(*args, **settings)
        trainer.train()
        return trainer

    return train


def prompts_together(trainer):
    """How many prompts the micro-batches of a rollout have, all in all."""
    batches = micro_batches_of_rollout(trainer)
    return sum(len(set(map(tuple, batch["prompt_ids"].tolist()))) for batch in batches)


WHOLE = {"steps_per_generation": 4, "max_steps": 1}


def test_texts_keep_the_order(run, monkeypatch):
    """A column that is a list would not follow its completions."""
    write_rollout = GRPOTrainer._generate_and_score_completions

    def with_column(self, inputs):
        return write_rollout(self, inputs) | {"column": ["text"] * 16}

    assert prompts_together(run(**WHOLE)) == 4
    monkeypatch.setattr(GRPOTrainer, "_generate_and_score_completions", with_column)
    assert prompts_together(run(**WHOLE)) > 4


@pytest.mark.parametrize("name", ["compute_loss", "_compute_loss", "training_step", "_prepare_inputs"])
def test_a_replaced_loss_keeps_the_order(run, name):
    def call_super(self, *args, **kwargs):
        return getattr(SteerGRPOTrainer, name)(self, *args, **kwargs)

    subclass = type("Subclass", (SteerGRPOTrainer,), {name: call_super})
    assert prompts_together(run(subclass, **WHOLE)) > 4


def test_a_change_of_advantages_in_trl_stays(run, monkeypatch):
    """TRL plans a hook for its users, before methods act; each acts once."""
    write_rollout = GRPOTrainer._generate_and_score_completions

    def transform(self, inputs):
        rollout = write_rollout(self, inputs)
        return rollout | {"advantages": self._transform_advantages(rollout["advantages"])}

    class Doubling(Spy):
        def _transform_advantages(self, advantages):
            return 2 * advantages

    settings = {"advantage_shaping": "steer", "max_steps": 1, "steer_lambda_min": 0.3}
    plain = run(Spy, **settings)
    monkeypatch.setattr(GRPOTrainer, "_generate_and_score_completions", transform)
    doubled = run(Doubling, **settings)
    for (raw, shaped, *_), (raw_twice, shaped_twice, *_) in zip(plain.seen, doubled.seen, strict=True):
        torch.testing.assert_close(raw_twice, 2 * raw)
        torch.testing.assert_close(shaped_twice, 2 * shaped)


@pytest.mark.parametrize("batch", [1, 4])
def test_padding_stays_if_the_check_fails(build, monkeypatch, tmp_path, caplog, batch):
    """Learned positions, taken for rotary ones: the first pass finds out, whatever its rows are."""
    sizes = {"n_positions": 64, "n_embd": 32, "n_layer": 1, "n_head": 2, "initializer_range": 1.0}
    no_dropout = dict.fromkeys(("embd_pdrop", "attn_pdrop", "resid_pdrop"), 0.0)
    vocabulary = len(tiny_tokenizer("0123456789+="))
    GPT2LMHeadModel(GPT2Config(vocab_size=vocabulary, pad_token_id=0, **sizes, **no_dropout)).save_pretrained(tmp_path)
    monkeypatch.setattr(decision, "_find_reason_of_model", lambda model: None)
    sizes = {"per_device_train_batch_size": batch, "gradient_accumulation_steps": 4, "steps_per_generation": 4}
    trainer = build(model=str(tmp_path), gradient_checkpointing=False, max_steps=1, **sizes)
    trainer.rollout_func = write_alike
    trainer.train()
    assert "nats per token" in caplog.text
    assert not trainer.parts.padding.is_skipped


def test_half_precision_passes_the_check(run, caplog):
    trainer = run(bf16=True, max_steps=1)
    assert trainer.parts.padding._is_checked and trainer.parts.padding.is_skipped
    assert "padding stays" not in caplog.text


def test_every_training_is_checked(build, monkeypatch):
    """Also one that continues."""
    checks = []
    find_fault = decision.find_fault
    monkeypatch.setattr(decision, "find_fault", lambda *args: checks.append(args) or find_fault(*args))
    trainer = build(max_steps=1)
    trainer.train()
    trainer.train()
    assert len(checks) == 2


def test_an_error_in_the_check_keeps_padding(run, monkeypatch, caplog):
    def fail(*_args):
        raise ValueError("no such kernel")

    monkeypatch.setattr(decision, "run_packed", fail)
    trainer = run(max_steps=1)
    assert "no such kernel" in caplog.text and not trainer.parts.padding.is_skipped


ACTIVATED = LoraConfig(alora_invocation_tokens=[5], target_modules="all-linear", task_type="CAUSAL_LM")


# The comparison with TRL's pass cannot see them: a new adapter adds nothing, and noise is off in it.
@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"peft_config": PromptTuningConfig(num_virtual_tokens=4, task_type="CAUSAL_LM")}, "other than LoRA"),
        ({"peft_config": ACTIVATED}, "other than LoRA"),
        ({"neftune_noise_alpha": 5.0}, "neftune_noise_alpha"),
    ],
)
@pytest.mark.parametrize("batch", [1, 4])
def test_what_depends_on_the_place_of_a_row_keeps_padding(run, batch, settings, reason, caplog):
    sizes = {"per_device_train_batch_size": batch, "gradient_accumulation_steps": 4, "steps_per_generation": 4}
    trainer = run(max_steps=1, **settings, **sizes)
    assert reason in caplog.text and not trainer.parts.padding.is_skipped


def test_the_check_draws_no_random_number(run, monkeypatch):
    checked = run(advantage_shaping="none")
    monkeypatch.setattr(Padding, "_check", lambda *_, **__: None)
    assert same_parameters(checked, run(advantage_shaping="none"))
