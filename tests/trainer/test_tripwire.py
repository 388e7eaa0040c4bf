"""A TRL that would train plain GRPO in silence ends in an error, in its first step."""

import pytest
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
@pytest.mark.parametrize("method", ["steer", "stare", "repo_r"])
def test_a_loss_that_does_not_take_the_weights_is_refused(make_trainer, monkeypatch, patch, text, method):
    monkeypatch.setattr(GRPOTrainer, "_compute_loss", patch(GRPOTrainer._compute_loss))
    trainer = make_trainer(SteerGRPOTrainer, advantage_shaping=method)
    with pytest.raises(RuntimeError, match=rf"do not reach TRL's loss: .*{text}.* Installed: trl "):
        trainer.train()
    assert trainer.state.global_step == 0


def test_a_forward_pass_without_entropies_is_refused(make_trainer, monkeypatch):
    """As Unsloth's is."""
    forward = GRPOTrainer._get_per_token_logps_and_entropies

    def without(self, *args, **kwargs):
        logps, _, others = forward(self, *args, **kwargs)
        return logps, None, others

    monkeypatch.setattr(GRPOTrainer, "_get_per_token_logps_and_entropies", without)
    with pytest.raises(RuntimeError, match=r"returned no entropies.*nothing that patches GRPOTrainer"):
        make_trainer(SteerGRPOTrainer, advantage_shaping="repo_r").train()


def test_plain_grpo_is_asked_for_nothing(train, monkeypatch):
    grpo = train(GRPOTrainer)
    monkeypatch.setattr(GRPOTrainer, "_compute_loss", reads_early(GRPOTrainer._compute_loss))
    assert same_parameters(grpo, train(SteerGRPOTrainer, advantage_shaping="none"))


@pytest.mark.parametrize(
    "copied",
    [
        dict,
        lambda inputs: {**inputs},
        lambda inputs: inputs.copy(),
        lambda inputs: {} | inputs,
        lambda i: i.get("advantages"),
    ],
)
def test_whoever_copies_the_inputs_has_read_them(copied):
    early, late = WatchedInputs({"advantages": 1.0}), WatchedInputs({"advantages": 1.0})
    copied(early)
    early.watch()
    with pytest.raises(RuntimeError, match="did not read the advantages"):
        early.check()
    late.watch()
    copied(late)
    late.check()
