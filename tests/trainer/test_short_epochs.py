"""The log where the last optimizer step of an epoch has fewer micro-batches than the others."""

import pytest
from support.runs import sums

from steer_trl import SteerGRPOTrainer

SIZES = {"gradient_accumulation_steps": 4, "steps_per_generation": 3, "num_train_epochs": 2, "max_steps": -1}
SIZES |= {"shaping_scope": "micro_batch", "learning_rate": 0.1}


@pytest.mark.parametrize("method", ["none", "steer"])
def test_each_step_counts_alike(train, method):
    """TRL alone averages over micro-batches."""

    def entropies(logging_steps):
        data = {"train_dataset": sums().select(range(6))}
        settings = SIZES | {"advantage_shaping": method, "logging_steps": logging_steps}
        log = train(SteerGRPOTrainer, **settings, trainer_arguments=data).state.log_history
        return [entry["entropy"] for entry in log if "entropy" in entry]

    one_by_one, whole = entropies(1), entropies(len(entropies(1)))
    assert len(set(one_by_one)) > 1
    assert whole == [pytest.approx(sum(one_by_one) / len(one_by_one), rel=1e-6)]
