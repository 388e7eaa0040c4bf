"""A full disk ends a run in one error, which names the complete checkpoints and how to go on."""

import shutil
from types import SimpleNamespace

import pytest

from steer_trl import SteerGRPOTrainer
from steer_trl.support.exceptions import CannotContinueError

SAVED = {"save_strategy": "steps", "save_steps": 1, "max_steps": 3, "steps_per_generation": 4}
BY_TORCH = {"optimizer.pt", "scheduler.pt", "rng_state.pth", "training_args.bin", "_rollout_0_of_1.pt.partial"}
"""Files for which torch reports that a write failed, without the reason."""
BY_OTHERS = {"_shaping_state.json.partial", "config.json", "tokenizer_config.json"}


@pytest.mark.parametrize("name", sorted(BY_TORCH | BY_OTHERS))
def test_a_full_disk_is_named(make_trainer, tmp_path, monkeypatch, name):
    """The third checkpoint meets a device that is always full, at each of its files in turn."""
    run = tmp_path / "run"
    trainer = make_trainer(SteerGRPOTrainer, **SAVED)
    save = trainer.save_model

    def save_on_full_disk(output_dir=None, _internal_call=False):
        if str(output_dir).endswith("checkpoint-3"):
            (run / "checkpoint-3").mkdir()
            (run / "checkpoint-3" / name).symlink_to("/dev/full")
            if name in BY_TORCH:
                monkeypatch.setattr(shutil, "disk_usage", lambda folder: SimpleNamespace(free=4096))
        save(output_dir, _internal_call)

    monkeypatch.setattr(trainer, "save_model", save_on_full_disk)
    with pytest.raises(CannotContinueError, match=r"Complete: checkpoint-2, checkpoint-1\. .*'auto'") as stopped:
        trainer.train()
    assert "safe to remove: checkpoint-3" in str(stopped.value) and str(run) in str(stopped.value)
    monkeypatch.undo()
    resumed = make_trainer(SteerGRPOTrainer, **SAVED)
    shutil.rmtree(run / "checkpoint-3")
    resumed.train(resume_from_checkpoint="auto")
    assert resumed.state.global_step == 3


def test_an_error_of_a_reward_function_is_its_own(make_trainer, monkeypatch):
    """Even on a disk that is full: nothing was being saved."""

    def fail(completions, **_):
        raise RuntimeError("a reward")

    monkeypatch.setattr(shutil, "disk_usage", lambda folder: SimpleNamespace(free=0))
    with pytest.raises(RuntimeError, match="a reward") as stopped:
        make_trainer(SteerGRPOTrainer, **SAVED, trainer_arguments={"reward_funcs": fail}).train()
    assert not isinstance(stopped.value, CannotContinueError)
