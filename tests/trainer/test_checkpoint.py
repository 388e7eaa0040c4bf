"""A run that is resumed goes on where it was."""

import json
from typing import ClassVar

import pytest
import torch
from support.methods.cases import CASES
from support.runs import same_parameters, sums
from trl import GRPOTrainer

from steer_trl import SteerGRPOTrainer
from steer_trl.shaping import Shaper


class Annealed(Shaper):
    """A custom method that weights every other token by the share of the run that is done."""

    seen: ClassVar[list[float]] = []

    def weights(self, batch, measure):
        self.seen.append(self.progress)
        odd = torch.arange(batch.logps.size(1)) % 2
        return 1 + self.progress * odd.expand_as(batch.logps)


ANNEALED = {"advantage_shaping": f"{__name__}:Annealed"}


class TestCheckpoint:
    SAVED = {"save_strategy": "steps", "save_steps": 2, "max_steps": 5}
    SETTINGS = SAVED | {"advantage_shaping": "stare", "stare_adaptive": True}
    SETTINGS |= {"stare_target_entropy": 5.0, "stare_target_entropy_unit": "initial"}
    FALLING = {"hold_entropy": 4.0, "hold_entropy_unit": "nats", "hold_entropy_final": 3.98}
    FALLING |= {"hold_entropy_decay_start": 0.2}
    RESUMED = {
        "adaptive": SETTINGS,
        "held": {"advantage_shaping": "repo_r"} | FALLING,
        "held STARE": {"advantage_shaping": "stare", "stare_gate": "none"} | FALLING,
        "held bonus": {"advantage_shaping": "entropy_bonus"} | FALLING,
        "held KL": {"advantage_shaping": "none", "hold_entropy_by": "kl"} | FALLING,
        "held KL, twice": {"advantage_shaping": "kl", "num_iterations": 2, "save_steps": 1} | FALLING,
        "draws": {"advantage_shaping": "clip_cov", "num_iterations": 2, "save_steps": 1} | CASES["clip_cov"].lively,
        "memory": {"advantage_shaping": "dcpo", "num_iterations": 2, "save_steps": 1} | CASES["dcpo"].lively,
        "in order": {"shuffle_dataset": False, "advantage_shaping": "stare", "stare_gate": "none"},
        "in order, in a later pass": {"shuffle_dataset": False, "advantage_shaping": "none", "save_steps": 1}
        | {"trainer_arguments": {"train_dataset": sums().select(range(5))}},
        "in order, resampled": {"shuffle_dataset": False, "dynamic_sampling": "resample"},
        "without padding": {"advantage_shaping": "steer", "skip_padding": True, "num_iterations": 2, "save_steps": 1},
        "annealed, within a rollout": ANNEALED | {"num_iterations": 2, "save_steps": 1},
        "counts": {"advantage_shaping": "none", "lr_scheduler_type": "constant"},
    }

    @pytest.mark.parametrize("name", RESUMED)
    def test_a_resumed_run_continues_where_it_was(self, train, make_trainer, tmp_path, name):
        settings = self.SAVED | self.RESUMED[name]
        saved = 3 if settings["save_steps"] == 1 else 2
        whole, last = train(SteerGRPOTrainer, **settings), tmp_path / "run/checkpoint-5/shaping_state.json"
        states = [json.loads(last.read_text())]
        resumed = make_trainer(SteerGRPOTrainer, **settings)
        resumed.train(resume_from_checkpoint=str(tmp_path / f"run/checkpoint-{saved}"))
        states += [json.loads(last.read_text())]
        assert all(state.pop("alarms")["numbers"] for state in states)  # with the time of a step
        assert same_parameters(whole, resumed) and states[0] == states[1]
        before = json.loads((tmp_path / f"run/checkpoint-{saved}/shaping_state.json").read_text())
        progress = {"micro_batches": 2 * saved, "per_rollout": 2 * settings.get("num_iterations", 1)}
        assert before != states[0] and before["progress"] == progress
        strengths = [entry.get("hold_entropy/strength") for entry in whole.state.log_history[:-1]]
        assert (
            len(set(strengths)) * settings.get("num_iterations", 1) >= 4 or "hold_entropy" not in settings
        )  # there was a state to lose
        assert states[0].keys() >= {"settings", "generated"}

    @pytest.mark.parametrize("iterations", [1, 2])
    def test_a_method_knows_the_share_of_the_run(self, train, iterations):
        """Also where nothing else needs a score of the rollout."""
        Annealed.seen.clear()
        train(SteerGRPOTrainer, **ANNEALED, max_steps=4, num_iterations=iterations)
        assert sorted(set(Annealed.seen)) == [0.0, 0.25, 0.5, 0.75][::iterations]

    def test_a_resume_takes_a_new_target(self, train, make_trainer, tmp_path, caplog):
        whole, checkpoint = train(SteerGRPOTrainer, **self.SETTINGS), tmp_path / "run/checkpoint-2"
        resumed = make_trainer(SteerGRPOTrainer, **self.SETTINGS | {"stare_target_entropy": 0.5})
        resumed.train(resume_from_checkpoint=str(checkpoint))
        stare = resumed.parts.shapers["stare"]
        assert stare.controller.target_entropy == 0.5 * stare.start.value
        assert stare.controller.gate is False and "has no state" not in caplog.text
        (checkpoint / "shaping_state.json").unlink()
        resumed = make_trainer(SteerGRPOTrainer, **self.SETTINGS)
        resumed.train(resume_from_checkpoint=str(checkpoint))
        assert resumed.parts.shapers["stare"].state_dict() != whole.parts.shapers["stare"].state_dict()
        assert "has no state of 'stare'" in caplog.text

    @pytest.mark.parametrize(("saved", "content"), [(3, "no rollout"), (4, "its rollout")])
    def test_an_epoch_with_a_shorter_last_step_resumes(self, train, make_trainer, tmp_path, prompts, saved, content):
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

    def test_a_streamed_data_set_is_read_on(self, train, make_trainer, tmp_path, prompts, caplog):
        """Three rollouts a pass, each two optimizer steps. Transformers count what to skip in the first pass only."""
        steps = {"steps_per_generation": 4, "save_strategy": "steps", "save_steps": 1, "max_steps": 8}
        settings = self.SETTINGS | steps
        settings["trainer_arguments"] = {"train_dataset": prompts.select(range(12)).to_iterable_dataset()}
        whole = train(SteerGRPOTrainer, **settings)
        for saved in (6, 3, 7):  # between two rollouts, in the middle of one, and in a later pass
            resumed = make_trainer(SteerGRPOTrainer, **settings)
            resumed.train(resume_from_checkpoint=str(tmp_path / f"run/checkpoint-{saved}"))
            assert same_parameters(whole, resumed) or saved == 7
            assert ("later pass over a streamed train_dataset" in caplog.text) == (saved == 7)

    MIDDLE = {"steps_per_generation": 4, "save_strategy": "steps", "save_steps": 1}

    def test_a_rollout_that_other_batch_sizes_have_cut(self, train, make_trainer, tmp_path):
        train(SteerGRPOTrainer, **self.MIDDLE)
        other = {"per_device_train_batch_size": 8, "gradient_accumulation_steps": 1, "steps_per_generation": 2}
        resumed = make_trainer(SteerGRPOTrainer, **self.MIDDLE | other | {"max_steps": 3})
        said = "per_device_train_batch_size must be 4, got 8, steps_per_generation must"
        with pytest.raises(ValueError, match=said):
            resumed.train(resume_from_checkpoint=str(tmp_path / "run/checkpoint-1"))
        resumed = make_trainer(SteerGRPOTrainer, **self.MIDDLE | other | {"max_steps": 3})
        resumed.train(resume_from_checkpoint=str(tmp_path / "run/checkpoint-2"))  # between two rollouts
        assert resumed.state.global_step == 3

    def test_a_rollout_with_unequal_micro_batches_is_refused(self, train, make_trainer, tmp_path):
        """An earlier version scaled their losses."""
        train(SteerGRPOTrainer, **self.MIDDLE)
        path = tmp_path / "run/checkpoint-1/rollout_0_of_1.pt"
        rollout = torch.load(path)
        torch.save([batch | {"share_of_tokens": 1.0} for batch in rollout], path)
        resumed = make_trainer(SteerGRPOTrainer, **self.MIDDLE)
        with pytest.raises(ValueError, match="earlier version"):
            resumed.train(resume_from_checkpoint=str(path.parent))

    @pytest.mark.parametrize("wrote", [GRPOTrainer, SteerGRPOTrainer])
    def test_without_its_rollout_resume_is_trls(self, train, make_trainer, tmp_path, caplog, wrote):
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

    MOVED = {"held": {"advantage_shaping": "entropy_bonus", "hold_entropy": 1.2, "hold_entropy_until": 1.0}}
    MOVED |= {"adaptive": SETTINGS}

    @pytest.mark.parametrize("name", MOVED)
    def test_a_second_training_starts_from_first_states(self, make_trainer, tmp_path, name):
        """As in a notebook: the checkpoint has no state of what has moved since."""
        sizes = {"per_device_train_batch_size": 32, "gradient_accumulation_steps": 1}
        settings = self.SAVED | self.MOVED[name] | sizes | {"save_steps": 1, "max_steps": 7}
        trainer, fresh = make_trainer(SteerGRPOTrainer, **settings), make_trainer(SteerGRPOTrainer, **settings)
        trainer.train()
        path = tmp_path / "run/checkpoint-2/shaping_state.json"
        state = json.loads(path.read_text())
        path.write_text(json.dumps({key: state[key] for key in state.keys() - {"stare", "alarms"}}))
        ends = []
        for one in (trainer, fresh):
            one.train(resume_from_checkpoint=str(path.parent))
            end = json.loads((tmp_path / "run/checkpoint-7/shaping_state.json").read_text())
            ends.append(end | {"alarms": end["alarms"]["raised"]})
        assert ends[0] == ends[1] and same_parameters(trainer, fresh)
        moved = ends[0]["hold_entropy"]["strength"] if name == "held" else ends[0]["stare"]["amplify"] - 1.15
        assert moved > 0

    def test_another_failure_keeps_its_own_error(self, make_trainer, tmp_path):
        (tmp_path / "run/checkpoint-2/_shaping_state.json.partial").mkdir(parents=True)
        with pytest.raises(IsADirectoryError):
            make_trainer(SteerGRPOTrainer, **self.SAVED).train()
