"""TRL's KL penalty under a coefficient that moves, against TRL's own trainer with the same coefficients."""

import pytest
from peft import LoraConfig
from support.methods.batches import config
from support.runs import of_method, same_parameters
from transformers import TrainerCallback
from trl import GRPOTrainer

from steer_trl import SteerGRPOTrainer
from steer_trl.shaping import Shaper

KL = {"advantage_shaping": "kl"}
HELD = {"hold_entropy": 4.0, "hold_entropy_unit": "nats", "hold_entropy_until": 1.0, "hold_entropy_by": "kl"}
OF_TRL = ("loss", "kl", "entropy", "grad_norm", "reward")
SWITCHES = {
    "on-policy": {"use_bias_correction_kl": False},
    "off-policy": {"num_iterations": 2},
    "vespo": {"loss_type": "vespo", "steps_per_generation": 4},
    "masks": {"top_entropy_quantile": 0.3, "mask_truncated_completions": True},
}


class Counting(SteerGRPOTrainer):
    """Counts the passes of the reference model."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.passes = 0
        self.ref_model.register_forward_hook(self.count)

    def count(self, *_):
        self.passes += 1


def logged(trainer):
    """What TRL logs of each step, without the summary at the end."""
    entries = [entry for entry in trainer.state.log_history if "grad_norm" in entry]
    return [{key: entry[key] for key in OF_TRL if key in entry} for entry in entries]


def lora():
    return {"peft_config": LoraConfig(r=4, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM")}


@pytest.mark.parametrize("switch", SWITCHES)
def test_a_constant_coefficient_is_trls_penalty(train, switch):
    ours = train(SteerGRPOTrainer, **SWITCHES[switch], **KL, **of_method("kl", coef=0.5))
    theirs = train(GRPOTrainer, **SWITCHES[switch], beta=0.5)
    assert same_parameters(ours, theirs)
    assert logged(ours) == logged(theirs) and logged(ours)[0].keys() == set(OF_TRL)
    assert not same_parameters(ours, train(GRPOTrainer, **SWITCHES[switch]))


def test_the_reference_of_an_adapter_is_its_base_model(train):
    ours = train(SteerGRPOTrainer, **KL, **of_method("kl", coef=0.5), trainer_arguments=lora())
    assert ours.ref_model is None
    theirs = train(GRPOTrainer, beta=0.5, trainer_arguments=lora())
    assert same_parameters(ours, theirs) and logged(ours) == logged(theirs)


def test_without_strength_everything_is_trls_and_the_reference_rests(train):
    plain = train(GRPOTrainer)
    for off in (KL | of_method("kl", coef=0.0), HELD | {"hold_entropy": 1e-9}):
        ours = train(Counting, **off, skip_padding=False)
        assert ours.passes == 0
        assert same_parameters(ours, plain)
        assert logged(ours) == logged(plain) and "kl" not in logged(plain)[0]


def test_no_reader_of_the_settings_sees_a_beta(train, prompts):
    settings = {"eval_strategy": "steps", "eval_steps": 1, "max_steps": 1, "max_completion_length": 4}
    data = {"eval_dataset": prompts.select(range(4))}
    ours = train(Counting, **KL, **of_method("kl", coef=0.5), **settings, trainer_arguments=data)
    assert (ours.args.beta, ours.beta) == (0.0, 0.0)
    assert not any("eval_kl" in entry for entry in ours.state.log_history)


def train_with(coefficients, make_trainer, **settings):
    """Train TRL's trainer with the coefficients of a list, step by step."""

    class Coefficients(TrainerCallback):
        def on_step_begin(self, args, state, control, **kwargs):
            trainer.beta = coefficients[state.global_step]

    trainer = make_trainer(GRPOTrainer, **settings, beta=1.0, trainer_arguments={"callbacks": [Coefficients()]})
    trainer.train()
    return trainer


@pytest.mark.parametrize("schedule", [{}, {"steps_per_generation": 4}])
def test_a_held_entropy_is_trls_penalty(make_trainer, train, schedule):
    settings = {"max_steps": 8, "learning_rate": 3e-3} | schedule
    ours = train(SteerGRPOTrainer, **settings, **HELD, advantage_shaping="none")
    assert list(ours.parts.shapers) == ["kl"]
    entries = [entry for entry in ours.state.log_history if "grad_norm" in entry]
    strengths = [entry["hold_entropy/strength"] for entry in entries]
    assert len(set(strengths)) >= 3 and max(strengths) > 0
    assert ["kl" in entry for entry in entries] == [strength > 0 for strength in strengths]
    assert same_parameters(ours, train_with(strengths, make_trainer, **settings))


def test_a_fall_of_the_entropy_raises_the_coefficient(make_trainer):
    trainer = make_trainer(SteerGRPOTrainer, **HELD | {"hold_entropy": 0.5})
    for entropy, expected in [(0.6, False), (0.5, False), (0.3, True)]:
        trainer.parts.hold.on_rollout(entropy, 0.0)
        assert (trainer.parts.shapers["kl"].kl_coef() > 0) is expected


class Other(Shaper):
    def kl_coef(self):
        return 0.5


@pytest.mark.parametrize(
    ("others", "settings", "text"),
    [
        ([], {"beta": 0.01}, r"beta=0.01 cannot be combined with 'kl'"),
        ([], {"sync_ref_model": True}, r"sync_ref_model=True cannot be combined with 'kl'"),
        ([], of_method("kl", coef=0.01) | {"hold_entropy": 0.5}, r"kl.coef=0.01 cannot be combined with h"),
        ([f"{__name__}.Other"], {}, r"'kl', .*Other'\] cannot be combined"),
        (["js_to_start"], {"beta": 0.05}, r"'kl', 'js_to_start'\] cannot be combined"),
    ],
)
def test_two_masters_of_the_coefficient_are_refused(others, settings, text):
    with pytest.raises(ValueError, match=text):
        config("kl", *others, **settings)
