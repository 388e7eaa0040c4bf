"""The count of generated tokens, and the run that ends by it."""

import pytest
from support.runs import count_reward

from steer_trl import SteerGRPOTrainer
from steer_trl.monitoring import run_files


def totals(trainer):
    return {log["step"]: log["generated_tokens"] for log in trainer.state.log_history if "generated_tokens" in log}


@pytest.mark.parametrize("dynamic_sampling", ["none", "resample"])
def test_generated_tokens_count_completions_without_prompts(train, dynamic_sampling):
    lengths = []  # of every completion that was written, in tokens

    def reward(completion_ids, completions, **_):
        lengths.extend(map(len, completion_ids))
        return count_reward(completions)

    fields = {"advantage_shaping": "none", "dynamic_sampling": dynamic_sampling}
    trainer = train(SteerGRPOTrainer, **fields, trainer_arguments={"reward_funcs": reward})
    found = totals(trainer)
    assert trainer.parts.generated.total == sum(lengths) == found[max(found)]
    assert sorted(found.values()) == list(found.values())
    prompts = [log["num_tokens"] for log in trainer.state.log_history if "num_tokens" in log]
    assert prompts[-1] > found[max(found)]


def test_a_spent_budget_evaluates_and_saves(train, tmp_path):
    """A rollout lasts two steps; the second spends the budget, and both of its steps are trained on."""
    fields = {"advantage_shaping": "none", "steps_per_generation": 4, "max_steps": 40, "save_strategy": "steps"}
    probe = train(SteerGRPOTrainer, **fields | {"max_steps": 4}, output_dir=str(tmp_path / "probe"))
    first, second = totals(probe).values()
    budget = int(first + second) // 2 + 1
    trainer = train(SteerGRPOTrainer, max_generated_tokens=budget, **fields | {"save_steps": 3})
    assert trainer.state.global_step == 4 and totals(trainer) == totals(probe)
    assert (tmp_path / "run/checkpoint-4").is_dir()


def test_a_spent_run_has_nothing_left(make_trainer, tmp_path):
    fields = {"advantage_shaping": "none", "max_steps": 40, "save_strategy": "steps", "save_steps": 1}
    make_trainer(SteerGRPOTrainer, max_generated_tokens=40, **fields).train()
    log = (tmp_path / "run/_logs/metrics.jsonl").read_text()
    again = make_trainer(SteerGRPOTrainer, max_generated_tokens=40, **fields)
    again.train(resume_from_checkpoint=True)
    assert again.parts.was_finished and (tmp_path / "run/_logs/metrics.jsonl").read_text() == log
    further = make_trainer(SteerGRPOTrainer, max_generated_tokens=120, **fields)
    further.train(resume_from_checkpoint=True)
    assert not further.parts.was_finished and further.parts.generated.total >= 120
    entries = run_files.lines(tmp_path / "run/_logs/metrics.jsonl")
    found = [entry["generated_tokens"] for entry in entries if "loss" in entry]
    assert found == sorted(found) and found[-1] == further.parts.generated.total


def test_a_falling_level_follows_the_token_budget(train):
    level = {"hold_entropy": 1.0, "hold_entropy_final": 0.5, "hold_entropy_decay_start": 0.0}
    fields = {"advantage_shaping": "repo_r", "hold_entropy_unit": "nats", "steps_per_generation": 2} | level
    trainer = train(SteerGRPOTrainer, max_generated_tokens=160, max_steps=400, **fields)
    log = [entry for entry in trainer.state.log_history if "hold_entropy/target" in entry]
    found = {entry["generated_tokens"]: entry["hold_entropy/target"] for entry in log}
    assert len(found) > 1
    assert found == pytest.approx({total: 1 - 0.5 * min(total / 160, 1) for total in found})
