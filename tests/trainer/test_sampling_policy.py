"""A run reports in its first rollout that the policy that samples is not the one that is scored."""

import copy
import json

import pytest
import torch
from support.runs import CHARACTERS, has_one
from transformers import GenerationConfig
from trl import GRPOTrainer

from steer_trl import AlarmsCallback, SteerGRPOTrainer
from steer_trl.demo.tiny import tiny_qwen2, tiny_tokenizer

# One rollout of 128 completions, before any update.
SIZES = {"per_device_train_batch_size": 128, "gradient_accumulation_steps": 1, "num_generations": 8}
SIZES |= {"learning_rate": 0.0, "max_steps": 1, "max_completion_length": 10}
SHARP = 12.0


@pytest.fixture
def run(train, tmp_path):
    def train_on(*, of_model=None, sampler=None, **fields):
        """Train once. `sampler` replaces the model that samples, and `of_model` is the model's generation config."""
        model = tiny_qwen2(tiny_tokenizer(CHARACTERS), 0)
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.dim() > 1:
                    parameter.mul_(SHARP)
        model.generation_config = GenerationConfig(**model.generation_config.to_diff_dict() | (of_model or {}))

        class Drifting(SteerGRPOTrainer):
            def _generate_single_turn(self, prompt_ids, *args, **kwargs):
                return sampler(self, super()._generate_single_turn, prompt_ids, *args, **kwargs)

        cls = SteerGRPOTrainer if sampler is None else Drifting
        arguments = {"reward_funcs": has_one}
        trainer = train(cls, model=model, trainer_arguments=arguments, **SIZES | fields)
        path = tmp_path / "run" / "_logs" / "alarms.jsonl"
        alarms = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
        return trainer, [alarm for alarm in alarms if alarm["alarm"] == "sampled_otherwise"]

    return train_on


def other_template(trainer, generate, prompt_ids, *args, **kwargs):
    """Sample after a prompt that begins with twenty tokens more than the one that is scored."""
    return generate([[5] * 20 + list(ids) for ids in prompt_ids], *args, **kwargs)


def drifted_engine(trainer, generate, *args, **kwargs):
    """Sample from a model whose weights have drifted."""
    weights = copy.deepcopy(trainer.model.state_dict())
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in trainer.model.parameters():
            parameter.add_(0.5 * parameter.std() * torch.randn(parameter.shape, generator=generator))
    try:
        return generate(*args, **kwargs)
    finally:
        trainer.model.load_state_dict(weights)


WAYS = {
    "temperature": {"generation_kwargs": {"temperature": 0.1}},
    "min_p": {"of_model": {"min_p": 0.5}},
    "repetition_penalty": {"repetition_penalty": 3.0},
    "template": {"sampler": other_template},
    "engine": {"sampler": drifted_engine},
}


@pytest.mark.parametrize("word", WAYS)
def test_each_way_is_named_in_the_first_rollout(run, caplog, word):
    trainer, alarms = run(**WAYS[word])
    assert word in caplog.text
    # A policy this sharp seldom repeats a token, so a penalty for it is named by the note at construction only.
    if word != "repetition_penalty":
        # The alarm is raised before the first update, and does not wait for the log.
        assert [alarm["step"] for alarm in alarms] == [0]
        line = trainer.state.log_history[0]
        assert abs(line["sampled_as_scored"]) > 5 * line["sampled_as_scored/error"]


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"advantage_shaping": "none"},
        {"hold_entropy": 0.65, "temperature": 0.7},
        {"dynamic_sampling": "resample"},
        {"dynamic_sampling": "resample", "hold_entropy": 0.65, "dynamic_sampling_max_attempts": 3},
        {"mask_truncated_completions": True},
        {"per_device_train_batch_size": 16, "gradient_accumulation_steps": 4, "steps_per_generation": 8},
    ],
    ids=str,
)
@pytest.mark.parametrize("seed", [0, 1])
def test_a_sound_run_raises_no_alarm(run, fields, seed):
    trainer, alarms = run(seed=seed, **fields)
    assert alarms == []
    assert "sampled_as_scored" in trainer.state.log_history[0]


def test_truncation_that_the_user_has_set_raises_no_alarm(run, caplog):
    trainer, alarms = run(top_k=2)
    assert alarms == [] and "top_k=2" in caplog.text
    assert trainer.state.log_history[0]["sampled_as_scored"] < -0.1


def test_the_random_state_is_not_touched(run, monkeypatch):
    """A run that measures ends with the weights of one that does not."""
    fields = {"learning_rate": 1e-3, "max_steps": 2, "advantage_shaping": "none", "per_device_train_batch_size": 16}
    measured, _ = run(**fields)
    monkeypatch.setattr("steer_trl.trainer.checks.sampled.SampledAsScored.measure", lambda *_: None)
    plain, _ = run(**fields)
    assert "sampled_as_scored" not in plain.state.log_history[0]
    assert all(torch.equal(a, b) for a, b in zip(measured.model.parameters(), plain.model.parameters(), strict=True))


@pytest.mark.parametrize("word", [None, "temperature", "min_p"])
@pytest.mark.parametrize("steps_per_generation", [1, 4])
def test_another_trainer_is_checked_too(train, tmp_path, word, steps_per_generation):
    """A callback sees what the model returns in the first step."""
    model = tiny_qwen2(tiny_tokenizer(CHARACTERS), 0)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.mul_(SHARP)
    fields = dict(WAYS[word]) if word else {}
    model.generation_config = GenerationConfig(**model.generation_config.to_diff_dict() | fields.pop("of_model", {}))
    size = 128 // steps_per_generation
    fields |= SIZES | {"steps_per_generation": steps_per_generation, "per_device_train_batch_size": size}
    trainer = train(
        GRPOTrainer,
        model=model,
        trainer_arguments={"reward_funcs": has_one, "callbacks": [AlarmsCallback()]},
        **fields,
    )
    line = json.loads((tmp_path / "run" / "_logs" / "metrics.jsonl").read_text().splitlines()[0])
    path = tmp_path / "run" / "_logs" / "alarms.jsonl"
    alarms = [json.loads(entry)["alarm"] for entry in path.read_text().splitlines()] if path.exists() else []
    assert ("sampled_otherwise" in alarms) == (word is not None)
    assert line["sampled_as_scored/error"] > 0
    assert not trainer.model._forward_hooks
