"""Without padding a training is the same but for rounding, and computes less."""

import pytest
import torch
from datasets import Dataset
from peft import LoraConfig
from support.digits import given, written
from support.runs import CHARACTERS, of_method, same_parameters
from torch.nn.utils import parameters_to_vector
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    Ministral3Config,
    Ministral3ForCausalLM,
    Qwen2ForCausalLM,
    Qwen3MoeConfig,
    Qwen3MoeForCausalLM,
    RecurrentGemmaConfig,
    RecurrentGemmaForCausalLM,
)
from trl import GRPOTrainer

from steer_trl import SteerGRPOTrainer
from steer_trl.demo.tiny import tiny_qwen2, tiny_tokenizer
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
def test_every_loss_updates_alike_from_fewer_positions(both, loss):
    padded, cut = both(loss_type=loss, **({"epsilon_high": 5.0} if loss == "cispo" else {}))
    assert_same_update(padded, cut)
    assert sum(a * b for a, b in cut.widths) < 0.8 * sum(a * b for a, b in padded.widths)
    assert sum(a * b for a, b in cut.scored) < 0.8 * sum(a * b for a, b in padded.scored)


@pytest.mark.parametrize("loss", ["dapo", "grpo", "dr_grpo", "cispo", "sapo", "vespo"])
def test_twenty_steps_end_where_those_of_trl_end(make_trainer, loss):
    """With two steps in a rollout, so that ratios differ from 1."""
    settings = {name: x for name, x in RUN.items() if name != "advantage_shaping"}
    settings |= {"loss_type": loss, "max_steps": 20, "learning_rate": 0.05, "lr_scheduler_type": "constant"}
    settings |= {"per_device_train_batch_size": 4, "gradient_accumulation_steps": 2, "steps_per_generation": 4}
    settings |= {"epsilon_high": 5.0} if loss == "cispo" else {}
    ours = {"advantage_shaping": "none", "skip_padding": True, "alarms": False, "run_log": False, "diagnostics": False}
    updates = []
    for trainer_class, fields in ((GRPOTrainer, {}), (SteerGRPOTrainer, ours)):
        trainer = make_trainer(trainer_class, **settings | fields, trainer_arguments={"rollout_func": write})
        start = flat(trainer)
        trainer.train()
        updates.append(flat(trainer) - start)
    expected, found = updates
    assert expected.norm() > 0.01
    assert (found - expected).norm() <= 1e-5 * expected.norm()


@pytest.mark.parametrize(
    "settings",
    [
        {"advantage_shaping": "steer"},
        {"advantage_shaping": "steer", "steer_form": "exact"},
        {"advantage_shaping": "stare", "stare_target_entropy": 100.0, "shaping_scope": "exact_step"},
        {"advantage_shaping": "entropy_change", "shaping_scope": "micro_batch"},
        {"advantage_shaping": "entropy_bonus", **of_method("entropy_bonus", coef=0.1)},
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


def test_a_prompts_completions_come_together(both):
    """TRL shuffles them over the steps and micro-batches of a rollout."""
    prompts = Dataset.from_dict({"prompt": ["1+2+3+4+5+6+7+8+9+1+2+3=", "7+6+5+4+3+2+1+9+8+7+6+5="]})
    padded, cut = both(num_generations=8, max_steps=1, trainer_arguments={"train_dataset": prompts}, **ONE_STEP)
    assert_same_update(padded, cut)
    for batch in micro_batches_of_rollout(cut):
        assert len(set(map(tuple, batch["prompt_ids"].tolist()))) == 1
    # Each prompt of 24 tokens is computed once for a micro-batch, which is a group.
    lengths = [LENGTHS[i % 8] for i in range(16)]
    assert sum(a * b for a, b in cut.widths) == 2 * 23 + sum(lengths) + 16


ONE_STEP = {"per_device_train_batch_size": 8, "gradient_accumulation_steps": 2, "steps_per_generation": 2}


def test_one_process_keeps_trls_order_if_prompts_are_not_shared(both):
    padded, cut = both(max_steps=1, per_device_train_batch_size=1, gradient_accumulation_steps=8)
    for one, other in zip(*map(micro_batches_of_rollout, (padded, cut)), strict=True):
        assert torch.equal(one["completion_ids"], other["completion_ids"])
    logs = [trainer.state.log_history[0] for trainer in (padded, cut)]
    for key in ("loss", "entropy", "grad_norm", "clip_ratio/region_mean"):
        assert logs[1][key] == pytest.approx(logs[0][key], rel=1e-4, abs=1e-7)


SIZES = {"vocab_size": len(tiny_tokenizer(CHARACTERS)), "pad_token_id": 0, "bos_token_id": None, "eos_token_id": 1}
SIZES |= {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 3, "num_attention_heads": 2}


def tiny_gpt2():
    no_dropout = dict.fromkeys(("embd_pdrop", "attn_pdrop", "resid_pdrop"), 0.0)
    return GPT2LMHeadModel(GPT2Config(**SIZES, n_positions=64, **no_dropout))


def tiny_ministral():
    """Its queries grow with their position beyond the original length."""
    rope = {"rope_type": "yarn", "rope_theta": 1e4, "factor": 8.0, "original_max_position_embeddings": 8}
    rope |= {"llama_4_scaling_beta": 0.5, "beta_fast": 32.0, "beta_slow": 1.0, "mscale": 1.0, "mscale_all_dim": 1.0}
    config = Ministral3Config(**SIZES, num_key_value_heads=2, head_dim=16, rope_parameters=rope, sliding_window=None)
    return with_sharp_attention(Ministral3ForCausalLM(config))


def tiny_recurrent_gemma():
    """Its recurrence reads what is before the first token."""
    return RecurrentGemmaForCausalLM(RecurrentGemmaConfig(**SIZES, lru_width=32, attention_window_size=64))


def with_sharp_attention(model):
    """Multiply queries and keys, as an untrained model attends to all tokens alike."""
    for name, weight in model.state_dict().items():
        if "q_proj" in name or "k_proj" in name:
            weight.mul_(8)
    return model


@pytest.mark.parametrize("tiny", [tiny_gpt2, tiny_ministral, tiny_recurrent_gemma])
def test_a_model_that_reads_positions_keeps_padding(both, tmp_path, tiny):
    torch.manual_seed(0)
    tiny().save_pretrained(tmp_path)
    prompts = Dataset.from_dict({"prompt": ["1+1=", "7=", "1+2+3+4+5+6+7+8=", "2+2+2+2="] * 4})
    arguments = {"train_dataset": prompts}
    padded, cut = both(model=str(tmp_path), gradient_checkpointing=False, trainer_arguments=arguments)
    assert_same_update(padded, cut)
    assert cut.widths == padded.widths


def with_tools(prompts, trainer):
    """A tool wrote every third token."""
    rollout = write(prompts, trainer)
    return rollout | {"env_mask": [[int(i % 3 != 2) for i in range(len(ids))] for ids in rollout["completion_ids"]]}


def with_cut_off(prompts, trainer):
    return written(prompts, trainer, ends=lambda row: row % 4 != 1)


def tiny_experts():
    sizes = {"num_key_value_heads": 2, "moe_intermediate_size": 32, "num_experts": 4, "num_experts_per_tok": 2}
    return Qwen3MoeForCausalLM(Qwen3MoeConfig(**SIZES, **sizes, head_dim=16, norm_topk_prob=True))


PROMPTS = Dataset.from_dict({"prompt": ["1+1=", "7=", "1+2+3+4+5+6+7+8=", "2+2+2+2="] * 8})


@pytest.mark.parametrize(
    ("rollout", "settings"),
    [
        (with_tools, {"advantage_shaping": "steer"}),
        (with_cut_off, {"mask_truncated_completions": True, "advantage_shaping": "steer", "loss_type": "grpo"}),
        (write, {"gradient_checkpointing": True, "loss_type": "grpo"}),
        (write, {"gradient_checkpointing": True, "trainer_arguments": {"peft_config": LORA}, "learning_rate": 50.0}),
    ],
)
def test_prompts_of_all_lengths_make_the_same_update(both, rollout, settings):
    arguments = settings.pop("trainer_arguments", {}) | {"rollout_func": rollout, "train_dataset": PROMPTS}
    padded, cut = both(**settings, trainer_arguments=arguments)
    assert_same_update(padded, cut)
    assert sum(a * b for a, b in cut.widths) < 0.8 * sum(a * b for a, b in padded.widths)


@pytest.mark.parametrize("router", [0.0, 0.01])
def test_a_mixture_of_experts_makes_the_same_update(both, tmp_path, router):
    """With a router's loss completions keep their order, and the model its mask."""
    torch.manual_seed(0)
    tiny_experts().save_pretrained(tmp_path)
    settings = {"router_aux_loss_coef": router} if router else {}
    padded, cut = both(model=str(tmp_path), gradient_checkpointing=False, **settings)
    assert_same_update(padded, cut)


def test_length_dependent_positions_keep_all_padding(both, tokenizer, caplog):
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
