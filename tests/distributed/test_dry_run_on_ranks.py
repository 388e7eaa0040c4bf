"""A dry run on two processes changes nothing of the training that follows, with each engine that can do that.

FSDP changes the model in place, so there a dry run before a training is refused. The refusal changes nothing
either. A dry run without a training gives the numbers of the training's first step.
"""

import pytest
from support.processes import TWO_PROCESSES, engine_on_cpu

SIZES = {"per_device_train_batch_size": 4, "gradient_accumulation_steps": 2, "max_grad_norm": 1.0}
CASES = {
    "steer": {"advantage_shaping": "steer", "steer_lambda_min": 0.3},
    "held": {"advantage_shaping": "stare", "hold_entropy": 5.0, "hold_entropy_unit": "nats"},
}


def cases(*looks):
    """Each case with AdamW, with each kind of dry run."""
    of_adamw = {"optim": "adamw_torch", "learning_rate": 0.01}
    return [
        {"fields": fields | SIZES | of_adamw, "steps": 3, "dry_run": look}
        for fields in CASES.values()
        for look in looks
    ]


def is_equal(one, other):
    return all(one[name] == other[name] for name in ("losses", "weights", "update"))


@pytest.mark.parametrize("name", ["two processes", "zero3"])
def test_a_dry_run_leaves_the_training_unchanged(run_cases, tmp_path, name):
    is_launched = name != "two processes"
    engine = engine_on_cpu(name, tmp_path) if is_launched else TWO_PROCESSES
    results = run_cases(cases(False, True), engine, launched=is_launched)
    for without, with_it in zip(results[::2], results[1::2], strict=True):
        assert is_equal(with_it, without)
        assert any(any(values) for values in without["update"].values())


def test_under_fsdp_a_dry_run_works_only_without_a_training(run_cases, tmp_path):
    engine = engine_on_cpu("fsdp2", tmp_path)
    results = run_cases(cases(False, "refused", "alone"), engine, launched=True)
    for without, refused, alone in zip(results[::3], results[1::3], results[2::3], strict=True):
        assert without["engine"] == alone["engine"] == "FSDP x 2"
        assert is_equal(refused, without)
        first = {name: value for name, value in without["first"].items() if value is not None}
        assert {"grad_norm", "entropy", "reward"} <= first.keys()
        assert {name: alone["numbers"][name] for name in first} == pytest.approx(first, rel=1e-6)
