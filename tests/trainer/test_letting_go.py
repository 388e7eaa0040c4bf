"""`hold_entropy` in a run: when its target falls, under each kind of end, schedule and resume."""

import json
import math

import pytest
from support.runs import same_parameters, sums
from torch.optim import AdamW
from torch.optim.lr_scheduler import StepLR

from steer_trl import SteerGRPOTrainer
from steer_trl.entropy.start import StartEntropy
from steer_trl.entropy.target import FINAL_OVER_LEVEL
from steer_trl.monitoring import run_files
from steer_trl.monitoring.watch import AlarmWatch
from steer_trl.report.data import page_data
from steer_trl.report.read import find_runs

HELD = {"advantage_shaping": "repo_r", "hold_entropy": 3.0, "hold_entropy_unit": "nats"}
SMALL = {"gradient_accumulation_steps": 1}
LINEAR = {"lr_scheduler_type": "linear"}
EPOCHS = {"max_steps": -1, "num_train_epochs": 2, "trainer_arguments": {"train_dataset": sums().select(range(6))}}


def targets(trainer):
    """The target of each rollout, by the step at which the rollout was generated."""
    log = [entry for entry in trainer.state.log_history if "hold_entropy/target" in entry]
    return {entry["step"] - 1: entry["hold_entropy/target"] for entry in log}


def learning(rates, step):
    return sum(rates[:step]) / sum(rates)


class Rates(SteerGRPOTrainer):
    """Records the learning rate of each optimizer step, as the optimizer has it."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.rates = []

    def compute_loss(self, *args, **kwargs):
        if len(self.rates) == self.state.global_step:
            self.rates.append(self.optimizer.param_groups[0]["lr"])
        return super().compute_loss(*args, **kwargs)


@pytest.mark.parametrize(
    "schedule",
    [
        {"lr_scheduler_type": "constant"},
        LINEAR,
        LINEAR | {"warmup_steps": 3},
        {"lr_scheduler_type": "cosine"},
        LINEAR
        | {"max_steps": -1, "num_train_epochs": 2, "trainer_arguments": {"train_dataset": sums().select(range(6))}},
        LINEAR | {"num_iterations": 2},
        LINEAR | {"gradient_accumulation_steps": 2, "steps_per_generation": 4},
    ],
    ids=["constant", "linear", "warmup", "cosine", "epochs", "iterations", "accumulation"],
)
def test_the_target_falls_after_a_share_of_the_learning(train, schedule):
    trainer = train(Rates, **HELD | SMALL | {"max_steps": 12, "hold_entropy_until": 0.6} | schedule)
    found = targets(trainer)
    rates = trainer.rates
    assert len(rates) == trainer.state.max_steps >= 6
    for step, target in found.items():
        generated = step - step % max(int(trainer.args.steps_per_rollout), 1)
        assert (target == 3.0) == (learning(rates, generated) <= 0.6 + 1e-9), (step, target)
    path = trainer.parts.hold.regulator.path
    if schedule["lr_scheduler_type"] == "constant":
        assert path.release_start == 0.6
    last = trainer.state.max_steps - 1
    last -= last % max(int(trainer.args.steps_per_rollout), 1)
    assert found[max(found)] == path.at(last / trainer.state.max_steps) < 3.0


def test_a_budget_of_tokens_counts_its_tokens(train, capsys, caplog):
    trainer = train(SteerGRPOTrainer, max_generated_tokens=300, **HELD | SMALL | LINEAR | {"max_steps": 400})
    log = [entry for entry in trainer.state.log_history if "hold_entropy/target" in entry]
    assert len(log) > 4 and log[0]["hold_entropy/target"] == 3.0 > log[-1]["hold_entropy/target"]
    for entry in log:
        assert (entry["hold_entropy/target"] == 3.0) == (entry["generated_tokens"] <= 0.6 * 300)
    # The run ends with its steps if it writes too few tokens, so the line names both.
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("hold_entropy: ")]
    assert "180 of 300 generated tokens" in line and "step 241 of 400" in line
    # A linear schedule has hardly begun when the tokens are spent, which is reported.
    assert "lr_scheduler_type='linear'" in caplog.text


def test_a_scheduler_of_unknown_rates_counts_the_run(train, make_trainer):
    trainer = make_trainer(SteerGRPOTrainer, **HELD | SMALL)
    optimizer = AdamW(trainer.model.parameters(), 1e-3)
    schedulers = {"optimizers": (optimizer, StepLR(optimizer, 1, 0.5))}
    trainer = make_trainer(
        SteerGRPOTrainer, model=trainer.model, trainer_arguments=schedulers, **HELD | SMALL | {"max_steps": 3}
    )
    trainer.train()
    assert trainer.parts.hold.regulator.path.release_start == 0.6


def test_the_first_line_names_level_and_steps(train, capsys):
    train(
        SteerGRPOTrainer, **HELD | SMALL | {"lr_scheduler_type": "constant", "max_steps": 5, "hold_entropy_until": 0.4}
    )
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("hold_entropy: ")]
    assert all(part in line for part in ("3 nats", "step 3 of 5", f"{3 * FINAL_OVER_LEVEL:g} at step 5"))


def test_letting_go_now_is_a_resume_with_a_nearer_end(train, make_trainer, tmp_path, caplog):
    """The path is one of shares: after 4 of 5 steps it is further down than after 4 of 12."""
    settings = HELD | SMALL | {"lr_scheduler_type": "constant", "save_strategy": "steps", "save_steps": 4}
    whole = train(SteerGRPOTrainer, **settings | {"max_steps": 12})
    assert targets(whole)[3] == targets(whole)[4] == 3.0
    resumed = make_trainer(SteerGRPOTrainer, **settings | {"max_steps": 5})
    resumed.train(resume_from_checkpoint=str(tmp_path / "run/checkpoint-4"))
    path = whole.parts.hold.regulator.path
    assert resumed.parts.hold.regulator.path == path and "will be held" not in caplog.text
    assert targets(resumed)[4] == path.at(4 / 5) < 3.0


def test_a_run_resumed_in_the_released_part_goes_on_falling(train, make_trainer, tmp_path):
    settings = HELD | SMALL | LINEAR | {"max_steps": 10, "save_strategy": "steps", "save_steps": 7}
    whole = train(SteerGRPOTrainer, **settings)
    resumed = make_trainer(SteerGRPOTrainer, **settings)
    resumed.train(resume_from_checkpoint=str(tmp_path / "run/checkpoint-7"))
    assert targets(resumed) == targets(whole)
    assert targets(whole)[7] < targets(whole)[6] < 3.0


def test_a_run_with_few_prompts_resumes_with_its_last_rollouts(train, make_trainer, tmp_path):
    settings = HELD | SMALL | {"max_steps": 5, "save_strategy": "steps", "save_steps": 3}
    whole = train(SteerGRPOTrainer, **settings)
    state = whole.parts.hold.state_dict()
    assert len(state["recent"]) == 5
    resumed = make_trainer(SteerGRPOTrainer, **settings)
    resumed.train(resume_from_checkpoint=str(tmp_path / "run/checkpoint-3"))
    assert resumed.parts.hold.state_dict() == state and same_parameters(whole, resumed)


def test_a_checkpoint_whose_target_did_not_fall_keeps_it(train, make_trainer, tmp_path, caplog):
    """Checkpoints from before the target fell by default have this state."""
    settings = HELD | SMALL | {"max_steps": 10, "save_strategy": "steps", "save_steps": 3}
    train(SteerGRPOTrainer, **settings)
    path = tmp_path / "run/checkpoint-3/shaping_state.json"
    state = json.loads(path.read_text())
    old = {"target": 3.0, "strength": 0.3, "error": -0.1, "reference": 2.9, "integral": 0.2, "at_bound": 0}
    state["hold_entropy"] = old | {"rollouts": 3, "origin": 3.0, "gap": -0.1, "schedule": [3.0, 3.0, 0.6]}
    path.write_text(json.dumps(state))
    resumed = make_trainer(SteerGRPOTrainer, **settings)
    resumed.train(resume_from_checkpoint=str(path.parent))
    assert {target for step, target in targets(resumed).items() if step >= 3} == {3.0}
    assert "will be held" not in caplog.text


def test_the_level_survives_a_resume_with_fewer_prompts(train, make_trainer, tmp_path):
    settings = SMALL | {"advantage_shaping": "repo_r", "hold_entropy": 1.5, "save_strategy": "steps", "save_steps": 5}
    large = {"per_device_train_batch_size": 32, "max_steps": 5}
    before = train(SteerGRPOTrainer, **settings | large).parts
    resumed = make_trainer(SteerGRPOTrainer, **settings | {"per_device_train_batch_size": 4, "max_steps": 7})
    resumed.train(resume_from_checkpoint=str(tmp_path / "run/checkpoint-5"))
    assert resumed.parts.hold.regulator.path == before.hold.regulator.path
    entries = [entry for entry in resumed.state.log_history if entry["step"] > 5 and "hold_entropy/error" in entry]
    assert len(entries) == 2 and resumed.parts.start.value == before.start.value


WITHOUT_LEVEL = "hold_entropy=0.65 does not hold its level"


@pytest.mark.parametrize("end", [{"max_steps": 3}, {"max_steps": 400, "max_generated_tokens": 20}])
def test_a_run_that_ends_before_its_level_is_known_reports_it(train, caplog, end):
    trainer = train(SteerGRPOTrainer, hold_entropy=0.65, **SMALL | end)
    assert trainer.parts.hold.regulator is None
    assert caplog.text.count(WITHOUT_LEVEL) == 1


@pytest.mark.parametrize(("until", "is_reported"), [(0.3, True), (0.6, False), (1.0, False), (0.0, False)])
def test_a_level_that_is_known_only_when_it_falls_is_reported(train, caplog, until, is_reported):
    """Its first four rollouts are more than 0.3 of eight, and a target that falls from the start was asked for."""
    schedule = {"lr_scheduler_type": "constant", "max_steps": 8, "hold_entropy_until": until}
    eight_prompts = {"per_device_train_batch_size": 32}
    trainer = train(SteerGRPOTrainer, hold_entropy=0.65, **SMALL | schedule | eight_prompts)
    level = trainer.parts.hold.regulator.path.level
    assert (max(targets(trainer).values()) < level) == (until < 0.375)
    assert caplog.text.count(WITHOUT_LEVEL) == is_reported


def test_a_level_that_is_unknown_for_want_of_entropies_is_not_called_short(train, caplog, monkeypatch):
    add = StartEntropy.add
    monkeypatch.setattr(StartEntropy, "add", lambda start, _entropy, is_late=False: add(start, math.nan, is_late))
    train(SteerGRPOTrainer, hold_entropy=0.65, **SMALL | {"max_steps": 8, "per_device_train_batch_size": 32})
    assert caplog.text.count(WITHOUT_LEVEL) == 1 and "finite" in caplog.text


def test_a_stream_without_an_end_is_refused_and_named(make_trainer, prompts):
    stream = {"train_dataset": prompts.to_iterable_dataset()}
    with pytest.raises(ValueError, match="max_steps"):
        make_trainer(SteerGRPOTrainer, trainer_arguments=stream, **HELD | SMALL | {"max_steps": -1})


def short_and_one(completions, **_):
    """Rewards that make a policy write a few short answers."""
    return [text.count("1") / 4 - 0.1 * len(text) for text in completions]


def test_a_let_go_run_raises_no_alarm_and_would_without_the_release(train, tmp_path, monkeypatch):
    # Thirty steps are too few for the mean of 32 groups, so each rollout is read by itself.
    monkeypatch.setattr("steer_trl.entropy.recent.ENOUGH_GROUPS", 1)
    sizes = {"per_device_train_batch_size": 16, "learning_rate": 7e-3, "lr_scheduler_type": "constant"}
    settings = HELD | SMALL | sizes | {"max_steps": 30, "hold_entropy": 2.5, "hold_entropy_until": 0.1}
    arguments = {"reward_funcs": short_and_one}
    trainer = train(SteerGRPOTrainer, hold_entropy_final=0.5, trainer_arguments=arguments, **settings)
    log = trainer.state.log_history
    entropies = [entry["entropy"] for entry in log if "entropy" in entry]
    assert len(entropies) == 30 and entropies[-1] < 0.3 * entropies[0]
    assert not (tmp_path / "run" / run_files.LOGS / run_files.ALARMS).exists()
    # The same log with the target that it would have had without a release.
    watch = AlarmWatch()
    alarms = []
    for entry in log:
        constant = {"hold_entropy/target": 2.5, "hold_entropy/reference": 2.5}
        alarms += watch.read_entry(entry["step"], entry | constant)
    assert [alarm.alarm for alarm in alarms] == ["collapse"]
    (run,) = page_data(find_runs([tmp_path / "run"]))["runs"]
    assert "let go" in run["entropy"]["phrase"] and run["alarms"] == []
    trainer.create_model_card()
    assert "let go" in (tmp_path / "run/README.md").read_text()


def test_an_entropy_let_go_to_zero_raises_no_alarm(train):
    settings = HELD | SMALL | {"max_steps": 4, "hold_entropy_until": 0.0, "hold_entropy_final": 0.0}
    trainer = train(SteerGRPOTrainer, **settings)
    hold = trainer.parts.hold
    hold.on_rollout(1.0, progress=1.0)
    metrics = hold.metrics()
    assert metrics["hold_entropy/target"] == metrics["hold_entropy/strength"] == 0
    assert "hold_entropy/error" not in metrics
    watch = AlarmWatch()
    for step in range(60):
        entropies = {"entropy": 0.1, "rollout_entropy": 0.1, "rollout_entropy/start": 3.0}
        assert watch.read_entry(step, entropies | metrics) == []
