"""A run that is resumed with another method, level, data or number of processes reports what has changed, once."""

import json

import pytest
from support.runs import sums

from steer_trl import SteerGRPOTrainer

SAVED = {"save_strategy": "steps", "save_steps": 2, "max_steps": 2}
HELD = {"advantage_shaping": "stare", "hold_entropy": 0.9}


@pytest.fixture
def resume(train, make_trainer, tmp_path, caplog):
    """Save a held run after two steps, and go on with other settings; what was reported."""

    def go_on(rows=None, processes=None, **settings):
        train(SteerGRPOTrainer, **SAVED | HELD)
        path = tmp_path / "run/checkpoint-2/shaping_state.json"
        if processes is not None:
            state = json.loads(path.read_text())
            state["made_with"]["processes"] = processes
            path.write_text(json.dumps(state))
        caplog.clear()
        data = {} if rows is None else {"train_dataset": rows}
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


def test_the_middle_of_a_rollout_needs_the_same_accumulation(train, make_trainer, tmp_path):
    sizes = {"steps_per_generation": 8, "gradient_accumulation_steps": 2}
    train(SteerGRPOTrainer, **SAVED | sizes)
    trainer = make_trainer(SteerGRPOTrainer, **sizes | {"gradient_accumulation_steps": 4})
    with pytest.raises(ValueError, match="gradient_accumulation_steps must be 2, got 4"):
        trainer.train(resume_from_checkpoint=str(tmp_path / "run/checkpoint-2"))


def reports_of_hold(caplog):
    return [record for record in caplog.records if record.name == "steer_trl.trainer.held_run"]


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
        ("settings", "count"),
        [
            ({"max_steps": 2}, 1),
            ({"max_steps": 16}, 0),
            ({"max_steps": 2, "hold_entropy_unit": "nats"}, 0),
            ({"max_steps": 20, "max_generated_tokens": 100}, 1),
        ],
        ids=str,
    )
    def test_it_reports_that_once(self, train, caplog, settings, count):
        trainer = train(SteerGRPOTrainer, **HELD | settings)
        assert len(reports_of_hold(caplog)) == count
        assert ("hold_entropy/target" in trainer.state.log_history[-2]) == (count == 0)
