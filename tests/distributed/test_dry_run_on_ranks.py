"""A dry run on two processes changes nothing of the training that follows, with each engine that can do that."""

import pytest
from support.processes import TWO_PROCESSES, engine_on_cpu

SIZES = {"per_device_train_batch_size": 4, "gradient_accumulation_steps": 2, "max_grad_norm": 1.0}
CASES = {
    "steer": {"advantage_shaping": "steer", "steer_lambda_min": 0.3},
    "held": {"advantage_shaping": "stare", "hold_entropy": 5.0, "hold_entropy_unit": "nats"},
}


def cases():
    """Each case with AdamW, without and with a dry run."""
    of_adamw = {"optim": "adamw_torch", "learning_rate": 0.01}
    return [
        {"fields": fields | SIZES | of_adamw, "steps": 3, "dry_run": looks}
        for fields in CASES.values()
        for looks in (False, True)
    ]


@pytest.mark.parametrize("name", ["two processes", "zero3"])
def test_the_training_is_that_without_it(run_cases, tmp_path, name):
    is_launched = name != "two processes"
    engine = engine_on_cpu(name, tmp_path) if is_launched else TWO_PROCESSES
    results = run_cases(cases(), engine, launched=is_launched)
    for without, with_it in zip(results[::2], results[1::2], strict=True):
        assert with_it["losses"] == without["losses"]
        assert with_it["weights"] == without["weights"]
        assert with_it["update"] == without["update"]
        assert any(any(values) for values in without["update"].values())
