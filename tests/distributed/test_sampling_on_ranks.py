"""Dynamic sampling on two processes: the same groups, weights and gradients as on one; groups may lie across."""

import numpy as np
import pytest
from support.processes import TWO_PROCESSES

# (processes, sequences per micro-batch, micro-batches): 3 groups of 8; on two processes the second lies across.
SPLITS = [(1, 4, 6), (1, 8, 3), (2, 4, 3)]
STARE = {"advantage_shaping": "stare", "stare_amplify": 2.0, "stare_target_entropy": 100.0}
RESAMPLE = {"dynamic_sampling": "resample"}
CASES = {
    "resample": STARE | RESAMPLE,
    "surplus": {"steer_lambda_min": 0.3} | RESAMPLE | {"dynamic_sampling_factor": 2},
    "compared": {"advantage_shaping": "gtpo"} | RESAMPLE,
    "missing": STARE | RESAMPLE | {"dynamic_sampling_factor": 0},
    "short": STARE | RESAMPLE | {"dynamic_sampling_max_attempts": 1},
}


@pytest.fixture(scope="module")
def results(run_cases):
    found = {name: [] for name in CASES}
    for processes in (1, 2):
        sizes = [split[1:] for split in SPLITS if split[0] == processes]
        cases = [
            {
                "variant": "by_prompt",
                "steps": 2,
                "prompts": 64,
                "fields": fields
                | {"num_generations": 8, "per_device_train_batch_size": size, "gradient_accumulation_steps": count},
            }
            for name, fields in CASES.items()
            for size, count in sizes
        ]
        done = iter(run_cases(cases, TWO_PROCESSES if processes == 2 else None))
        for name in CASES:
            found[name] += [next(done) for _ in sizes]
    return found


@pytest.mark.parametrize("name", CASES)
def test_every_split_gives_the_same_advantages_and_update(results, name):
    runs = results[name]
    assert runs[0]["advantages"].keys() == runs[1]["advantages"].keys() == runs[2]["advantages"].keys()
    updates = [np.concatenate([run["update"][key] for key in sorted(run["update"])]) for run in runs]
    for run, update in zip(runs, updates, strict=True):
        for key, advantages in runs[0]["advantages"].items():
            assert run["advantages"][key] == pytest.approx(advantages, abs=2e-5), key
        assert np.linalg.norm(update - updates[0]) < 1e-4 * np.linalg.norm(updates[0])
    flat = [not any(advantages) for advantages in runs[0]["advantages"].values()]
    assert len(flat) == 2 * 24 and any(flat) == (name == "short")
