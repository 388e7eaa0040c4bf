"""Alarms of an entropy, each provoked by a real run, and where they are heard; a healthy run has none."""

import json
import logging
import sys
from types import SimpleNamespace

import pytest
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from support.digits import nothing, ones, written
from support.runs import of_method
from transformers import TrainerCallback, TrainerControl, TrainerState

from steer_trl import SteerGRPOTrainer
from steer_trl.demo.tiny import tiny_qwen2
from steer_trl.monitoring import run_files
from steer_trl.monitoring.alarms import AlarmReporter
from steer_trl.monitoring.entropy_rules import ENTROPY_RULES
from steer_trl.monitoring.watch import AlarmWatch

STARE, SLOW = {"advantage_shaping": "stare"}, {"learning_rate": 1e-4}
RUNS = {
    "healthy": STARE | SLOW | {"stare_target_entropy": 3.0, "max_steps": 22},
    "collapse": {"advantage_shaping": "none", "max_steps": 30},
    # Its completions are written by hand, and not what this policy would say.
    "explosion sampled_otherwise": STARE
    | {"stare_gate": "none", "stare_amplify": 20.0, "max_steps": 30, "learning_rate": 2e-3}
    | {"per_device_train_batch_size": 16, "num_generations": 2},
    "idle": SLOW | {"steer_lambda_min": 0.999, "max_steps": 22},
    "one_reward": SLOW | {"max_steps": 17},
    "no_update": {"advantage_shaping": "none", "learning_rate": 0.0, "max_steps": 42},
    "weak_gate saturated": STARE
    | SLOW
    | {
        "max_steps": 52,
        "stare_target_entropy": 100.0,
        "stare_adaptive": True,
        **of_method("stare", amplify_max=1.12),
    },
    "below_target": SLOW
    | {"advantage_shaping": "repo_r", "hold_entropy": 7.0, "hold_entropy_unit": "nats", "max_steps": 40},
    "not_finite": {"advantage_shaping": "none", "learning_rate": 1e30, "max_steps": 3},
}


@pytest.fixture
def watched(make_trainer, tokenizer):
    """Make the trainer of one of [`RUNS`], whose log has a line per step."""

    def make(name, **others):
        model = others.pop("model", None) or tiny_qwen2(tokenizer)
        if name.startswith("explosion"):  # a policy that is sure of itself
            model.model.norm.weight.data *= 30
        arguments = {"reward_funcs": nothing if name == "one_reward" else ones, "rollout_func": written}
        arguments |= {"optimizers": others.pop("optimizers")} if "optimizers" in others else {}
        sizes = {"per_device_train_batch_size": 8, "gradient_accumulation_steps": 1, "lr_scheduler_type": "constant"}
        settings = sizes | RUNS[name] | others
        return make_trainer(SteerGRPOTrainer, model=model, trainer_arguments=arguments, **settings)

    return make


def said(folder):
    path = folder / "run" / run_files.LOGS / run_files.ALARMS
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


@pytest.mark.parametrize("name", RUNS)
def test_a_run_raises_the_alarm_of_its_fault_and_no_other(watched, tmp_path, caplog, name):
    trainer = watched(name)
    with caplog.at_level(logging.WARNING, "steer_trl.monitoring.alarms"):
        trainer.train()
    wanted = [] if name == "healthy" else name.split()
    alarms = {alarm["alarm"]: alarm for alarm in said(tmp_path)}
    assert sorted(alarms) == sorted(wanted) and len(said(tmp_path)) == len(wanted)  # each is said once
    assert trainer.state.global_step == RUNS[name]["max_steps"]
    for alarm in alarms.values():
        assert alarm.keys() == {"step", "alarm", "title", "text", "level", "numbers", "time"}
        assert f"\nALARM {alarm['alarm']}, step {alarm['step']}: {alarm['title']}. {alarm['text']}" in caplog.text


def test_every_alarm_is_provoked():
    others = {"healthy", "one_reward", "no_update", "sampled_otherwise"}
    # Only a faulty kernel has impossible values, as in `test_impossible_numbers_are_counted`.
    assert ({rule.name for rule in ENTROPY_RULES} | others) - {"out_of_bounds"} == set(" ".join(RUNS).split())


@pytest.mark.parametrize("frozen", ["adapter", "all", "all but one"])
def test_a_model_that_cannot_change_is_refused(watched, tokenizer, tmp_path, frozen):
    model = tiny_qwen2(tokenizer)
    if frozen == "adapter":
        get_peft_model(model, LoraConfig(target_modules=["q_proj"])).save_pretrained(tmp_path / "adapter")
        model = PeftModel.from_pretrained(tiny_qwen2(tokenizer), tmp_path / "adapter")
    else:
        model.requires_grad_(requires_grad=False)
    trainer = watched("healthy", model=model, max_steps=1)
    if frozen == "all but one":
        trainer.model.model.layers[0].mlp.up_proj.weight.requires_grad_()
        assert trainer.train().global_step == 1
    else:
        with pytest.raises(ValueError, match="model has no trainable parameter"):
            trainer.train()


def test_an_optimizer_of_another_model_is_reported(watched, tokenizer, tmp_path):
    """As one that was made before an adapter was added."""
    optimizer = torch.optim.SGD(tiny_qwen2(tokenizer).parameters(), 1.0)
    watched("no_update", max_steps=22, optimizers=(optimizer, None)).train()
    assert [(alarm["alarm"], alarm["level"]) for alarm in said(tmp_path)] == [("no_update", "error")]


def test_alarms_have_one_switch(watched, tmp_path, caplog):
    watched("one_reward", alarms=False).train()
    assert said(tmp_path) == [] and "have the same reward" not in caplog.text
    watched("one_reward", run_log=False).train()
    assert said(tmp_path) == [] and "have the same reward" in caplog.text


def test_a_resumed_run_reports_like_an_unbroken_one(watched, tmp_path):
    """The entropy it began with and how long it has been low come from the checkpoint; nothing is said twice."""
    watched("collapse", save_strategy="steps", save_steps=18, max_steps=28).train()
    (whole,) = said(tmp_path)
    state = json.loads((tmp_path / "run/checkpoint-18/shaping_state.json").read_text())["alarms"]
    assert state["since"]["collapse"] <= 18 < whole["step"] and state["raised"] == []
    path = tmp_path / "run" / run_files.LOGS / run_files.ALARMS
    path.write_text(path.read_text() + '{"step": 28, "ala')  # it was killed
    watched("collapse", max_steps=28).train(resume_from_checkpoint=str(tmp_path / "run/checkpoint-18"))
    (again,) = said(tmp_path)
    assert {k: v for k, v in again.items() if k != "time"} == {k: v for k, v in whole.items() if k != "time"}
    watched("healthy", max_steps=1).train()  # another run in the same folder
    assert said(tmp_path) == []


class TestTrackers:
    """Stand-ins with the signatures of trackio 0.43 and Weights & Biases 0.31, which are asked for nothing else."""

    DEAD = {"frac_reward_zero_std": 1.0}

    def stand_ins(self, heard, running=True):
        def trackios(title, text=None, level="warn", webhook_url=None):
            heard.append((title, text, level))

        def wandbs(title, text, level=None, wait_duration=None):
            heard.append((title, text, level))

        current = SimpleNamespace(get=lambda: object() if running else None)
        trackio = SimpleNamespace(alert=trackios, AlertLevel=SimpleNamespace(WARN="warn", ERROR="error"))
        trackio.context_vars = SimpleNamespace(current_run=current)
        return {"trackio": trackio, "wandb": SimpleNamespace(run=SimpleNamespace(alert=wandbs) if running else None)}

    def hear(self, monkeypatch, folder, modules, report_to=("trackio", "wandb"), is_main=True, line=DEAD):
        """Log two lines that dead groups are in, far enough apart."""
        for module, stand_in in modules.items():
            monkeypatch.setitem(sys.modules, module, stand_in)
        args = SimpleNamespace(output_dir=str(folder / "run"), report_to=report_to, run_log=True)
        callback = AlarmReporter(AlarmWatch())
        for step in (10, 20):
            state = TrainerState(global_step=step, is_world_process_zero=is_main)
            callback.on_log(args, state, TrainerControl(), logs={"entropy": 1.0, **line})

    @pytest.mark.parametrize(
        ("line", "levels"), [(DEAD, ("warn", "WARN")), ({"sanity/out_of_bounds": 0.1}, ("error", "ERROR"))]
    )
    def test_trackers_get_title_text_and_level(self, monkeypatch, tmp_path, line, levels):
        heard = []
        self.hear(monkeypatch, tmp_path, self.stand_ins(heard), line=line)
        (alarm,) = said(tmp_path)
        text = f"Step {alarm['step']}: {alarm['text']}"
        assert sorted(heard) == sorted((alarm["title"], text, level) for level in levels)

    @pytest.mark.parametrize(
        ("report_to", "running", "is_main"),
        [([], True, True), (["wandb"], False, True), ("tensorboard", True, True), (["wandb"], True, False)],
    )
    def test_trackers_that_are_not_in_use_get_no_alarm(self, monkeypatch, tmp_path, report_to, running, is_main):
        heard = []
        self.hear(monkeypatch, tmp_path, self.stand_ins(heard, running), report_to, is_main)
        assert heard == [] and len(said(tmp_path)) == is_main  # one process speaks

    def test_a_failing_tracker_ends_no_training(self, monkeypatch, tmp_path, caplog):
        self.hear(monkeypatch, tmp_path, {"trackio": SimpleNamespace(), "wandb": SimpleNamespace(run=object())})
        assert len(said(tmp_path)) == 1
        assert caplog.text.count("could not be judged or delivered; the training continues") == 2


def test_an_unwritable_file_ends_no_training(watched, tmp_path, caplog):
    class InTheWay(TrainerCallback):
        def on_step_begin(self, *_, **__):
            (tmp_path / "run" / run_files.LOGS / run_files.ALARMS).mkdir(exist_ok=True)

    trainer = watched("one_reward")
    trainer.add_callback(InTheWay())
    trainer.train()
    assert trainer.state.global_step == 17
    assert "All completions have the same reward" in caplog.text and "the training continues" in caplog.text


def test_a_masked_vocabulary_is_named(watched, tmp_path):
    """A logit of minus infinity that comes during the training makes each entropy NaN."""

    class Masks(TrainerCallback):
        def on_step_begin(self, *_, **__):
            masked.bias.data[-1] = -torch.inf

    trainer = watched("healthy", max_steps=1)
    trainer.add_callback(Masks())
    head = trainer.model.lm_head
    masked = torch.nn.Linear(head.in_features, head.out_features)
    masked.weight = head.weight
    masked.bias = torch.nn.Parameter(torch.zeros(head.out_features), requires_grad=False)
    trainer.model.lm_head = masked
    trainer.train()
    assert [alarm["alarm"] for alarm in said(tmp_path)] == ["not_finite"]
    line = trainer.state.log_history[0]
    assert line["sanity/not_finite"] == 1 and line["sanity/out_of_bounds"] == 0
