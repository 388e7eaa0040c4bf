"""Off is exact: parameters equal to GRPOTrainer's bit for bit, however the rollouts are scheduled."""

from functools import partial

import pytest
from support.methods.cases import CASES
from support.runs import OPEN_STARE, of_method, same_parameters
from trl import GRPOTrainer

from steer_trl import SteerGRPOTrainer
from steer_trl.demo.tiny import tiny_qwen2
from steer_trl.options.needs import UNCLIPPED
from steer_trl.shaping import SHAPERS

SEQUENCE = {"importance_sampling_level": "sequence", "loss_type": "luspo"}
SCHEDULES = {
    "on-policy": {},
    "each rollout twice": {"num_iterations": 2},
    "two steps per rollout": {"steps_per_generation": 4},
    "sequence-level ratios": SEQUENCE | {"steps_per_generation": 4},
    "clipped ratios": {"num_iterations": 2, "delta": 1.5, "epsilon": 0.01, "learning_rate": 5e-2},
}
NONE, ONE = {"advantage_shaping": "none"}, {"steer_lambda_min": 1.0}
OFF = {
    "none": NONE,
    "none, with token logs": NONE | {"log_tokens": 1},
    "none, without diagnostics": NONE | {"diagnostics": False, "alarms": False},
    "lambda_min of 1": ONE,
    "lambda_min of 1, binary": ONE | {"steer_mapping": "binary"},
    "lambda_min and lambda_max of 1, linear": ONE | {"steer_mapping": "linear", **of_method("steer", lambda_max=1.0)},
    "W = M = 1": OPEN_STARE | {"stare_variant": "C2", "stare_amplify": 1.0, "stare_attenuate": 1.0},
    "nothing selected": OPEN_STARE | {"stare_top_fraction": 0.0},
    "closed gate": OPEN_STARE | {"stare_amplify": 4.0, "stare_target_entropy": 1e-9},
    "held far below": {"advantage_shaping": "repo_r", "hold_entropy": 1e-9, "hold_entropy_unit": "nats"},
    "held, before the level is known": {"advantage_shaping": "entropy_change", "hold_entropy": 2.0},
    "both off": ONE | {"advantage_shaping": ["steer", "stare"], "stare_target_entropy": 1e-9},
}
ON = {
    "steer": {"steer_lambda_min": 0.3},
    "held above": {"advantage_shaping": "repo_r", "hold_entropy": 100.0, "hold_entropy_unit": "nats"},
    "open gate": OPEN_STARE | {"stare_amplify": 2.0},
}


@pytest.fixture(params=[False, True], ids=["padded", "without padding"])
def train_steer(request, train):
    """Our trainer, with padding and without."""
    return partial(train, SteerGRPOTrainer, skip_padding=request.param)


@pytest.fixture
def train_grpo(train, train_steer):
    """TRL's trainer; without padding, ours with no method."""
    without = partial(train_steer, advantage_shaping="none")
    return without if train_steer.keywords["skip_padding"] else partial(train, GRPOTrainer)


@pytest.mark.parametrize("schedule", ["on-policy", "clipped ratios"])
def test_neutral_settings_are_grpo_bit_for_bit(train_grpo, train_steer, schedule):
    grpo = train_grpo(**SCHEDULES[schedule])
    for name, case in CASES.items():
        if train_steer.keywords["skip_padding"] and name == "entropy_bonus":
            continue  # with a bonus, completions are not ordered
        for neutral in [] if SHAPERS[name].surrogate else case.neutral:  # a loss of its own is not GRPO's
            off = train_steer(**SCHEDULES[schedule], advantage_shaping=name, **neutral)
            assert same_parameters(grpo, off), (name, neutral)


def test_kl_cov_without_its_penalty_is_unclipped_grpo(train_grpo, train_steer):
    settings = SCHEDULES["clipped ratios"] | UNCLIPPED
    grpo = train_grpo(**settings)
    assert same_parameters(grpo, train_steer(**settings, advantage_shaping="kl_cov", **of_method("kl_cov", coef=0.0)))


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_off_is_grpo_bit_for_bit(train_grpo, train_steer, schedule):
    grpo = train_grpo(**SCHEDULES[schedule])
    assert grpo.state.global_step == 4
    for name, off in OFF.items():
        assert same_parameters(grpo, train_steer(**SCHEDULES[schedule], **off)), name
    for name, on in ON.items():  # so that the equality above can fail
        assert not same_parameters(grpo, train_steer(**SCHEDULES[schedule], **on)), name


def test_scoring_the_rollout_draws_no_random_number(train, tokenizer):
    """With dropout, one random number too many in the extra pass would change everything after it."""

    def run(trainer_class, dropout=0.2, **fields):
        model = tiny_qwen2(tokenizer, attention_dropout=dropout)
        return train(trainer_class, model=model, disable_dropout=False, **fields)

    grpo, closed = run(GRPOTrainer), run(SteerGRPOTrainer, **OFF["closed gate"])
    assert closed.state.log_history[0]["rollout_entropy"] > 0
    assert same_parameters(grpo, closed) and not same_parameters(grpo, run(GRPOTrainer, dropout=0.0))
