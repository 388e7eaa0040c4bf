"""A TRL that would train plain GRPO in silence ends in an error, in its first step."""

import pytest
import torch
from support.runs import same_parameters
from trl import GRPOTrainer

from steer_trl import SteerGRPOTrainer
from steer_trl.trainer.checks.tripwire import WatchedInputs


def reads_early(loss):
    """TRL's loss, if it took the advantages before its forward pass."""

    def early(self, model, inputs):
        return loss(self, model, dict(inputs))

    return early


def calls_another_function(loss):
    """TRL's loss, if it made its log-probabilities by a function of another name."""
    forward = GRPOTrainer._get_per_token_logps_and_entropies

    def other(self, model, inputs):
        self._get_per_token_logps_and_entropies = forward.__get__(self)
        try:
            return loss(self, model, inputs)
        finally:
            del self._get_per_token_logps_and_entropies

    return other


@pytest.mark.parametrize(
    ("patch", "text"),
    [
        (reads_early, "did not read the advantages after its forward pass"),
        (calls_another_function, "did not call GRPOTrainer._get_per_token_logps_and_entropies"),
    ],
)
@pytest.mark.parametrize("method", ["steer", "repo_r"])
def test_a_loss_without_the_weights_is_refused(make_trainer, monkeypatch, patch, text, method):
    monkeypatch.setattr(GRPOTrainer, "_compute_loss", patch(GRPOTrainer._compute_loss))
    trainer = make_trainer(SteerGRPOTrainer, advantage_shaping=method)
    with pytest.raises(RuntimeError, match=rf"do not reach TRL's loss: .*{text}.* Installed: trl "):
        trainer.train()
    assert trainer.state.global_step == 0


class OwnLoss(SteerGRPOTrainer):
    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        return self._compute_loss(model, inputs)


class DroppedLoss(SteerGRPOTrainer):
    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        super().compute_loss(model, inputs)
        return GRPOTrainer._compute_loss(self, model, inputs)


class OwnStep(SteerGRPOTrainer):
    def training_step(self, model, inputs, num_items_in_batch=None):
        loss = GRPOTrainer.compute_loss(self, model, self._prepare_inputs(inputs))
        self.accelerator.backward(loss)
        self._step += 1
        return loss.detach()


class OwnRollout(SteerGRPOTrainer):
    _generate_and_score_completions = GRPOTrainer._generate_and_score_completions


HELD = {"hold_entropy": 0.1, "hold_entropy_unit": "nats"}


def test_bypassing_a_hook_ends_the_first_step(make_trainer, tmp_path):
    """Without TRL's step, TRL takes training for an evaluation."""
    trainer = make_trainer(OwnStep, save_strategy="steps", save_steps=1, advantage_shaping="stare")
    with pytest.raises(RuntimeError, match=r"OwnStep\.training_step bypasses"):
        trainer.train()
    assert trainer.state.global_step == 1 and not list((tmp_path / "run").glob("checkpoint-*"))


def test_a_loss_that_is_thrown_away_ends_the_first_step(make_trainer, tmp_path):
    trainer = make_trainer(DroppedLoss, save_strategy="steps", save_steps=1, advantage_shaping="repo_r")
    with pytest.raises(RuntimeError, match=r"DroppedLoss\.compute_loss"):
        trainer.train()
    assert trainer.state.global_step == 1 and not list((tmp_path / "run").glob("checkpoint-*"))


@pytest.mark.parametrize(
    ("trainer_class", "method", "settings"),
    [
        (OwnLoss, "none", {}),
        (OwnLoss, "opo", {}),  # it has shaped the rollout
        (OwnRollout, "steer", {}),  # and it shapes the loss
        (SteerGRPOTrainer, "repo_r", HELD),  # above its level, at strength 0
    ],
)
def test_a_shaped_loss_and_a_resting_method_are_accepted(train, trainer_class, method, settings):
    assert train(trainer_class, max_steps=2, advantage_shaping=method, **settings).state.global_step == 2


@pytest.fixture
def without_entropies(monkeypatch):
    """TRL as Unsloth patches it: a forward pass that returns no entropies, and a loss that asks for none."""
    forward = GRPOTrainer._get_per_token_logps_and_entropies

    def without(self, *args, **kwargs):
        logps, _, others = forward(self, *args, **kwargs)
        return logps, None, others

    def loss(self, model, inputs):
        ids, masks = (torch.cat([inputs[f"prompt_{x}"], inputs[f"completion_{x}"]], dim=1) for x in ("ids", "mask"))
        logps, *_ = self._get_per_token_logps_and_entropies(model, ids, masks, inputs["completion_ids"].size(1))
        return -((logps - logps.detach()).exp() * inputs["advantages"].view(len(ids), -1)).mean()

    monkeypatch.setattr(GRPOTrainer, "_get_per_token_logps_and_entropies", without)
    monkeypatch.setattr(GRPOTrainer, "_compute_loss", loss)


@pytest.mark.parametrize(("method", "steps"), [("repo_r", None), ("steer", 4)])  # with 4, the rollout is scored
def test_a_forward_pass_without_entropies_is_refused(make_trainer, without_entropies, method, steps):
    trainer = make_trainer(SteerGRPOTrainer, advantage_shaping=method, steps_per_generation=steps)
    with pytest.raises(RuntimeError, match=r"returned no entropies.*nothing that patches GRPOTrainer.*AlarmsCallback"):
        trainer.train()
    assert trainer.state.global_step == 0


def test_plain_grpo_trains_on_a_patched_trl(train, without_entropies):
    trainer = train(SteerGRPOTrainer, advantage_shaping="none", max_steps=2)
    log = [entry for entry in trainer.state.log_history if "loss" in entry]
    assert len(log) == 2 and "reward" in log[0] and "quadrants/positive_expected" not in log[0]


def test_plain_grpo_is_asked_for_nothing(train, monkeypatch):
    grpo = train(GRPOTrainer)
    monkeypatch.setattr(GRPOTrainer, "_compute_loss", reads_early(GRPOTrainer._compute_loss))
    assert same_parameters(grpo, train(SteerGRPOTrainer, advantage_shaping="none"))


@pytest.mark.parametrize(
    "read",
    [lambda inputs: inputs["advantages"], lambda inputs: inputs.get("advantages"), dict, lambda inputs: {**inputs}],
)
def test_every_way_to_read_the_advantages_is_noticed(read):
    inputs = WatchedInputs({"advantages": 1.0})
    read(inputs)
    assert not inputs.is_read
    inputs.is_watching = True
    read(inputs)
    assert inputs.is_read
