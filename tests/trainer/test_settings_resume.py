"""A killed run continues as though nothing had happened, whatever is set: each field of TRL's configuration is tried.

A run of six steps is resumed from a checkpoint in its middle, in the middle of a rollout, with the most that moves:
an entropy that is held, other prompts' groups, no padding. `SWEEP=full` tries every method, and TRL's own trainer
beside `advantage_shaping="none"`, which must equal it.
"""

import os
import signal
from dataclasses import fields
from pathlib import Path

import pytest
import torch
from support.runs import same_parameters, sums
from transformers import TrainerCallback
from transformers.trainer_jit_checkpoint import JITCheckpointCallback
from transformers.trainer_utils import sort_checkpoints
from trl import GRPOConfig, GRPOTrainer

from steer_trl import SteerGRPOTrainer

RUN = {"max_steps": 6, "save_strategy": "steps", "save_steps": 3, "gradient_accumulation_steps": 2}
RUN |= {"steps_per_generation": 4, "num_generations": 4, "max_completion_length": 8, "learning_rate": 1e-2}
HELD = {"hold_entropy": 4.0, "hold_entropy_unit": "nats", "dynamic_sampling": "resample", "skip_padding": True}
METHODS = {"held": HELD, "steer": {"advantage_shaping": "steer"}, "none": {"advantage_shaping": "none"}}
EVALUATED = {"eval_strategy": "steps", "eval_steps": 2, "per_device_eval_batch_size": 8}
FULL = os.environ.get("SWEEP") == "full"

SETTINGS = [
    {"shuffle_dataset": False},
    {"data_seed": 5, "seed": 3},
    {"dataloader_num_workers": 2, "dataloader_in_order": True, "dataloader_pin_memory": False},
    {"dataloader_num_workers": 1, "dataloader_persistent_workers": True, "dataloader_prefetch_factor": 2}
    | {"dataloader_multiprocessing_context": "fork"},
    {"dataloader_drop_last": True},
    {"num_iterations": 3},
    {"steps_per_generation": 1, "gradient_accumulation_steps": 1},
    {"steps_per_generation": 8},
    {"steps_per_generation": None, "generation_batch_size": 16},
    {"num_generations": 2, "per_device_train_batch_size": 6},
    {"max_completion_length": 5, "pad_to_multiple_of": 8},
    {"accelerator_config": {"split_batches": True}},
    {"accelerator_config": {"use_seedable_sampler": False}},
    {"accelerator_config": {"even_batches": False}},
    {"max_steps": -1, "num_train_epochs": 2, "save_steps": 0.3},
    {"max_steps": -1, "num_train_epochs": 3, "save_strategy": "epoch"},
    {"save_total_limit": 2, "save_steps": 1, "save_on_each_node": True},
    {"restore_callback_states_from_checkpoint": True},
    EVALUATED | {"eval_on_start": True, "num_generations_eval": 2, "eval_delay": 1, "eval_accumulation_steps": 1},
    EVALUATED
    | {"load_best_model_at_end": True, "metric_for_best_model": "eval_reward", "greater_is_better": True}
    | {"save_steps": 2},
    {"lr_scheduler_type": "cosine_with_restarts", "lr_scheduler_kwargs": {"num_cycles": 2}, "warmup_steps": 2},
    {"optim": "adafactor"},
    {"optim": "sgd", "optim_args": "momentum=0.9"},
    {"adam_beta1": 0.5, "adam_beta2": 0.9, "adam_epsilon": 1e-6, "weight_decay": 0.1},
    {"max_grad_norm": 0.1, "average_tokens_across_devices": False},
    {"gradient_checkpointing": True, "gradient_checkpointing_kwargs": {"use_reentrant": False}},
    # Newer names of these two fields; old versions of Transformers lack them. TRL passes `every_n_layers` to torch,
    # which refuses it.
    {"activation_checkpointing": True, "activation_checkpointing_kwargs": {"use_reentrant": False}},
    {"neftune_noise_alpha": 5.0},
    {"torch_empty_cache_steps": 1},
    {"logging_strategy": "epoch"},
    {"logging_steps": 0.5, "logging_first_step": True, "logging_nan_inf_filter": False},
    {"include_num_input_tokens_seen": "all"},
    {"skip_memory_metrics": False},
    {"disable_dropout": True, "cast_lm_head_to_fp32": True},
    {"temperature": 0.7, "top_k": 5, "min_p": 0.01, "repetition_penalty": 1.2},
    {"top_p": 0.9},
    {"generation_kwargs": {"eos_token_id": 5}},
    {"cache_implementation": "static"},
    {"use_cache": True},
    {"beta": 0.1, "use_bias_correction_kl": False},
    {"epsilon": 0.1, "epsilon_high": 0.3, "delta": 2.0},
    {"importance_sampling_level": "sequence"},
    {"off_policy_mask_threshold": 0.5},
    {"scale_rewards": "batch"},
    {"scale_rewards": "none", "reward_weights": [2.0]},
    {"multi_objective_aggregation": "normalize_then_sum"},
    {"mask_truncated_completions": True},
    {"top_entropy_quantile": 0.5},
    {"entropy_coef": 0.01},
    {"use_adaptive_entropy": True, "entropy_target": 1.0, "entropy_coef_min": 0.0, "entropy_coef_max": 0.1}
    | {"entropy_coef_delta": 0.01},
    {"log_completions": True, "log_unique_prompts": True, "num_completions_to_print": 1},
    {"chat_template_kwargs": {"a": 1}, "max_tool_calling_iterations": 2, "remove_unused_columns": False},
    {"loss_type": "bnpo"},
    {"loss_type": "dr_grpo"},
    {"loss_type": "grpo"},
    {"loss_type": "luspo"},
    {"loss_type": "cispo", "epsilon_high": 5.0},
    {"loss_type": "sapo", "sapo_temperature_neg": 1.2, "sapo_temperature_pos": 0.9},
    {"loss_type": "vespo", "vespo_k_pos": 1.0, "vespo_lambda_pos": 2.0, "vespo_k_neg": 2.0, "vespo_lambda_neg": 1.0},
]
"""Values that are not the default, of fields that do not disturb each other together."""
FIELDS = {field.name for field in fields(GRPOConfig)}
TRIED = [settings for settings in SETTINGS if settings.keys() <= FIELDS]

LEFT_OUT = {
    "every run has it": "output_dir learning_rate use_cpu bf16 disable_tqdm report_to",
    "names a place, a tracker, a text or a way to start; no number depends on it": "run_name project trackio_space_id "
    "trackio_bucket_id trackio_static_space_id log_level log_level_replica log_on_each_node hub_token hub_model_id "
    "hub_private_repo hub_strategy hub_always_push hub_revision push_to_hub log_completions_hub_repo log_multimodal "
    "do_train do_eval do_predict resume_from_checkpoint debug trust_remote_code model_init_kwargs",
    "needs a GPU, or makes compilers": "fp16 tf32 bf16_full_eval fp16_full_eval torch_compile torch_compile_backend "
    "torch_compile_mode use_liger_kernel liger_kernel_config use_transformers_continuous_batching "
    "transformers_continuous_batching_config use_transformers_paged",
    "needs vLLM": " ".join(field.name for field in fields(GRPOConfig) if "vllm" in field.name),
    "needs several processes (tests/distributed)": "ddp_find_unused_parameters ddp_bucket_cap_mb ddp_static_graph "
    "ddp_broadcast_buffers ddp_backend ddp_timeout fsdp fsdp_config deepspeed parallelism_config local_rank "
    "ds3_gather_for_generation",
    "is of evaluation or labels, which GRPO does not use": "label_smoothing_factor prediction_loss_only label_names "
    "eval_do_concat_batches eval_use_gather_object include_for_metrics batch_eval_metrics",
    "is read by a sampler that TRL replaces": "train_sampling_strategy length_column_name",
    "needs a model of experts, or layers of its own": "router_aux_loss_coef optim_target_modules",
    "stops or changes this process for good": "full_determinism",
    "has a test of its own": "enable_jit_checkpoint",
    "asks for another run: without optimizer, data in other places, another batch size": "save_only_model "
    "ignore_data_skip auto_find_batch_size",
    "TRL saves no reference model, so that no trainer can resume it": "sync_ref_model ref_model_mixup_alpha "
    "ref_model_sync_steps",
}


def test_every_trl_field_is_tried_or_excluded():
    tried = {name for settings in TRIED for name in settings}
    left_out = {name for names in LEFT_OUT.values() for name in names.split()}
    assert FIELDS - tried - left_out == set(), "new fields of TRL"
    assert left_out <= FIELDS and not tried & left_out


@pytest.fixture
def trained(make_trainer, tmp_path):
    """Train a run to its end, or from a checkpoint; two that share a folder are one run."""

    def run(trainer_class=SteerGRPOTrainer, checkpoint=None, folder="run", **settings):
        arguments = {"eval_dataset": sums().select(range(8))} if "eval_strategy" in settings else {}
        settings = RUN | {"output_dir": str(tmp_path / folder)} | settings
        trainer = make_trainer(trainer_class, trainer_arguments=arguments, **settings)
        trainer.train(resume_from_checkpoint=checkpoint)
        return trainer

    return run


class Signal(TrainerCallback):
    """Asks for a checkpoint within the third step, as Transformers does some seconds after a signal."""

    def __init__(self, trainer):
        self.trainer = trainer

    def on_substep_end(self, args, state, control, **_):
        if state.global_step == 2:
            (callback,) = [
                one for one in self.trainer.callback_handler.callbacks if isinstance(one, JITCheckpointCallback)
            ]
            callback.jit_manager.is_checkpoint_requested = True


@pytest.mark.filterwarnings("ignore")
def test_a_checkpoint_at_a_signal_is_of_the_end_of_its_step(trained, make_trainer, tmp_path):
    settings = RUN | METHODS["held"] | {"steps_per_generation": 8}
    whole = trained(folder="whole", **settings)
    handler = signal.getsignal(signal.SIGTERM)
    try:
        killed = make_trainer(
            SteerGRPOTrainer,
            output_dir=str(tmp_path / "run"),
            **settings | {"enable_jit_checkpoint": True, "save_strategy": "no"},
        )
        killed.add_callback(Signal(killed))
        killed.train()
    finally:
        signal.signal(signal.SIGTERM, handler)
    (checkpoint,) = (tmp_path / "run").glob("checkpoint-*")
    assert checkpoint.name == "checkpoint-3"
    assert same_parameters(whole, trained(checkpoint=str(checkpoint), **settings))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("method", METHODS if FULL else ["held"])
@pytest.mark.parametrize("settings", TRIED, ids=lambda settings: " ".join(f"{k}={v}" for k, v in settings.items()))
def test_a_resumed_run_equals_the_whole_one(trained, settings, method):
    whole = trained(**METHODS[method] | settings)
    saved = sort_checkpoints(whole.args.output_dir)
    middle = [path for path in saved if int(Path(path).name.split("-")[1]) < whole.state.global_step][-1]
    resumed = trained(checkpoint=middle, **METHODS[method] | settings)
    assert same_parameters(whole, resumed)
    if method == "none":
        assert same_parameters(whole, trained(GRPOTrainer, folder="trl", **settings))
    assert all(torch.isfinite(parameter).all() for parameter in whole.model.parameters())
