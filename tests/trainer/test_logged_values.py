"""Every value of the log and of an evaluation is a finite number, or has a documented reason to be absent."""

import math

import pytest
from support.groups import Given, is_correct, numbered
from support.methods.cases import CASES, threshold
from support.runs import count_reward, has_one

from steer_trl import SteerGRPOTrainer
from steer_trl.shaping import SHAPERS

STARE = {"advantage_shaping": "stare"}
SETTINGS = {
    **{name: {"advantage_shaping": name} | (CASES[name].lively if name in CASES else {}) for name in SHAPERS},
    "none": {"advantage_shaping": "none"},
    "held": {"hold_entropy": 0.65},
    "held in nats": {"hold_entropy": 0.65, "hold_entropy_unit": "nats"},
    "held and resampled": {"hold_entropy": 0.65, "dynamic_sampling": "resample", "max_steps": 4},
    "gate of samples": STARE | {"stare_gate": "sample"},
    "gate of tokens": STARE | {"stare_gate": "token"},
    "no gate": STARE | {"stare_gate": "none"},
    "relative target": STARE | {"stare_target_entropy_unit": "initial", "stare_adaptive": True},
    "without diagnostics": {"diagnostics": False, "advantage_shaping": "none"},
    "micro-batches": STARE | {"shaping_scope": "micro_batch"},
    "no tokens": {"mask_truncated_completions": True, "max_completion_length": 1},
    "a collapsed policy": {"advantage_shaping": "f_grpo", "temperature": 1e-3},
}


@pytest.mark.parametrize("name", SETTINGS)
def test_every_logged_value_is_a_finite_number(train, prompts, name, capsys):
    fields = threshold(SETTINGS[name].get("advantage_shaping"), 0.5) | {"max_steps": 2} | SETTINGS[name]
    is_two_valued = name in CASES and CASES[name].two_valued
    arguments = {"reward_funcs": has_one if is_two_valued else count_reward, "eval_dataset": prompts.select(range(4))}
    if "resample" in SETTINGS[name].values():
        # Every second rollout is made of groups that were left over, so nothing is generated for it.
        arguments |= {"reward_funcs": is_correct, "train_dataset": numbered(40), "rollout_func": Given()}
    trainer = train(SteerGRPOTrainer, trainer_arguments=arguments, **fields)
    metrics = trainer.evaluate()
    trainer.log_metrics("eval", metrics)
    for entry in (metrics, *trainer.state.log_history):
        assert {key: value for key, value in entry.items() if value is None or not math.isfinite(value)} == {}


@pytest.mark.parametrize("name", ["none", "held"])
def test_an_unscored_evaluation_can_be_logged(train, prompts, name, capsys):
    """A reward function may be unable to judge any row of a small evaluation set."""

    def unscored(completions, **_):
        return [None] * len(completions)

    arguments = {"reward_funcs": [count_reward, unscored], "eval_dataset": prompts.select(range(4))}
    trainer = train(SteerGRPOTrainer, trainer_arguments=arguments, **SETTINGS[name] | {"max_steps": 1})
    metrics = trainer.evaluate()
    trainer.log_metrics("eval", metrics)
    assert math.isfinite(metrics["eval_rewards/count_reward/mean"])
    assert not any("unscored" in key for key in metrics)
    assert trainer.state.log_history[-1]["eval_rewards/unscored/mean"] is None
