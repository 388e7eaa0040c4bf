"""Every switch of TRL acts on the shaped loss as it acts on its own.

The oracle is TRL itself: a GRPOTrainer that runs one more forward pass before the loss, weights the advantages by the
pure functions, and hands TRL's untouched `compute_loss` a batch with per-token advantages. It shares no line with our
trainer's hook, and it must agree bit for bit under every switch.
"""

import pytest
import torch
from peft import LoraConfig
from support.digits import cut_off, given
from support.runs import OPEN_STARE, count_reward, same_parameters
from trl import GRPOTrainer

from steer_trl import SteerGRPOTrainer
from steer_trl.functional import entropy_change, stare_weights, steer_weights

CLIPPED = {"grpo", "bnpo", "dr_grpo", "dapo", "luspo"}
SCOPE = {"shaping_scope": "micro_batch"}  # the oracle sees one, so ours may not see more
METHODS = {
    "steer": SCOPE | {"advantage_shaping": "steer", "steer_lambda_min": 0.3},
    "stare": SCOPE | OPEN_STARE | {"stare_variant": "C2", "stare_amplify": 2.0},
}
OFF_POLICY = {"steps_per_generation": 4, "learning_rate": 3e-2}
SWITCHES = {
    **{f"loss_type={name}": {"loss_type": name} for name in ("grpo", "bnpo", "dr_grpo", "cispo", "sapo", "vespo")},
    "luspo": {"loss_type": "luspo", "importance_sampling_level": "sequence"},
    "clip range": {"epsilon": 0.02, "epsilon_high": 0.05},
    "delta": {"epsilon": 0.02, "delta": 1.03},
    "sequence ratios": {"importance_sampling_level": "sequence", "epsilon": 0.01},
    "beta": {"beta": 0.5},
    "entropy_coef": {"entropy_coef": 0.1},
    "adaptive entropy": {"use_adaptive_entropy": True, "entropy_target": 10.0},
    "top_entropy_quantile": {"top_entropy_quantile": 0.3},
    "off_policy_mask_threshold": {"off_policy_mask_threshold": 1e-4},
    "mask_truncated_completions": {"mask_truncated_completions": True, "max_completion_length": 12},
    "scale_rewards": {"scale_rewards": "none"},
    "num_iterations": {"num_iterations": 2},
}


def oracle(method, settings):
    """TRL's trainer with the weights computed by a second forward pass."""

    class Oracle(GRPOTrainer):
        def compute_loss(self, model, inputs, **kwargs):
            ids = torch.cat([inputs["prompt_ids"], inputs["completion_ids"]], dim=1)
            attention = torch.cat([inputs["prompt_mask"], inputs["completion_mask"]], dim=1)
            with torch.no_grad():
                logps, entropies, _ = self._get_per_token_logps_and_entropies(
                    model, ids, attention, inputs["completion_ids"].size(1), compute_entropy=True
                )
            mask = inputs["completion_mask"] * inputs.get("tool_mask", 1)
            old_logps, log_ratio = inputs.get("old_per_token_logps", logps), None
            if method == "steer":
                if self.importance_sampling_level == "sequence":
                    lengths = mask.sum(1, keepdim=True).clamp(min=1)
                    log_ratio = ((logps - old_logps) * mask).sum(1, keepdim=True) / lengths
                bounds = {"epsilon_low": torch.inf, "epsilon_high": torch.inf}
                if self.loss_type in CLIPPED:
                    bounds = {"epsilon_low": self.epsilon_low, "epsilon_high": self.epsilon_high}
                numbers = logps, old_logps, entropies, inputs["advantages"]
                omega = entropy_change(*numbers, log_ratio=log_ratio, **bounds)
                weights = steer_weights(omega, mask, lambda_min=0.3)
            else:
                weights = stare_weights(logps, inputs["advantages"], mask, variant="C2", amplify=2.0)
            shaped = inputs["advantages"].unsqueeze(1) * weights
            return super().compute_loss(model, {**inputs, "advantages": shaped}, **kwargs)

    return Oracle


TRAINED = {}
"""Runs that several tests hold theirs against, by class and settings; the first that asks makes one."""


def once(train, kind, **settings):
    key = kind, repr(sorted(settings.items()))
    if key not in TRAINED:
        TRAINED[key] = train(kind, **settings)
    return TRAINED[key]


@pytest.mark.parametrize("switch", SWITCHES)
@pytest.mark.parametrize("method", METHODS)
def test_the_switch_acts_on_the_shaped_loss(train, method, switch):
    settings = OFF_POLICY | SWITCHES[switch]
    if switch == "num_iterations":
        settings.pop("steps_per_generation")
    ours = train(SteerGRPOTrainer, **settings, **METHODS[method])
    assert same_parameters(ours, train(oracle(method, settings), **settings))
    # Both differences must be there, or the equality above says nothing about them.
    assert not same_parameters(ours, once(train, GRPOTrainer, **settings)), "the method did nothing"
    without = once(train, SteerGRPOTrainer, **OFF_POLICY, **METHODS[method])
    assert not same_parameters(ours, without), "the switch did nothing"


def rollout_with_tool_tokens(prompts, trainer):
    """Fixed completions of eight tokens; the model wrote the first three and the last, a tool the rest."""
    generator = torch.Generator().manual_seed(trainer.state.global_step)
    ids = torch.randint(4, 14, (len(prompts), 8), generator=generator).tolist()
    return given(prompts, trainer, ids, [[1, 1, 1, 0, 0, 0, 0, 1]] * len(prompts))


def lora():
    return {"peft_config": LoraConfig(r=4, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM")}


def tools():
    return {"rollout_func": rollout_with_tool_tokens, "reward_funcs": count_reward}


@pytest.mark.parametrize("arguments", [lora, tools])
@pytest.mark.parametrize("method", METHODS)
def test_adapters_train_and_tool_tokens_are_skipped(train, method, arguments):
    settings = OFF_POLICY | {"beta": 0.1}  # with LoRA the reference is the model without its adapter
    ours = train(SteerGRPOTrainer, **settings, **METHODS[method], trainer_arguments=arguments())
    trained = [name for name, parameter in ours.model.named_parameters() if parameter.requires_grad]
    assert trained and all("lora" in name for name in trained) == (arguments is lora)
    assert same_parameters(ours, train(oracle(method, settings), **settings, trainer_arguments=arguments()))
    assert not same_parameters(ours, train(GRPOTrainer, **settings, trainer_arguments=arguments()))


def test_a_fully_masked_batch_has_a_backward(train):
    settings = {"mask_truncated_completions": True, "advantage_shaping": ["steer", "stare"]}
    trainer = train(SteerGRPOTrainer, trainer_arguments={"rollout_func": cut_off}, **settings)
    assert trainer.state.global_step == 4
    assert all(torch.isfinite(parameter).all() for parameter in trainer.model.parameters())
    assert "shaping/weight_mean" not in trainer.state.log_history[0]  # there was no token to measure
