"""The run log of real runs: every entry, nothing from a run that was cut off, no secret, and nothing pushed."""

import json
from pathlib import Path

import pytest
from support.runs import ON_CPU, OPEN_STARE
from transformers import TrainerCallback

from steer_trl import SteerGRPOConfig, SteerGRPOTrainer
from steer_trl.monitoring import run_files


def entries(trainer):
    return list(run_files.lines(Path(trainer.args.output_dir, "_logs/metrics.jsonl")))


def test_the_log_is_that_of_the_trainer(train):
    trainer = train(SteerGRPOTrainer, **OPEN_STARE, learning_rate=0.013, hub_token="hf_secret", run_name="tiny")
    without_time = [{name: value for name, value in entry.items() if name != "time"} for entry in entries(trainer)]
    assert without_time == [run_files.as_json(entry) for entry in trainer.state.log_history]
    assert len(without_time) == 5 and "rollout_entropy" in without_time[0]
    text = Path(trainer.args.output_dir, "_logs/run.json").read_text()
    run = json.loads(text)
    assert run["methods"] == ["stare"] and run["max_steps"] == 4 and run["processes"] == 1
    assert run["settings"]["learning_rate"] == 0.013 and run["settings"]["stare_target_entropy"] == 100.0
    assert run["defaults"]["learning_rate"] == 1e-6 and run["defaults"]["hold_entropy"] is None
    assert run["versions"]["trl"].startswith("1.16") and "hf_secret" not in text


def test_a_resumed_run_and_evaluations(make_trainer, prompts):
    settings = {"save_strategy": "steps", "save_steps": 2, "advantage_shaping": "none", "eval_strategy": "steps"}
    settings |= {"eval_steps": 2, "max_completion_length": 4}
    data = {"eval_dataset": prompts.select(range(2))}
    first = make_trainer(SteerGRPOTrainer, **settings, trainer_arguments=data)
    first.evaluate()
    assert not Path(first.args.output_dir, "_logs").exists()  # it may hold the log of another run
    first.train()
    steps = [entry["step"] for entry in entries(first)]
    assert steps == [0, 1, 2, 2, 3, 4, 4, 4] and "eval_reward" in entries(first)[0]
    again = make_trainer(SteerGRPOTrainer, **settings, trainer_arguments=data)
    again.train(resume_from_checkpoint=f"{first.args.output_dir}/checkpoint-2")
    assert [entry["step"] for entry in entries(again)] == steps
    assert run_files.read_description(Path(first.args.output_dir, "_logs"))["resumed"][0]["step"] == 2
    again.evaluate()
    assert [entry["step"] for entry in entries(again)] == [*steps, 4]


def test_run_log_off_writes_nothing_and_refuses_log_tokens(train, tmp_path):
    trainer = train(SteerGRPOTrainer, run_log=False, max_steps=1)
    assert not Path(trainer.args.output_dir, "_logs").exists()
    with pytest.raises(ValueError, match="log_tokens=5 cannot be combined with run_log=False"):
        SteerGRPOConfig(str(tmp_path), run_log=False, log_tokens=5, **ON_CPU)
    with pytest.raises(ValueError, match=r"log_tokens must be a whole number in \[0, inf\), got 0\.5"):
        SteerGRPOConfig(str(tmp_path), log_tokens=0.5, **ON_CPU)


@pytest.mark.parametrize("before", ['{"resumed": 5, "started": "soon"}', "null"])
def test_garbage_in_run_json_stops_nothing(make_trainer, before):
    first = make_trainer(SteerGRPOTrainer, max_steps=1, save_strategy="steps", save_steps=1)
    first.train()
    path = Path(first.args.output_dir, "_logs/run.json")
    path.write_text(before)
    again = make_trainer(SteerGRPOTrainer, max_steps=2)
    again.train(resume_from_checkpoint=f"{first.args.output_dir}/checkpoint-1")
    assert again.state.global_step == 2
    assert [one["step"] for one in json.loads(path.read_text())["resumed"]] == [1]


def test_a_failing_run_log_stops_nothing(make_trainer, caplog):
    class Unwritable:
        def __str__(self):
            raise TypeError("no text")

    class Odd(TrainerCallback):
        def on_log(self, args, state, control, logs=None, **_):
            logs["odd"] = Unwritable()

    trainer = make_trainer(SteerGRPOTrainer, max_steps=2)
    trainer.callback_handler.callbacks.insert(0, Odd())
    trainer.train()
    assert trainer.state.global_step == 2
    assert caplog.text.count(f"The run log in {trainer.args.output_dir} cannot be written; the training") == 1
