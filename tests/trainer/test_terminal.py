"""What a run shows on the terminal: one line for each log, in words."""

import re

import pytest
from support.runs import OPEN_STARE
from transformers import PrinterCallback, ProgressCallback, TrainerCallback, TrainerState
from transformers.utils.notebook import NotebookProgressCallback

from steer_trl import SteerGRPOConfig, SteerGRPOTrainer
from steer_trl.trainer.log.terminal import LogFormatter, StepLines, StepProgress, describe_settings, show_lines

LOG = {"reward": 0.312, "entropy": 0.5, "rollout_entropy": 0.4231, "stare/target_entropy": 0.44, "stare/gate": 1.0}
LOG |= {"shaping/weight_min": 0.8, "shaping/weight_max": 1.0, "shaping/weight_mean": 0.99312, "loss": 0.001}
LOG |= {"shaping/share_changed": 0.314, "completions/clipped_ratio": 0.04, "frac_reward_zero_std": 0.22}
LOG |= {"step_time": 14.2}


def state(step, history=()):
    return TrainerState(global_step=step, max_steps=2400, log_history=list(history), is_world_process_zero=True)


def args(folder, **settings):
    batch = {"per_device_train_batch_size": 16, "steps_per_generation": 4, "num_generations": 8, "bf16": False}
    return SteerGRPOConfig(str(folder), use_cpu=True, report_to="none", **batch, **settings)


def test_a_line_says_what_matters(monkeypatch, tmp_path):
    story = LogFormatter()
    monkeypatch.setattr("time.monotonic", lambda: 100.0)
    story.begin(args(tmp_path), state(0))
    story.line({"rollout_entropy": 0.55}, state(1))
    monkeypatch.setattr("time.monotonic", lambda: 100.0 + 12 * 13.8)
    assert story.line(LOG, state(12)) == (
        "step 12/2400  reward 0.312  entropy 0.423 (start 0.55, target 0.44, gate 1)  weights 0.80..1.00, mean "
        "0.993, 31 % changed  truncated 4 %  same reward 22 %  14.2 s, 9:09:14 left"
    )


def test_a_resumed_run_remembers_its_start(monkeypatch, tmp_path):
    story, history = LogFormatter(), [{"loss": 1.0}, {"rollout_entropy": 0.6}, {"rollout_entropy": 0.5}]
    monkeypatch.setattr("time.monotonic", lambda: 0.0)
    said = story.begin(args(tmp_path), state(10, history))
    assert said.endswith("\nresuming at step 10 of 2400")
    monkeypatch.setattr("time.monotonic", lambda: 20.0)
    assert re.search(r"start 0\.6\).* 13:16:20 left", story.line({"entropy": 0.4}, state(11)))
    story.begin(args(tmp_path, max_generated_tokens=1000), state(10, history))
    assert "left" not in story.line({"entropy": 0.4}, state(11))  # a budget of tokens may end the run before


def test_a_finished_run_is_not_resumed(tmp_path):
    finished = LogFormatter().begin(args(tmp_path), state(2400))
    assert "2400 of 2400" in finished and "resuming" not in finished


def test_the_time_left_is_that_of_steps_or_tokens(monkeypatch, tmp_path):
    """After 20 seconds and 5 of 2400 steps: 2:39:40 by steps; 300 of 1000 tokens are left at 40 tokens a second."""
    story = LogFormatter()
    history = [{"generated_tokens": 1.0}, {"generated_tokens": 100.0}]
    for budget, written, left in ((1200, 900.0, "00:07"), (10**9, 900.0, "2:39:20"), (1200, 1200.0, None)):
        monkeypatch.setattr("time.monotonic", lambda: 0.0)
        story.begin(args(tmp_path, max_generated_tokens=budget), state(5, history))
        monkeypatch.setattr("time.monotonic", lambda: 20.0)
        line = story.line({"generated_tokens": written}, state(10))
        assert line.endswith(f"{left} left") if left else "left" not in line, line


HELD = {"entropy": 0.25, "hold_entropy/target": 0.2}
EVALUATED = {"eval_aime24_avg@32": 0.3125, "eval_reward": 0.5, "eval_aime24_unanswered": 0.1}


@pytest.mark.parametrize(
    ("logs", "line"),
    [
        ({"reward": None, "entropy": None}, "step 3/2400"),  # no completion was left to train on
        (HELD | {"rollout_entropy/start": 0.4}, "step 3/2400  entropy 0.25 (start 0.4, target 0.2)"),
        (HELD | {"hold_entropy/strength": 0.0}, "step 3/2400  entropy 0.25 (start 0.25, target 0.2, strength 0)"),
        (HELD | {"hold_entropy/strength": 0.2}, "step 3/2400  entropy 0.25 (start 0.25, target 0.2, strength 0.2)"),
        ({"entropy": 0.25, "stare/gate": 0.0}, "step 3/2400  entropy 0.25 (start 0.25, gate 0)"),
        ({"entropy": 0.25, "stare/gate": 0.5}, "step 3/2400  entropy 0.25 (start 0.25, gate 0.5)"),
        (EVALUATED, "step 3/2400  evaluation  aime24_avg@32 0.312  reward 0.5"),
        ({"eval_mine_unanswered": 0.75}, "step 3/2400  evaluation  mine_unanswered 0.75"),
        ({"eval_average_avg": 0.25}, "step 3/2400  evaluation  average_avg 0.25"),
        ({"train_runtime": 754.0, "train_loss": 0.1}, "trained 0 steps in 12:34"),
    ],
)
def test_other_logs(logs, line):
    story = LogFormatter()
    story.first_step = 3  # nothing is known of how long a step takes
    assert story.line(logs, state(3)) == line


def kinds(trainer):
    return [type(callback) for callback in trainer.callback_handler.callbacks]


class TestInTraining:
    @pytest.mark.parametrize("quiet", [True, False], ids=["lines", "bar"])
    def test_a_line_for_each_step_and_no_dictionary(self, make_trainer, capsys, quiet):
        trainer = make_trainer(SteerGRPOTrainer, max_steps=2, disable_tqdm=True, **OPEN_STARE)
        trainer.add_callback(PrinterCallback if quiet else ProgressCallback)  # the fixture has removed the first
        show_lines(trainer)
        assert kinds(trainer).count(StepLines if quiet else StepProgress) == 1
        assert (StepLines if not quiet else StepProgress) not in kinds(trainer)
        trainer.train()
        captured = capsys.readouterr()
        lines = [line.strip() for line in captured.out.replace("\r", "\n").splitlines() if line.strip()]
        steps = [line for line in lines if line.startswith("step ")]
        pattern = r"step \d/2  reward \S+  entropy \S+ \(start \S+, target 100, gate 1\)  weights 1.00\.\.1.10, "
        assert len(steps) == 2 and all(re.match(pattern, line) for line in steps), lines
        assert lines[-1].startswith("trained 2 steps in ") and "{" not in captured.out

    def test_our_bar_spares_the_users_display(self, make_trainer):
        class Mine(ProgressCallback):
            pass

        trainer = make_trainer(SteerGRPOTrainer, disable_tqdm=False)
        assert StepProgress in kinds(trainer) and ProgressCallback not in kinds(trainer)
        for callback in (NotebookProgressCallback, Mine):
            trainer.add_callback(callback)
        show_lines(trainer)
        assert {NotebookProgressCallback, Mine} <= set(kinds(trainer))
        trainer = make_trainer(SteerGRPOTrainer, disable_tqdm=False, terminal_log="dict")
        assert ProgressCallback in kinds(trainer) and StepProgress not in kinds(trainer)


@pytest.mark.parametrize("disable_tqdm", [True, False])
def test_transformers_dictionaries_stay_beside_our_lines(make_trainer, capsys, disable_tqdm):
    """What people search in the logs of a queue. What silences Transformers' output silences ours."""
    theirs = PrinterCallback if disable_tqdm else ProgressCallback

    def said(**fields):
        trainer = make_trainer(SteerGRPOTrainer, max_steps=1, disable_tqdm=disable_tqdm, **fields)
        if disable_tqdm:  # the fixture has removed it
            trainer.add_callback(PrinterCallback)
            show_lines(trainer, with_dictionary=True)
        if "silent" in str(fields):
            trainer.remove_callback(theirs)
        trainer.train()
        return capsys.readouterr().out

    text = said()
    assert "{'loss': " in text and "step 1/1  reward" in text
    text = said(run_name="silent")
    assert "{'loss': " not in text and "step 1/1" not in text


def test_a_run_states_its_settings_first(tmp_path):
    assert describe_settings(args(tmp_path, hold_entropy=0.65, dynamic_sampling="resample")) == (
        "advantage_shaping stare; hold_entropy 0.65 (initial); dynamic_sampling resample; "
        "8 prompts x 8 completions per rollout"
    )
    assert describe_settings(args(tmp_path, advantage_shaping="none")).startswith("advantage_shaping none; dynamic")


def test_other_callbacks_get_the_unchanged_log(make_trainer):
    """Transformers' own display takes `total_flos` out of it."""
    seen = set()

    class Watch(TrainerCallback):
        def on_log(self, args, state, control, logs=None, **kwargs):
            seen.update(logs)

    trainer = make_trainer(SteerGRPOTrainer, max_steps=1, terminal_log="dict")
    trainer.add_callback(StepLines)
    trainer.add_callback(Watch)
    trainer.train()
    assert "total_flos" in seen
