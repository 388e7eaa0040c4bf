"""Every engine trains as a single process does, on the same completions, from the configuration that is shipped."""

import numpy as np
import pytest
from support.processes import engine_on_cpu
from support.runs import OPEN_STARE

ENGINES = {"ddp": "MULTI_CPU x 2", "zero2": "DEEPSPEED 2 x 2", "zero3": "DEEPSPEED 3 x 2", "fsdp2": "FSDP x 2"}
CASES = {
    "steer": {"advantage_shaping": "steer", "steer_lambda_min": 0.3},
    "idle": {"advantage_shaping": "steer", "steer_lambda_min": 0.3},
    "stare": OPEN_STARE | {"stare_variant": "C2", "stare_amplify": 2.0, "stare_attenuate": 0.5},
    "exact": {"advantage_shaping": ["steer", "entropy_change"], "steer_form": "exact", "steer_lambda_min": 0.3},
    "exact_lora": {"advantage_shaping": ["steer", "stare"], "steer_form": "exact", "stare_target_entropy": 100.0},
    "reference": {"advantage_shaping": "steer", "steer_lambda_min": 0.3, "beta": 0.5},
    "judge": {"advantage_shaping": "steer", "steer_lambda_min": 0.3},
    "lora": {"advantage_shaping": ["steer", "stare"], "steer_lambda_min": 0.3, "stare_target_entropy": 100.0},
}


def cases(size, skip_padding=True):
    sizes = {"per_device_train_batch_size": size, "gradient_accumulation_steps": 2, "learning_rate": 0.1}
    sizes |= {"skip_padding": skip_padding}
    # Half of the completions of "idle" have no advantage.
    return [
        {
            "fields": fields | sizes,
            "steps": 3,
            "judge": name == "judge",
            "lora": name.endswith("lora"),
            "variant": "one_sided" if name == "idle" else "plain",
        }
        for name, fields in CASES.items()
    ]


@pytest.fixture(scope="module")
def alone(run_cases):
    return dict(zip(CASES, run_cases(cases(8, skip_padding=False)), strict=True))


@pytest.fixture(scope="module", params=ENGINES)
def engine(request, run_cases, tmp_path_factory):
    path = engine_on_cpu(request.param, tmp_path_factory.mktemp("engine"))
    results = dict(zip(CASES, run_cases(cases(4), path, launched=True), strict=True))
    assert {result["engine"] for result in results.values()} == {ENGINES[request.param]}
    return results


@pytest.mark.parametrize("case", CASES)
def test_trains_as_a_single_process_does(alone, engine, case):
    one, two = alone[case], engine[case]
    assert two["losses"] == pytest.approx(one["losses"], rel=1e-4, abs=1e-6)
    assert two["weights"].keys() == one["weights"].keys()
    for key, weights in one["weights"].items():
        np.testing.assert_allclose(two["weights"][key], weights, atol=1e-4)
    for name, update in one["update"].items():
        np.testing.assert_allclose(two["update"][name], update, rtol=1e-3, atol=2e-5, err_msg=name)
    assert any(np.abs(update).max() > 1e-4 for update in one["update"].values())
