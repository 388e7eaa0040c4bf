"""Where a training begins: a finished run stays as it is, `auto` finds its place, and two runs are never mixed."""

import json
import shutil
from pathlib import Path

import pytest
from support.runs import same_parameters

from steer_trl import SteerGRPOTrainer
from steer_trl.monitoring import run_files
from steer_trl.support.exceptions import CannotContinueError
from steer_trl.trainer.checkpoints.where_to_resume import is_complete, starting_point

SAVED = {"save_strategy": "steps", "save_steps": 1, "max_steps": 2, "advantage_shaping": "none"}


def contents(folder):
    return {path: path.read_bytes() for path in sorted(Path(folder).rglob("*")) if path.is_file()}


def logged(trainer):
    return list(run_files.lines(Path(trainer.args.output_dir, "_logs/metrics.jsonl")))


@pytest.fixture
def made(make_trainer, tmp_path):

    def make(name="run", **fields):
        return make_trainer(SteerGRPOTrainer, output_dir=str(tmp_path / name), **SAVED | fields)

    return make


class TestAFinishedRun:
    @pytest.mark.parametrize("length", [{"max_steps": 2}, {"max_steps": -1, "num_train_epochs": 0.1}])
    def test_a_finished_run_changes_no_file(self, made, length):
        first = made(**length)
        first.train()
        last = first.state.global_step
        before = contents(first.args.output_dir)
        again = made(**length)
        assert again.train(resume_from_checkpoint=True).global_step == last
        assert contents(first.args.output_dir) == before
        assert again.parts.was_finished and same_parameters(first, again)  # a script may save the model, or evaluate

    def test_the_log_of_a_finished_run_takes_an_evaluation(self, made, prompts):
        made().train()
        again = made()
        again.train(resume_from_checkpoint="auto")
        again.log({"eval_reward": 0.5})
        lines = logged(again)
        assert [line["step"] for line in lines] == [1, 2, 2, 2] and lines[-1]["eval_reward"] == 0.5


class TestAuto:
    def test_auto_begins_or_continues(self, made):
        for last in (1, 2):
            trainer = made(max_steps=last)
            trainer.train(resume_from_checkpoint="auto")
            assert trainer.state.global_step == last
        assert [line["step"] for line in logged(trainer)] == [1, 1, 2, 2]  # one log, that goes on

    def test_half_written_checkpoints_do_not_count(self, made, caplog):
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
    def test_a_checkpoint_of_another_run_needs_an_empty_folder(self, made, tmp_path):
        made("a").train()
        checkpoint, b = str(tmp_path / "a/checkpoint-1"), made("b")
        b.train(resume_from_checkpoint=checkpoint)
        assert [line["step"] for line in logged(b)] == [2, 2]
        before = contents(tmp_path / "b")
        said = r"output_dir='.*b' holds a run \(checkpoint-2\), and resume_from_checkpoint='.*a/check"
        with pytest.raises(ValueError, match=said):
            made("b").train(resume_from_checkpoint=checkpoint)
        assert contents(tmp_path / "b") == before
        run_files.append(tmp_path / "c", {"step": 7, "reward": 0.1})
        with pytest.raises(ValueError, match=r"holds a run \(_logs\)"):  # a log alone is one
            made("c").train(resume_from_checkpoint=checkpoint)

    def test_every_spelling_of_an_own_checkpoint_is_recognised(self, made, tmp_path, monkeypatch):
        made("a").train()
        shutil.rmtree(tmp_path / "a/checkpoint-2")
        monkeypatch.chdir(tmp_path / "a")
        again = made("a")
        again.train(resume_from_checkpoint="checkpoint-1")
        assert again.state.global_step == 2

    @pytest.mark.parametrize("linked", ["output_dir", "checkpoint", "both"])
    def test_a_linked_checkpoint_is_of_the_folder(self, tmp_path, linked):
        """Checkpoints may be moved to a larger disk, under a name of their own."""
        disk, out = tmp_path / "disk", tmp_path / "out"
        folder = disk if linked == "output_dir" else out
        saved = (disk / "kept/of-tuesday") if linked != "output_dir" else disk / "checkpoint-12"
        saved.mkdir(parents=True)
        (saved / "trainer_state.json").write_text('{"global_step": 12}')
        folder.mkdir(exist_ok=True)
        if linked != "output_dir":
            (out / "checkpoint-12").symlink_to(saved)
        else:
            out.symlink_to(disk)
        given = [True, "auto", str(out / "checkpoint-12"), str(out / "checkpoint-12") + "/"]
        given += [str(saved)] if linked == "output_dir" else []
        if linked == "both":
            (tmp_path / "again").symlink_to(out)
            given += [str(tmp_path / "again/checkpoint-12")]
        assert {Path(starting_point(one, str(out))).name for one in given} == {"checkpoint-12"}

    def test_a_script_run_again_begins_anew(self, made, caplog):
        made().train()
        assert "holds a run" not in caplog.text
        made().train()
        assert "holds a run (checkpoint-2, checkpoint-1), and this one begins at step 0" in caplog.text

    def test_a_run_that_goes_back_names_the_checkpoints_that_would_be_continued(self, made, tmp_path, caplog):
        made(max_steps=3).train()
        for step, later in ((3, None), (1, "checkpoint-3, checkpoint-2")):
            caplog.clear()
            assert starting_point(str(tmp_path / f"run/checkpoint-{step}"), str(tmp_path / "run"))
            assert (f"({later})" in caplog.text) if later else not caplog.text

    def test_a_checkpoint_that_is_half_written_over_does_not_count(self, made, tmp_path, monkeypatch):
        made().train()
        again = made()
        monkeypatch.setattr(again, "_save_optimizer_and_scheduler", lambda *_, **__: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            again.train()
        assert [is_complete(tmp_path / f"run/checkpoint-{step}") for step in (1, 2)] == [False, True]


DAMAGED = ["shaping_state.json", "rollout_0_of_1.pt", "dynamic_sampling.pt"]


@pytest.mark.parametrize("name", DAMAGED)
@pytest.mark.parametrize("left", [0.0, 0.6])
def test_damaged_files_are_named_or_skipped(made, tmp_path, caplog, name, left):
    settings = {"steps_per_generation": 4, "dynamic_sampling": "resample", "advantage_shaping": "stare"}
    made(max_steps=3, **settings).train()
    damaged = tmp_path / f"run/checkpoint-3/{name}"
    whole = damaged.read_bytes()
    damaged.write_bytes(whole[: int(left * len(whole))])
    with pytest.raises(CannotContinueError, match=name):
        made(max_steps=4, **settings).train(resume_from_checkpoint=str(damaged.parent))
    again = made(max_steps=4, **settings)
    again.train(resume_from_checkpoint="auto")
    assert "checkpoint-3 is skipped" in caplog.text and again.parts.checkpoints.continued.endswith("checkpoint-2")
