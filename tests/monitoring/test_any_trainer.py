"""`AlarmsCallback` on trainers of TRL: each death of a run provoked gives its sentence once, a healthy run none."""

import json
import logging
import math
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
import torch
from datasets import Dataset
from support import ENVIRONMENT
from support.digits import cut_off, mostly_cut_off, nothing, ones, written
from support.runs import ON_CPU, QUIET, TINY_RUN, has_one, sums
from transformers import PrinterCallback
from trl import GRPOConfig, GRPOTrainer, RLOOConfig, RLOOTrainer, SFTConfig, SFTTrainer

from steer_trl import AlarmsCallback, SteerGRPOConfig, SteerGRPOTrainer
from steer_trl.cli.main import main
from steer_trl.demo.tiny import tiny_qwen2
from steer_trl.monitoring import run_files
from steer_trl.monitoring.learning_rules import LEARNING_RULES
from steer_trl.rewards import MathReward

SIZES = {"per_device_train_batch_size": 8, "gradient_accumulation_steps": 1, "learning_rate": 1e-4}


def only_in_the_first_step(completion_ids, trainer_state, **_):
    return ones(completion_ids) if trainer_state.global_step == 0 else [1.0] * len(completion_ids)


def by_prompt(prompts, **_):
    solved = {prompt: place % 2 for place, prompt in enumerate(dict.fromkeys(prompts))}
    return [float(solved[prompt]) for prompt in prompts]


def one_group_differs(completion_ids, **_):
    """Of twelve groups of two."""
    return [0.5, 1.0, *[float(row // 2 % 2) for row in range(2, len(completion_ids))]]


def without_gradient(model):
    for weight in model.parameters():
        weight.register_hook(torch.zeros_like)


def certain(model):
    model.model.norm.weight.data *= 1000


RUNS = {
    "healthy": {"max_steps": 24},
    "healthy though the first step has no token": {
        "rollout": lambda prompts, trainer: (written if trainer.state.global_step else cut_off)(prompts, trainer),
        "mask_truncated_completions": True,
    },
    "unscored": {"reward": lambda completion_ids, **_: [None] * len(completion_ids)},
    "infinite_reward": {"reward": lambda completion_ids, **_: [0.5, math.inf] * (len(completion_ids) // 2)},
    "infinite_reward though every reward is finite": {
        "reward": lambda completion_ids, **_: [0.5, 1e30] * (len(completion_ids) // 2)
    },
    "unreadable": {"reward": "math", "num_generations": 4},
    "never_ends": {"rollout": cut_off, "max_steps": 8},
    "never_ends with every reward alike": {"rollout": cut_off, "reward": nothing, "max_steps": 24},
    "truncation": {"rollout": mostly_cut_off},
    "one_reward": {"reward": nothing, "max_steps": 17},
    "one_reward from the second step on": {"reward": only_in_the_first_step, "max_steps": 18},
    "no_advantage": {"reward": by_prompt},
    "dead_groups": {"reward": one_group_differs, "num_generations": 2, "per_device_train_batch_size": 24},
    "no_gradient": {"model": without_gradient},
    # Whether the policy has sampled the completions, which are written by hand, is not measured with this setting.
    "no_entropy": {"model": certain, "max_steps": 2, "mask_truncated_completions": True},
}


@pytest.fixture
def watched(make_trainer, tokenizer):
    def make(name, **others):
        settings = SIZES | {"max_steps": 13, "lr_scheduler_type": "constant"} | RUNS[name] | others
        reward = settings.pop("reward", ones)
        prepare = settings.pop("model", lambda model: None)
        arguments = {"rollout_func": settings.pop("rollout", written), "callbacks": [AlarmsCallback()]}
        arguments["reward_funcs"] = MathReward(num_workers=1) if reward == "math" else reward
        if reward == "math":
            arguments["train_dataset"] = sums().map(lambda row: {"solution": "1"})
        model = tiny_qwen2(tokenizer)
        prepare(model)
        return make_trainer(model=model, trainer_arguments=arguments, **settings)

    return make


def said(folder):
    return list(run_files.lines(Path(folder, run_files.LOGS, run_files.ALARMS)))


def logged(folder):
    return list(run_files.lines(folder / run_files.LOGS / run_files.METRICS))


@pytest.mark.parametrize("name", RUNS)
def test_a_death_is_explained_once(watched, caplog, name):
    trainer = watched(name)
    with caplog.at_level(logging.WARNING, "steer_trl.monitoring"):
        trainer.train()
    alarms = said(trainer.args.output_dir)
    assert [alarm["alarm"] for alarm in alarms] == [word for word in name.split()[:1] if word != "healthy"]
    heard = [record.getMessage() for record in caplog.records if record.name.startswith("steer_trl.monitoring")]
    line = "\nALARM {alarm}, step {step}: {title}. {text}"  # on a line of its own, below a progress bar
    assert heard == [line.format(**alarm) for alarm in alarms]
    assert trainer.state.global_step == trainer.args.max_steps


def test_every_alarm_of_learning_is_provoked():
    # Completions that another policy wrote are in `tests/trainer/test_alarms.py`.
    names = {rule.name for rule in LEARNING_RULES} - {"sampled_otherwise"}
    assert names == {name.split()[0] for name in RUNS} - {"healthy"}


def test_the_callback_leaves_the_training_unchanged(make_trainer):
    def trained(**arguments):
        trainer = make_trainer(trainer_arguments=arguments, max_steps=3)
        trainer.train()
        return list(trainer.model.parameters())

    with_it, without = trained(callbacks=[AlarmsCallback()]), trained()
    assert all(torch.equal(one, other) for one, other in zip(with_it, without, strict=True))


def test_the_report_reads_the_folder(watched, tmp_path, capsys):
    trainer = watched("one_reward", hub_token="hf_secret")
    trainer.train()
    ours = {"time", "sampled_as_scored", "sampled_as_scored/error"}
    without_time = [
        {key: value for key, value in line.items() if key not in ours} for line in logged(tmp_path / "run")
    ]
    assert without_time == [run_files.as_json(entry) for entry in trainer.state.log_history]
    text = (tmp_path / "run" / run_files.LOGS / run_files.RUN).read_text()
    run = json.loads(text)
    assert run["methods"] == [] and run["max_steps"] == 17 and run["settings"]["learning_rate"] == 1e-4
    assert run["versions"]["trl"] and "hf_secret" not in text
    main(["report", str(tmp_path / "run"), "-o", str(tmp_path / "report.html")])
    assert "All completions have the same reward" in (tmp_path / "report.html").read_text()


def test_only_the_first_of_two_callbacks_writes_and_warns(make_trainer, tokenizer, caplog, tmp_path):
    callbacks = {"callbacks": [AlarmsCallback(), AlarmsCallback()], "rollout_func": written, "reward_funcs": nothing}
    trainer = make_trainer(trainer_arguments=callbacks, **SIZES, max_steps=17)
    trainer.train()
    trainer.log({"eval_reward": 0.5})
    lines = logged(tmp_path / "run")
    assert [line["step"] for line in lines] == [*range(1, 18), 17, 17] and "eval_reward" in lines[-1]
    assert len(said(tmp_path / "run")) == caplog.text.count("All completions have the same reward.") == 1


def test_a_reused_one_keeps_an_early_evaluation(make_trainer, tmp_path):
    callback = AlarmsCallback()
    for folder in ("first", "second"):
        arguments = {"callbacks": [callback], "rollout_func": written, "reward_funcs": ones}
        settings = SIZES | {"max_steps": 1, "output_dir": str(tmp_path / folder)}
        trainer = make_trainer(trainer_arguments=arguments, **settings)
        trainer.log({"eval_reward": 0.5})
        trainer.train()
        trainer.log({"eval_reward": 0.75})
    for folder in ("first", "second"):
        assert [line.get("eval_reward") for line in logged(tmp_path / folder)] == [0.5, None, None, 0.75]


def test_a_resumed_run_remembers_what_its_log_says(watched, tmp_path):
    watched("one_reward", save_strategy="steps", save_steps=8, max_steps=8).train()
    assert said(tmp_path / "run") == []
    watched("one_reward").train(resume_from_checkpoint=str(tmp_path / "run/checkpoint-8"))
    assert [(alarm["step"], alarm["alarm"]) for alarm in said(tmp_path / "run")] == [(16, "one_reward")]
    # Each part ends with a summary.
    assert [line["step"] for line in logged(tmp_path / "run")] == [*range(1, 9), 8, *range(9, 18), 17]


def test_the_alarms_work_with_rloo(tmp_path, model_dir, tokenizer):
    def run(folder, reward):
        args = RLOOConfig(**TINY_RUN | SIZES | {"output_dir": str(tmp_path / folder), "max_steps": 17})
        rest = {"train_dataset": sums(), "processing_class": tokenizer, "callbacks": [AlarmsCallback()]}
        trainer = RLOOTrainer(model=model_dir, reward_funcs=reward, args=args, **rest)
        trainer.remove_callback(PrinterCallback)
        trainer.train()
        return {alarm["alarm"] for alarm in said(tmp_path / folder)} - {"truncation", "never_ends"}

    assert run("well", ones) == set() and run("dead", partial(nothing)) == {"one_reward"}


def test_supervised_learning_is_not_taken_for_sampling(tmp_path, model_dir, tokenizer, caplog):
    """Its tokens are of a data set, and generation settings of its model sample nothing."""
    args = SFTConfig(**ON_CPU | QUIET | {"output_dir": str(tmp_path / "run"), "max_steps": 2, "max_length": 16})
    texts = Dataset.from_dict({"text": [f"{i}+1={i + 1}" for i in range(8)]})
    rest = {"train_dataset": texts, "processing_class": tokenizer, "callbacks": [AlarmsCallback()]}
    trainer = SFTTrainer(model=model_dir, args=args, **rest)
    trainer.model.generation_config.top_k = 1
    trainer.train()
    assert "sampling" not in caplog.text and said(tmp_path / "run") == []
    assert not any("sampled_as_scored" in line for line in logged(tmp_path / "run"))


def passed(folder):
    keys = [f"rollout_pass@{k}" for k in (1, 2, 4, 8)]
    return [[line.get(key) for key in keys] for line in logged(folder) if "loss" in line]


@pytest.mark.parametrize("kind", ["GRPO", "RLOO"])
def test_pass_at_k_equals_what_our_trainer_logs(kind, tmp_path, model_dir, tokenizer):
    """Also with evaluations in between, whose groups are not of the training."""
    evaluated = {"eval_strategy": "steps", "eval_steps": 1, "logging_steps": 2, "max_steps": 4}
    sizes = SIZES | {"per_device_train_batch_size": 16, "per_device_eval_batch_size": 4, "num_generations": 4}
    rest = {"model": model_dir, "train_dataset": sums(), "eval_dataset": sums().select(range(3))}
    rest |= {"processing_class": tokenizer, "reward_funcs": has_one}
    classes = {"GRPO": (GRPOTrainer, GRPOConfig), "RLOO": (RLOOTrainer, RLOOConfig)}
    trainer_class, config_class = classes[kind]
    args = config_class(**TINY_RUN | sizes | evaluated | {"output_dir": str(tmp_path / kind)})
    trainer = trainer_class(args=args, callbacks=[AlarmsCallback()], **rest)
    trainer.train()
    assert trainer.reward_funcs == [has_one]
    found = passed(tmp_path / kind)
    assert len(found) == 2 and all(one < two < four and eight is None for one, two, four, eight in found)
    history = [entry for entry in trainer.state.log_history if "loss" in entry]
    assert [entry["rollout_pass@4"] for entry in history] == [four for _, _, four, _ in found]
    if kind == "GRPO":
        ours = SteerGRPOConfig(
            **TINY_RUN | sizes | evaluated | {"output_dir": str(tmp_path / "ours"), "advantage_shaping": "none"}
        )
        SteerGRPOTrainer(args=ours, **rest).train()
        assert passed(tmp_path / "ours") == [pytest.approx(line, nan_ok=True) for line in found]


def test_rewards_that_cannot_be_read_change_nothing(make_trainer, tmp_path):
    async def later(completions, **_):
        return has_one(completions)

    for number, functions in enumerate(([has_one, nothing], later)):
        folder = tmp_path / str(number)
        arguments = {"callbacks": [AlarmsCallback()], "reward_funcs": functions}
        make_trainer(trainer_arguments=arguments, max_steps=1, output_dir=str(folder)).train()
        assert passed(folder) == [[None] * 4]


def test_of_several_rewards_the_named_one_decides(make_trainer, tmp_path):
    def run(folder, functions, name):
        arguments = {"callbacks": [AlarmsCallback(correct_reward=name)], "reward_funcs": functions}
        settings = SIZES | {"max_steps": 2, "num_generations": 4, "output_dir": str(tmp_path / folder)}
        trainer = make_trainer(trainer_arguments=arguments, **settings)
        trainer.train()
        assert trainer.reward_funcs == functions
        return passed(tmp_path / folder)

    alone = run("alone", [has_one], None)
    assert run("several", [nothing, has_one], "has_one") == alone
    assert alone[0][2] is not None and run("zero", [nothing, has_one], "nothing")[0][:3] == [0.0] * 3
    with pytest.raises(ValueError, match=r"correct_reward='other' must be .*\['nothing', 'has_one'\]"):
        run("other", [nothing, has_one], "other")


def test_a_named_reward_that_cannot_be_read_is_reported(make_trainer, tmp_path, caplog):
    async def later(completions, **_):
        return has_one(completions)

    arguments = {"callbacks": [AlarmsCallback(correct_reward="later")], "reward_funcs": [later, has_one]}
    make_trainer(trainer_arguments=arguments, max_steps=1).train()
    assert passed(tmp_path / "run") == [[None] * 4] and "correct_reward='later'" in caplog.text


def test_a_trainer_with_alarms_of_its_own_refuses_the_callback(make_trainer):
    with pytest.raises(ValueError, match=r"SteerGRPOTrainer has the alarms built in .* Remove it from callbacks"):
        make_trainer(SteerGRPOTrainer, trainer_arguments={"callbacks": [AlarmsCallback()]})
    trainer = make_trainer(SteerGRPOTrainer)
    trainer.add_callback(AlarmsCallback())
    with pytest.raises(ValueError, match="Remove it from callbacks"):
        trainer.train()


def test_the_callback_does_not_import_our_trainer():
    """So it works with versions of TRL, and patched ones, that `SteerGRPOTrainer` cannot work with."""
    look = "import sys; from steer_trl import AlarmsCallback; sys.exit('steer_trl.trainer' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", look], env=ENVIRONMENT, check=False).returncode == 0
