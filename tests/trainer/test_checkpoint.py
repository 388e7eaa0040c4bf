"""A run that is resumed goes on where it was."""

import json
import shutil
from types import SimpleNamespace

import pytest
import torch
from support.runs import same_parameters
from trl import GRPOTrainer

from steer_trl import SteerGRPOTrainer


class TestCheckpoint:
    SAVED = {"save_strategy": "steps", "save_steps": 2, "max_steps": 5}
    SETTINGS = SAVED | {
        "advantage_shaping": "stare",
        "stare_adaptive": True,
        "stare_target_entropy": 5.0,
        "stare_target_entropy_unit": "initial",
    }

    def test_a_resumed_run_continues_where_it_was(self, train, make_trainer, tmp_path):
        whole = train(SteerGRPOTrainer, **self.SETTINGS)
        checkpoint = tmp_path / "run/checkpoint-2"
        state = json.loads((checkpoint / "shaping_state.json").read_text())["stare"]
        first = whole.state.log_history[0]["rollout_entropy"]
        expected = {"gate": True, "amplify": 1.12, "attenuate": 0.88}
        assert state.pop("start") == {"entropies": [pytest.approx(first)], "is_late": False}
        assert state == pytest.approx(expected)
        resumed = make_trainer(SteerGRPOTrainer, **self.SETTINGS)
        resumed.train(resume_from_checkpoint=str(checkpoint))
        assert same_parameters(whole, resumed)
        assert resumed.shaping.shapers["stare"].state_dict() == whole.shaping.shapers["stare"].state_dict()

    @pytest.mark.parametrize(
        "method",
        [
            {"advantage_shaping": "repo_r"},
            {"advantage_shaping": "stare", "stare_gate": "none"},
            {"advantage_shaping": "entropy_bonus"},
        ],
    )
    def test_a_held_entropy_is_held_as_if_nothing_had_happened(self, train, make_trainer, tmp_path, method):
        falls = {"hold_entropy_final": 3.98, "hold_entropy_decay_start": 0.2}
        settings = self.SAVED | method | falls | {"hold_entropy": 4.0, "hold_entropy_unit": "nats"}
        whole = train(SteerGRPOTrainer, **settings)
        resumed = make_trainer(SteerGRPOTrainer, **settings)
        resumed.train(resume_from_checkpoint=str(tmp_path / "run/checkpoint-2"))
        assert same_parameters(whole, resumed)
        states = [trainer.shaping.hold.state_dict() for trainer in (whole, resumed)]
        assert states[0] == states[1]
        assert "hold_entropy" not in resumed.shaping.tags  # it is no method
        strengths = [entry["hold_entropy/strength"] for entry in whole.state.log_history[:-1]]
        assert len(set(strengths)) >= 4  # there was a state to lose
        levels = [entry["hold_entropy/target"] for entry in resumed.state.log_history[:-1]]
        assert levels == pytest.approx([4.0, 4.0, 4 - 0.02 / 4, 4 - 0.04 / 4, 4 - 0.06 / 4])
        state = json.loads((tmp_path / "run/checkpoint-2/shaping_state.json").read_text())["hold_entropy"]
        assert state["strength"] == strengths[1]

    def test_a_held_entropy_left_out_at_a_resume_is_reported(self, train, make_trainer, tmp_path, caplog):
        """Its method goes back to the strength of its own setting, which is another training."""
        held = {"hold_entropy": 4.0, "hold_entropy_unit": "nats", "advantage_shaping": "repo_r"}
        train(SteerGRPOTrainer, **self.SAVED | held)
        resumed = make_trainer(SteerGRPOTrainer, **self.SAVED | {"advantage_shaping": "repo_r"})
        resumed.train(resume_from_checkpoint=str(tmp_path / "run/checkpoint-2"))
        assert "hold_entropy 4.0, now None" in caplog.text

    def test_without_the_state_it_would_not_and_says_so(self, train, make_trainer, tmp_path, caplog):
        whole = train(SteerGRPOTrainer, **self.SETTINGS)
        checkpoint = tmp_path / "run/checkpoint-2"
        (checkpoint / "shaping_state.json").unlink()
        resumed = make_trainer(SteerGRPOTrainer, **self.SETTINGS)
        resumed.train(resume_from_checkpoint=str(checkpoint))
        assert resumed.shaping.shapers["stare"].state_dict() != whole.shaping.shapers["stare"].state_dict()
        assert "has no state of 'stare'" in caplog.text

    def test_a_new_target_is_taken_on_resume(self, train, make_trainer, tmp_path):
        train(SteerGRPOTrainer, **self.SETTINGS)
        settings = self.SETTINGS | {"stare_target_entropy": 0.5}
        resumed = make_trainer(SteerGRPOTrainer, **settings)
        resumed.train(resume_from_checkpoint=str(tmp_path / "run/checkpoint-2"))
        stare = resumed.shaping.shapers["stare"]
        assert stare.controller.target_entropy == 0.5 * stare.start.value
        assert stare.controller.gate is False

    def test_a_method_without_state_writes_none(self, train, tmp_path):
        train(SteerGRPOTrainer, save_strategy="steps", save_steps=2, alarms=False)
        state = json.loads((tmp_path / "run/checkpoint-2/shaping_state.json").read_text())
        assert state.keys() == {"progress", "settings", "generated", "start_entropy"}  # of the run, and of no method
        assert state["progress"] == {"micro_batches": 4, "per_rollout": 2}

    @pytest.mark.parametrize(
        ("changed", "said"),
        [
            ({"advantage_shaping": "opo"}, ["advantage_shaping ['steer'], now ['opo']"]),
            (
                {"num_generations": 2, "per_device_train_batch_size": 2},
                ["num_generations 4, now 2", "per_device_train_batch_size 4, now 2"],
            ),
            ({}, []),
        ],
        ids=str,
    )
    def test_what_differs_from_the_saved_run_is_said(self, train, make_trainer, tmp_path, caplog, changed, said):
        train(SteerGRPOTrainer, save_strategy="steps", save_steps=2, max_steps=2)
        resumed = make_trainer(SteerGRPOTrainer, max_steps=3, **changed)
        resumed.train(resume_from_checkpoint=str(tmp_path / "run/checkpoint-2"))
        texts = [r.getMessage() for r in caplog.records if "was saved by a run with other settings" in r.getMessage()]
        assert bool(texts) == bool(said) and all(one in texts[0] for one in said)

    @pytest.mark.parametrize(("saved", "content"), [(3, "no rollout"), (4, "its rollout")])
    def test_an_epoch_that_ends_with_a_shorter_step(self, train, make_trainer, tmp_path, prompts, saved, content):
        """Eight micro-batches an epoch, three a step: steps of 3, 3, 2; a rollout lasts two micro-batches."""
        sizes = {"gradient_accumulation_steps": 3, "steps_per_generation": 2, "shaping_scope": "micro_batch"}
        settings = sizes | {"max_steps": 8, "save_strategy": "steps", "save_steps": 1}
        settings["trainer_arguments"] = {"train_dataset": prompts.select(range(8))}
        whole = train(SteerGRPOTrainer, **settings)
        checkpoint = tmp_path / f"run/checkpoint-{saved}"
        assert (checkpoint / "rollout_0_of_1.pt").exists() == (content == "its rollout")
        resumed = make_trainer(SteerGRPOTrainer, **settings)
        resumed.train(resume_from_checkpoint=str(checkpoint))
        assert same_parameters(whole, resumed)

    def streamed(self, prompts):
        """Three rollouts a pass, each two optimizer steps, over a streamed data set."""
        steps = {"steps_per_generation": 4, "save_strategy": "steps", "save_steps": 1, "max_steps": 10}
        return steps | {"trainer_arguments": {"train_dataset": prompts.select(range(12)).to_iterable_dataset()}}

    @pytest.mark.parametrize(
        "method",
        [{"advantage_shaping": "none"}, SETTINGS, {"dynamic_sampling": "mask"}],
        ids=["none", "stare", "mask"],
    )
    def test_a_streamed_data_set_is_read_on(self, train, make_trainer, tmp_path, prompts, method):
        settings = method | self.streamed(prompts)
        whole = train(SteerGRPOTrainer, **settings)
        for saved in (2, 3):  # between two rollouts and in the middle of one
            resumed = make_trainer(SteerGRPOTrainer, **settings)
            resumed.train(resume_from_checkpoint=str(tmp_path / f"run/checkpoint-{saved}"))
            assert same_parameters(whole, resumed)

    @pytest.mark.parametrize(("saved", "is_later"), [(6, False), (7, True)])
    def test_a_later_pass_over_a_streamed_data_set_begins_again_with_a_warning(
        self, train, make_trainer, tmp_path, prompts, caplog, saved, is_later
    ):
        """Transformers count the batches to skip in the first pass only."""
        settings = self.streamed(prompts)
        whole = train(SteerGRPOTrainer, **settings)
        resumed = make_trainer(SteerGRPOTrainer, **settings)
        resumed.train(resume_from_checkpoint=str(tmp_path / f"run/checkpoint-{saved}"))
        assert resumed.state.global_step == 10
        assert ("of a later pass over a streamed train_dataset" in caplog.text) == is_later
        assert same_parameters(whole, resumed) or is_later

    MIDDLE = {"steps_per_generation": 4, "save_strategy": "steps", "save_steps": 1}

    def test_a_rollout_that_other_batch_sizes_have_cut(self, train, make_trainer, tmp_path):
        train(SteerGRPOTrainer, **self.MIDDLE)
        other = self.MIDDLE | {"per_device_train_batch_size": 8, "gradient_accumulation_steps": 1}
        resumed = make_trainer(SteerGRPOTrainer, **other | {"steps_per_generation": 2})
        with pytest.raises(
            ValueError, match="per_device_train_batch_size must be 4, got 8, steps_per_generation must"
        ):
            resumed.train(resume_from_checkpoint=str(tmp_path / "run/checkpoint-1"))
        resumed = make_trainer(SteerGRPOTrainer, **other | {"steps_per_generation": 2, "max_steps": 3})
        resumed.train(resume_from_checkpoint=str(tmp_path / "run/checkpoint-2"))  # between two rollouts
        assert resumed.state.global_step == 3

    @pytest.mark.parametrize("wrote", [GRPOTrainer, SteerGRPOTrainer])
    def test_a_checkpoint_that_does_not_hold_its_rollout_resumes_as_trl_does(
        self, train, make_trainer, tmp_path, caplog, wrote
    ):
        weights_only = {} if wrote is GRPOTrainer else {"save_only_model": True}
        train(wrote, **self.MIDDLE | weights_only)
        checkpoint = str(tmp_path / "run/checkpoint-1")
        off = {"advantage_shaping": "none", "output_dir": str(tmp_path / "other")}
        resumed, plain = make_trainer(SteerGRPOTrainer, **off), make_trainer(GRPOTrainer, output_dir=off["output_dir"])
        for trainer in (resumed, plain):
            torch.manual_seed(0)  # weights alone bring no random state
            trainer.train(resume_from_checkpoint=checkpoint)
        assert same_parameters(resumed, plain)
        assert "does not record where in a rollout it was saved" in caplog.text

    def test_true_is_the_last_complete_checkpoint(self, train, make_trainer, tmp_path, caplog):
        whole = train(SteerGRPOTrainer, **self.SETTINGS)
        for step, torn in ((4, '{"epoch": '), (5, None)):  # killed while they were written
            state = tmp_path / f"run/checkpoint-{step}/trainer_state.json"
            state.parent.mkdir(exist_ok=True)
            state.unlink(missing_ok=True)
            if torn:
                state.write_text(torn)
        resumed = make_trainer(SteerGRPOTrainer, **self.SETTINGS)
        resumed.train(resume_from_checkpoint=True)
        assert same_parameters(whole, resumed)
        assert [f"checkpoint-{step} is skipped" in caplog.text for step in (2, 4, 5)] == [False, True, True]
        assert resumed.state.log_history[2]["step"] == 3

    def test_true_without_a_complete_checkpoint(self, make_trainer, tmp_path):
        (tmp_path / "run/checkpoint-2").mkdir(parents=True)
        with pytest.raises(ValueError, match="needs a complete checkpoint in output_dir"):
            make_trainer(SteerGRPOTrainer).train(resume_from_checkpoint=True)

    @pytest.mark.parametrize("library", [False, True], ids=["ours", "torch"])
    def test_a_full_disk_is_named(self, make_trainer, tmp_path, monkeypatch, library):
        """Ours says that no space is left; torch says that a position is unexpected, and then the disk is asked."""
        checkpoint = tmp_path / "run/checkpoint-2"
        checkpoint.mkdir(parents=True)
        (checkpoint / ("optimizer.pt" if library else "_shaping_state.json.partial")).symlink_to("/dev/full")
        if library:
            monkeypatch.setattr(shutil, "disk_usage", lambda folder: SimpleNamespace(free=4096))
        with pytest.raises(RuntimeError, match=r"The disk of .*run is full, .*'auto'"):
            make_trainer(SteerGRPOTrainer, **self.SAVED).train()

    def test_another_failure_keeps_its_own_error(self, make_trainer, tmp_path):
        (tmp_path / "run/checkpoint-2/_shaping_state.json.partial").mkdir(parents=True)
        with pytest.raises(IsADirectoryError):
            make_trainer(SteerGRPOTrainer, **self.SAVED).train()

    def test_card_names_the_methods(self, train, tmp_path):
        train(SteerGRPOTrainer, **self.SETTINGS | {"advantage_shaping": ["steer", "stare"]})
        card = (tmp_path / "run/README.md").read_text()
        assert all(text in card for text in ("- steer\n", "- stare\n", "2510.10150", "2606.19236"))
