"""Without padding a training is the same but for rounding, and computes less."""

import pytest
import torch
from peft import LoraConfig
from support.digits import given
from support.runs import CHARACTERS, same_parameters
from torch.nn.utils import parameters_to_vector
from transformers import GPT2Config, GPT2LMHeadModel, Qwen2ForCausalLM
from trl import GRPOTrainer

from steer_trl import SteerGRPOTrainer
from steer_trl.tiny import tiny_qwen2, tiny_tokenizer
from steer_trl.trainer.trl import micro_batches_of_rollout

LENGTHS = [16, 1, 3, 7, 2, 16, 5, 4]
"""Of the completions, by their row; the longest is as long as it may be."""
RUN = {"optim": "sgd", "learning_rate": 0.5, "max_grad_norm": 1e9, "max_steps": 4, "advantage_shaping": "none"}
RUN |= {"per_device_train_batch_size": 2, "gradient_accumulation_steps": 4, "steps_per_generation": 8}
RUN |= {"max_completion_length": 16}
LORA = LoraConfig(target_modules=["q_proj"])


def write(prompts, trainer):
    """A `rollout_func` of completions whose length and text depend on their row only."""
    words = torch.Generator().manual_seed(trainer.state.global_step)
    end = trainer.processing_class.eos_token_id
    texts = torch.randint(3, 9, (len(prompts), 16), generator=words).tolist()
    return given(prompts, trainer, [[*text[: LENGTHS[i % 8] - 1], end] for i, text in enumerate(texts)])


def flat(trainer):
    return parameters_to_vector(trainer.model.parameters()).detach().double()


class Counting(SteerGRPOTrainer):
    """Counts the positions that its model computes, in passes with a gradient and in others."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.widths, self.scored, self.start = [], [], flat(self)
        inner = self.accelerator.unwrap_model(self.model).get_decoder()
        inner.register_forward_pre_hook(self.count, with_kwargs=True)

    def count(self, _model, _args, kwargs):
        shape = tuple(kwargs["input_ids"].shape)
        (self.widths if torch.is_grad_enabled() else self.scored).append(shape)


@pytest.fixture
def both(train):

    def run(**settings):
        arguments = {"trainer_arguments": {"rollout_func": write} | settings.pop("trainer_arguments", {})}
        return [train(Counting, **RUN | settings | arguments | {"skip_padding": skip}) for skip in (False, True)]

    return run


def assert_same_update(padded, cut):
    expected, found = (flat(trainer) - trainer.start for trainer in (padded, cut))
    assert expected.norm() > 0.01
    assert (found - expected).norm() < 1e-4 * expected.norm()


@pytest.mark.parametrize("loss", ["dapo", "grpo", "dr_grpo", "bnpo", "cispo", "sapo", "vespo", "luspo"])
def test_every_loss_makes_the_same_update_from_fewer_positions(both, loss):
    padded, cut = both(loss_type=loss, **({"epsilon_high": 5.0} if loss == "cispo" else {}))
    assert_same_update(padded, cut)
    assert sum(a * b for a, b in cut.widths) < 0.8 * sum(a * b for a, b in padded.widths)
    assert sum(a * b for a, b in cut.scored) < 0.8 * sum(a * b for a, b in padded.scored)


@pytest.mark.parametrize(
    "settings",
    [
        {"advantage_shaping": "steer"},
        {"advantage_shaping": "steer", "steer_form": "exact"},
        {"advantage_shaping": "stare", "stare_target_entropy": 100.0, "shaping_scope": "exact_step"},
        {"advantage_shaping": "entropy_change", "shaping_scope": "micro_batch"},
        {"advantage_shaping": "entropy_bonus", "entropy_bonus_coef": 0.1},
        {"beta": 0.1},
        {"top_entropy_quantile": 0.5},
        {"num_iterations": 2, "trainer_arguments": {"peft_config": LORA}, "learning_rate": 50.0},
        {"entropy_coef": 0.05},
        {"importance_sampling_level": "sequence", "steps_per_generation": 4},
    ],
    ids=str,
)
def test_the_update_is_the_same_whatever_is_set(both, settings):
    assert_same_update(*both(**settings))


def test_the_longest_completions_of_a_step_come_first(make_trainer):
    trainer = make_trainer(SteerGRPOTrainer, **RUN | {"skip_padding": True}, trainer_arguments={"rollout_func": write})
    trainer.train()
    lengths = [one["completion_mask"].sum(1) for one in micro_batches_of_rollout(trainer)]
    for step in (torch.cat(lengths[:4]), torch.cat(lengths[4:])):
        assert step.tolist() == sorted(step.tolist(), reverse=True)
    assert sorted(torch.cat(lengths).tolist()) == sorted(LENGTHS * 2)


def test_the_log_has_the_mean_over_the_tokens_of_a_step(both):
    """TRL logs the mean over micro-batches, which weighs a token of short completions more."""
    held = {"advantage_shaping": "repo_r", "hold_entropy": 1e-9, "hold_entropy_unit": "nats"}
    _, cut = both(max_steps=1, steps_per_generation=4, **held)
    entry = next(entry for entry in cut.state.log_history if "entropy" in entry)
    assert entry["entropy"] == pytest.approx(entry["rollout_entropy"], rel=1e-5)


def test_learned_positions_keep_the_left_columns(both, tmp_path):
    tokenizer = tiny_tokenizer(CHARACTERS)
    torch.manual_seed(0)
    sizes = {"n_positions": 64, "n_embd": 32, "n_layer": 1, "n_head": 2}
    no_dropout = dict.fromkeys(("embd_pdrop", "attn_pdrop", "resid_pdrop"), 0.0)
    model = GPT2LMHeadModel(GPT2Config(vocab_size=len(tokenizer), pad_token_id=0, **sizes, **no_dropout))
    model.save_pretrained(tmp_path)
    assert_same_update(*both(model=str(tmp_path), gradient_checkpointing=False))


def test_positions_that_depend_on_the_length_keep_all_padding(both, tokenizer, caplog):
    model = tiny_qwen2(tokenizer)
    model.config.rope_parameters = {"rope_type": "dynamic", "rope_theta": 1e4, "factor": 2.0}
    _, cut = both(model=Qwen2ForCausalLM(model.config))
    assert len({width for _, width in cut.widths}) == 1
    assert "skip_padding: padding stays" in caplog.text


def test_widths_are_multiples_where_trl_pads_to_one(both):
    padded, cut = both(pad_to_multiple_of=4)
    assert_same_update(padded, cut)
    assert {width % 4 for _, width in cut.widths} == {0}
    assert len({width for _, width in cut.widths}) > 1


def test_without_a_method_padding_stays_unless_set(train, make_trainer):
    assert same_parameters(train(GRPOTrainer), train(SteerGRPOTrainer, advantage_shaping="none"))
    for method, skips in (("none", False), ("stare", True)):
        trainer = make_trainer(SteerGRPOTrainer, advantage_shaping=method, skip_padding=None)
        assert trainer.args.skips_padding is skips
