"""A run that is resumed with another method, level, data or number of processes reports what has changed, once."""

import json

import pytest
import torch
from support.runs import count_reward, has_one, sums

from steer_trl import SteerGRPOTrainer
from steer_trl.trainer.checkpoints.made_with import describe

SAVED = {"save_strategy": "steps", "save_steps": 2, "max_steps": 2}
HELD = {"advantage_shaping": "stare", "hold_entropy": 0.9}


@pytest.fixture
def resume(train, make_trainer, tmp_path, caplog):
    """Save a held run after two steps, and go on with other settings; what was reported."""

    def go_on(rows=None, processes=None, reward=count_reward, **settings):
        train(SteerGRPOTrainer, **SAVED | HELD)
        path = tmp_path / "run/checkpoint-2/shaping_state.json"
        if processes is not None:
            state = json.loads(path.read_text())
            state["made_with"]["processes"] = processes
            path.write_text(json.dumps(state))
        caplog.clear()
        data = {"reward_funcs": reward} | ({} if rows is None else {"train_dataset": rows})
        trainer = make_trainer(SteerGRPOTrainer, trainer_arguments=data, **HELD | {"max_steps": 3} | settings)
        trainer.train(resume_from_checkpoint=str(path.parent))
        return [record.getMessage() for record in caplog.records if "other settings" in record.getMessage()]

    return go_on


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ({}, []),
        ({"learning_rate": 1e-3, "max_steps": 4}, []),
        ({"hold_entropy": 0.8}, ["hold_entropy from 0.9 to 0.8"]),
        ({"stare_top_fraction": 0.33}, ["stare_top_fraction"]),
        ({"processes": 8}, ["processes from 8 to 1"]),
        ({"loss_type": "grpo"}, ["loss_type from 'dapo' to 'grpo'"]),
        ({"temperature": 0.5, "scale_rewards": "batch"}, ["temperature from 1.0 to 0.5", "scale_rewards"]),
        ({"epsilon": 0.1, "beta": 0.04, "num_iterations": 2}, ["epsilon", "beta from 0.0", "num_iterations from 1"]),
        ({"generation_kwargs": {"min_new_tokens": 2}}, ["generation_kwargs"]),
        ({"correct_threshold": 0.5}, ["correct_threshold"]),
        ({"seed": 7}, ["seed from 42 to 7"]),
        ({"per_device_train_batch_size": 8}, ["per_device_train_batch_size from 4 to 8"]),
        ({"reward": has_one}, ["reward functions from ['count_reward'] to ['has_one']"]),
        ({"rows": sums().select(range(20))}, ["rows of train_dataset from 30 to 20", "prompts of"]),
        ({"rows": sums().map(lambda row: {"prompt": row["prompt"] + "="})}, ["prompts of train_dataset"]),
        (
            {"advantage_shaping": "steer", "hold_entropy": None},
            ["advantage_shaping from ['stare'] to ['steer']", "hold_entropy from 0.9 to None"],
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, dict) else "",
)
def test_one_warning_names_what_changed(resume, changes, names):
    reports = resume(**changes)
    assert len(reports) == bool(names)
    assert all(name in reports[0] for name in names)


OF_OPTIMIZER = {"learning_rate": 1e-3, "weight_decay": 0.1, "adam_beta1": 0.8, "adam_beta2": 0.9, "adam_epsilon": 1e-6}


@pytest.mark.parametrize("names", [[], ["learning_rate"], [*OF_OPTIMIZER]], ids=len)
def test_settings_that_the_optimizer_keeps_are_named(train, make_trainer, tmp_path, caplog, names):
    constant = {"lr_scheduler_type": "constant", "learning_rate": 2e-4}
    train(SteerGRPOTrainer, **SAVED | constant)
    caplog.clear()
    changed = {name: OF_OPTIMIZER[name] for name in names}
    trainer = make_trainer(SteerGRPOTrainer, **constant | {"max_steps": 3} | changed)
    trainer.train(resume_from_checkpoint=str(tmp_path / "run/checkpoint-2"))
    (group, *_) = trainer.optimizer.param_groups
    in_force = {"learning_rate": group["lr"], "weight_decay": group["weight_decay"], "adam_epsilon": group["eps"]}
    in_force |= dict(zip(("adam_beta1", "adam_beta2"), group["betas"], strict=True))
    reports = [record.args for record in caplog.records if record.msg.startswith("%s keeps")]
    assert len(reports) == bool(names)
    for name in names:
        ((_, kept, ignored),) = reports
        assert f"{name}={in_force[name]!r}" in kept.split(", ")
        assert in_force[name] != changed[name] and f"{name}={changed[name]!r}" in ignored.split(", ")
    assert not [record for record in caplog.records if "other settings" in record.msg]


@pytest.mark.parametrize("settings", [{"sync_ref_model": True, "ref_model_sync_steps": 1}, {}], ids=["synced", ""])
def test_a_reference_model_that_is_not_saved_is_reported(train, make_trainer, tmp_path, caplog, settings):
    train(SteerGRPOTrainer, **SAVED | settings, beta=0.1)
    caplog.clear()
    trainer = make_trainer(SteerGRPOTrainer, **settings, beta=0.1, max_steps=3)
    trainer.train(resume_from_checkpoint=str(tmp_path / "run/checkpoint-2"))
    assert len([record for record in caplog.records if "no reference model" in record.msg]) == bool(settings)


def test_an_earlier_versions_checkpoint_names_only_what_it_has(train, make_trainer, tmp_path, caplog):
    train(SteerGRPOTrainer, **SAVED | HELD)
    path = tmp_path / "run/checkpoint-2/shaping_state.json"
    state = json.loads(path.read_text())
    state["made_with"] = {"hold_entropy": 0.7, "advantage_shaping": ["stare"]}
    path.write_text(json.dumps(state))
    make_trainer(SteerGRPOTrainer, **HELD | {"max_steps": 3}).train(resume_from_checkpoint=str(path.parent))
    (report,) = [record for record in caplog.records if "other settings" in record.getMessage()]
    assert report.args[1] == "hold_entropy from 0.7 to 0.9"


RELATIVE = {"advantage_shaping": "stare", "hold_entropy": 0.9}


@pytest.mark.parametrize(
    ("removed", "settings", "reported"),
    [
        (["shaping_state.json"], RELATIVE, ["%s has no initial entropy", "%s does not record"]),
        (["shaping_state.json"], RELATIVE | {"hold_entropy_unit": "nats"}, ["%s does not record"]),
        (["optimizer.pt"], RELATIVE, ["%s has no optimizer"]),
        (["dynamic_sampling.pt"], {"dynamic_sampling": "resample"}, ["%s does not exist"]),
        ([], RELATIVE, []),
    ],
    ids=str,
)
def test_files_missing_in_a_checkpoint_are_named(train, make_trainer, tmp_path, caplog, removed, settings, reported):
    train(SteerGRPOTrainer, **SAVED | settings)
    folder = tmp_path / "run/checkpoint-2"
    for name in removed:
        (folder / name).unlink()
    caplog.clear()
    make_trainer(SteerGRPOTrainer, **settings | {"max_steps": 3}).train(resume_from_checkpoint=str(folder))
    loaders = ("steer_trl.trainer.checkpoints.checkpoint", "steer_trl.trainer.sampling.resample")
    reports = [record.msg for record in caplog.records if record.name in loaders and "no state of" not in record.msg]
    assert len(reports) == len(reported) and all(report.startswith(tuple(reported)) for report in reports)


class Limits:
    """A value that is no plain data, and whose text has its address in memory."""


@pytest.mark.parametrize(
    "settings",
    [
        {"generation_kwargs": {"stop": Limits()}, "reward_weights": [1], "scale_rewards": True},
        {"model_init_kwargs": {"dtype": torch.float32}, "epsilon_high": 0.28, "delta": 4.0},
        {"chat_template_kwargs": {"enable_thinking": False}, "hold_entropy": 0.5, "correct_reward": "count_reward"},
    ],
    ids=["an object", "a type", "mappings"],
)
def test_equal_settings_are_described_alike(make_trainer, settings):
    made = []
    for _ in range(2):
        if "generation_kwargs" in settings:
            settings["generation_kwargs"] = {"stop": Limits()}
        made.append(describe(make_trainer(SteerGRPOTrainer, **settings)))
    assert made[0] == made[1] == json.loads(json.dumps(made[0], allow_nan=False))


def test_a_text_that_may_be_private_is_not_written(make_trainer):
    settings = {"generation_kwargs": {"watermark": "secret"}, "vllm_server_base_url": "http://me:secret@host"}
    trainer = make_trainer(SteerGRPOTrainer, **settings)
    assert "secret" not in json.dumps(describe(trainer))


def test_the_middle_of_a_rollout_needs_the_same_accumulation(train, make_trainer, tmp_path):
    sizes = {"steps_per_generation": 8, "gradient_accumulation_steps": 2}
    train(SteerGRPOTrainer, **SAVED | sizes)
    trainer = make_trainer(SteerGRPOTrainer, **sizes | {"gradient_accumulation_steps": 4})
    with pytest.raises(ValueError, match="gradient_accumulation_steps must be 2, got 4"):
        trainer.train(resume_from_checkpoint=str(tmp_path / "run/checkpoint-2"))


def reports_of_hold(caplog):
    return [record for record in caplog.records if record.name == "steer_trl.trainer.hold_callback"]


FALLING = {"hold_entropy": 4.0, "hold_entropy_unit": "nats"}
FALLING |= {"hold_entropy_final": 1.0, "hold_entropy_decay_start": 0.25}


@pytest.mark.parametrize(
    ("length", "targets"),
    [
        # 1/2 of four steps are 2/3 of three, and 1/4 of eight.
        ({"max_steps": 3}, [3, 7 / 3]),
        ({"max_steps": 8}, [3, 4]),
        ({"max_steps": 4}, None),
    ],
    ids=str,
)
def test_a_target_that_jumps_with_the_length_is_reported(make_trainer, tmp_path, caplog, length, targets):
    fields = {"advantage_shaping": "repo_r", "save_strategy": "steps", "save_steps": 2} | FALLING
    make_trainer(SteerGRPOTrainer, **fields, max_steps=4).train()
    caplog.clear()
    make_trainer(SteerGRPOTrainer, **fields | length).train(resume_from_checkpoint=str(tmp_path / "run/checkpoint-2"))
    reports = [list(record.args[2:]) for record in reports_of_hold(caplog)]
    assert reports == ([pytest.approx(targets)] if targets else [])


class TestLevel:
    """A run that ends before its initial entropy is known holds nothing."""

    @pytest.mark.parametrize(
        ("settings", "count", "is_known"),
        [
            ({"max_steps": 2}, 1, False),
            ({"max_steps": 16, "hold_entropy_until": 1}, 0, True),
            # The level is known after the last rollout that was to be held at it.
            ({"max_steps": 16}, 1, True),
            ({"max_steps": 2, "hold_entropy_unit": "nats"}, 0, True),
            ({"max_steps": 20, "max_generated_tokens": 100}, 1, False),
        ],
        ids=str,
    )
    def test_a_level_that_is_never_known_in_time_is_reported_once(self, train, caplog, settings, count, is_known):
        trainer = train(SteerGRPOTrainer, **HELD | settings)
        assert len(reports_of_hold(caplog)) == count
        assert ("hold_entropy/target" in trainer.state.log_history[-2]) == is_known
