"""TRL's entropy bonus under a coefficient that moves, against TRL's own trainer with the same coefficients."""

import pytest
from support.methods.batches import config
from support.runs import of_method, same_parameters
from transformers import TrainerCallback
from trl import GRPOTrainer

from steer_trl import SteerGRPOTrainer
from steer_trl.shaping import Shaper

BONUS = {"advantage_shaping": "entropy_bonus"}
OF_TRL = ("loss", "policy_loss", "entropy_coef", "entropy", "grad_norm", "reward")
SWITCHES = {
    "on-policy": {},
    "off-policy": {"num_iterations": 2},
    "beta": {"beta": 0.5, "loss_type": "vespo", "steps_per_generation": 4},
    "masks": {"top_entropy_quantile": 0.3, "mask_truncated_completions": True},
}


def logged(trainer):
    """What TRL logs of each step, without the summary at the end."""
    entries = [entry for entry in trainer.state.log_history if "grad_norm" in entry]
    return [{key: entry[key] for key in OF_TRL if key in entry} for entry in entries]


@pytest.mark.parametrize("switch", SWITCHES)
@pytest.mark.parametrize("coefficient", [0.2, -0.05])
def test_a_constant_coefficient_is_trls_bonus(train, switch, coefficient):
    ours = train(SteerGRPOTrainer, **SWITCHES[switch], **BONUS, **of_method("entropy_bonus", coef=coefficient))
    theirs = train(GRPOTrainer, **SWITCHES[switch], entropy_coef=coefficient)
    assert same_parameters(ours, theirs)
    assert logged(ours) == logged(theirs) and logged(ours)[0].keys() == set(OF_TRL)
    assert not same_parameters(ours, train(GRPOTrainer, **SWITCHES[switch]))


def test_without_strength_everything_is_trls(train):
    plain = train(GRPOTrainer)
    for off in (
        of_method("entropy_bonus", coef=0.0),
        {"hold_entropy": 1e-9, "hold_entropy_unit": "nats"},
    ):
        ours = train(SteerGRPOTrainer, **BONUS, **off)
        assert same_parameters(ours, plain)
        assert logged(ours) == logged(plain) and not {"policy_loss", "entropy_coef"} & logged(plain)[0].keys()


def train_with(coefficients, make_trainer, kind, **settings):
    """Train with the coefficients of a list, step by step."""

    class Coefficients(TrainerCallback):
        def on_step_begin(self, args, state, control, **kwargs):
            if kind is SteerGRPOTrainer:
                trainer.parts.shapers["entropy_bonus"].strength = coefficients[state.global_step]
            else:
                trainer.entropy_coef = coefficients[state.global_step]

    trainer = make_trainer(kind, **settings, trainer_arguments={"callbacks": [Coefficients()]})
    trainer.train()
    return trainer


def test_a_coefficient_back_at_0_leaves_no_bonus(make_trainer):
    moves = [0.2, 0.0, -0.1, 0.0]
    ours = train_with(moves, make_trainer, SteerGRPOTrainer, **BONUS)
    assert same_parameters(ours, train_with(moves, make_trainer, GRPOTrainer, entropy_coef=1.0))
    assert [entry.get("entropy_coef") for entry in logged(ours)] == [0.2, None, -0.1, None]
    assert ["policy_loss" in entry for entry in logged(ours)] == [True, False, True, False]


@pytest.mark.parametrize("schedule", [{}, {"steps_per_generation": 4}])
def test_a_held_entropy_is_trls_bonus(make_trainer, train, schedule):
    held = {"hold_entropy": 4.0, "hold_entropy_unit": "nats", "hold_entropy_until": 1.0}
    settings = {"max_steps": 8, "learning_rate": 3e-3} | schedule
    ours = train(SteerGRPOTrainer, **settings, **BONUS, **held)
    strengths = [entry["hold_entropy/strength"] for entry in ours.state.log_history if "grad_norm" in entry]
    assert len(set(strengths)) >= 3 and max(strengths) > 0
    for entry, strength in zip(ours.state.log_history, strengths, strict=False):
        assert entry.get("entropy_coef", 0.0) == strength
    assert same_parameters(ours, train_with(strengths, make_trainer, GRPOTrainer, **settings, entropy_coef=1.0))


class Other(Shaper):
    def entropy_coef(self):
        return 0.5


@pytest.mark.parametrize(
    ("others", "settings", "text"),
    [
        ([], {"entropy_coef": 0.01}, "entropy_coef=0.01 cannot be combined with 'entropy_bonus': it sets the coeff"),
        ([], {"use_adaptive_entropy": True}, "use_adaptive_entropy=True cannot be combined with 'entropy_bonus'"),
        (
            [],
            {**of_method("entropy_bonus", coef=0.01), "hold_entropy": 0.5},
            "entropy_bonus.coef=0.01 cannot be combined with h",
        ),
        ([f"{__name__}.Other"], {}, "cannot be combined: each sets the one coefficient of TRL's entropy bonus"),
    ],
)
def test_two_masters_of_the_coefficient_are_refused(others, settings, text):
    with pytest.raises(ValueError, match=text):
        config("entropy_bonus", *others, **settings)
