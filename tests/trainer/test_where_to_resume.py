"""Where a training begins: a finished run stays as it is, `auto` finds its place, and two runs are never mixed."""

import json
import shutil
from pathlib import Path

import pytest
from support.runs import same_parameters

from steer_trl import SteerGRPOTrainer, runlog

SAVED = {"save_strategy": "steps", "save_steps": 1, "max_steps": 2, "advantage_shaping": "none"}


def contents(folder):
    """Every file below a folder, with its bytes."""
    return {path: path.read_bytes() for path in sorted(Path(folder).rglob("*")) if path.is_file()}


@pytest.fixture
def made(make_trainer, tmp_path):
    """Build a trainer for a folder of its own."""

    def make(name="run", **fields):
        return make_trainer(SteerGRPOTrainer, output_dir=str(tmp_path / name), **SAVED | fields)

    return make


class TestAFinishedRun:
    @pytest.mark.parametrize("length", [{"max_steps": 2}, {"max_steps": -1, "num_train_epochs": 0.1}])
    def test_it_is_trained_no_further_and_none_of_its_files_changes(self, made, length):
        first = made(**length)
        first.train()
        last = first.state.global_step
        before = contents(first.args.output_dir)
        again = made(**length)
        assert again.train(resume_from_checkpoint=True).global_step == last
        assert contents(first.args.output_dir) == before
        assert again.shaping.was_finished and same_parameters(first, again)  # a script may save the model, or evaluate

    def test_its_log_takes_an_evaluation_of_now(self, made, prompts):
        made().train()
        again = made()
        again.train(resume_from_checkpoint="auto")
        again.log({"eval_reward": 0.5})
        lines = list(runlog.lines(Path(again.args.output_dir, "_logs/metrics.jsonl")))
        assert [line["step"] for line in lines] == [1, 2, 2, 2] and lines[-1]["eval_reward"] == 0.5


class TestAuto:
    def test_it_begins_where_there_is_no_checkpoint_and_goes_on_where_there_is_one(self, made, caplog):
        first = made(max_steps=1)
        first.train(resume_from_checkpoint="auto")
        assert first.state.global_step == 1
        again = made(max_steps=2)
        again.train(resume_from_checkpoint="auto")
        steps = [line["step"] for line in runlog.lines(Path(again.args.output_dir, "_logs/metrics.jsonl"))]
        assert steps == [1, 1, 2, 2]  # one log, that goes on

    def test_a_checkpoint_that_a_killed_run_left_half_written_is_none(self, made, caplog):
        torn = Path(made().args.output_dir, "checkpoint-1")
        torn.mkdir(parents=True)
        (torn / "trainer_state.json").write_text("{")
        with pytest.raises(ValueError, match="needs a complete checkpoint in output_dir"):
            made().train(resume_from_checkpoint=True)
        trainer = made()
        trainer.train(resume_from_checkpoint="auto")
        assert trainer.state.global_step == 2 and json.loads((torn / "trainer_state.json").read_text())
        assert "checkpoint-1 is skipped" in caplog.text


class TestAnotherRun:
    def test_its_checkpoint_does_not_go_on_in_a_folder_that_holds_a_run(self, made):
        a, b = made("a"), made("b")
        a.train()
        b.train()
        before = contents(b.args.output_dir)
        said = r"output_dir='.*b' holds a run \(checkpoint-2, checkpoint-1\), and resume_from_checkpoint='.*a/check"
        with pytest.raises(ValueError, match=said):
            made("b").train(resume_from_checkpoint=f"{a.args.output_dir}/checkpoint-1")
        assert contents(b.args.output_dir) == before

    def test_a_log_alone_is_a_run(self, made):
        a = made("a")
        a.train()
        runlog.append(Path(a.args.output_dir).with_name("b"), {"step": 7, "reward": 0.1})
        with pytest.raises(ValueError, match=r"holds a run \(_logs\)"):
            made("b").train(resume_from_checkpoint=f"{a.args.output_dir}/checkpoint-1")

    def test_it_goes_on_in_a_folder_of_its_own(self, made):
        made("a").train()
        b = made("b")
        b.train(resume_from_checkpoint=str(Path(b.args.output_dir).with_name("a") / "checkpoint-1"))
        assert [line["step"] for line in runlog.lines(Path(b.args.output_dir, "_logs/metrics.jsonl"))] == [2, 2]

    def test_a_checkpoint_of_the_folder_itself_is_its_own_by_every_spelling(self, made, tmp_path, monkeypatch):
        made("a").train()
        shutil.rmtree(tmp_path / "a/checkpoint-2")
        monkeypatch.chdir(tmp_path / "a")
        again = made("a")
        again.train(resume_from_checkpoint="checkpoint-1")
        assert again.state.global_step == 2

    def test_a_script_that_is_run_again_begins_anew_and_says_what_that_means(self, made, caplog):
        made().train()
        assert "holds a run" not in caplog.text
        made().train()
        assert "holds a run (checkpoint-2, checkpoint-1), and this one begins at step 0" in caplog.text
