"""On is the paper: the authors' own outputs, the papers' formulas in float64, and the golden fixture."""

import json
import math
import re
from pathlib import Path

import pytest
import torch

from steer_trl import TargetEntropyController
from steer_trl.functional import entropy_change, released_entropy_change, stare_weights, steer_weights

TOLERANCE = {"atol": 1e-6, "rtol": 1e-6}
NUMBERS = {"exponential": ["lambda_min"], "linear": ["lambda_min", "lambda_max"], "binary": ["quantile", "lambda_min"]}


@pytest.fixture(scope="module")
def vectors():
    return json.loads((Path(__file__).parent / "released_code.json").read_text())


def tensors(case):
    inputs = {name: torch.tensor(value) for name, value in case["inputs"].items()}
    arguments = [inputs[name] for name in ("logps", "old_logps", "entropies", "advantages")]
    return arguments, inputs["mask"]


def computed(name, case):
    """What we give for an expected array, from the settings in its name."""
    arguments, mask = tensors(case)
    method, form, *words = name.split("_")
    numbers = [float(number) for number in re.findall(r"\d\.\d+", name)]
    if method == "stare":
        settings = dict(zip(("top_fraction", "amplify", "attenuate"), numbers, strict=True))
        return stare_weights(arguments[0], arguments[3], mask, variant=form, **settings)
    if form == "paper":
        change = entropy_change(*arguments, epsilon_low=0.2, epsilon_high=0.28)
    else:
        change = released_entropy_change(*arguments)
    if method == "omega":
        return change
    settings = dict(zip(NUMBERS[words[0]], numbers, strict=True)) | {"mapping": words[0], "signed": "signed" in words}
    if (form, words[0]) == ("released", "exponential"):
        settings["floor"] = 0.02
    return steer_weights(change, mask, **settings)


@pytest.mark.parametrize("index", range(4))
def test_every_expected_array_is_met(vectors, index):
    case = vectors["cases"][index]
    valid = torch.tensor(case["inputs"]["mask"]).bool()
    assert len(case["expected"]) == 11
    for name, expected in case["expected"].items():
        ours, theirs = computed(name, case).double(), torch.tensor(expected, dtype=torch.float64)
        torch.testing.assert_close(ours[valid], theirs[valid], **TOLERANCE, msg=name)
        assert name.startswith("omega") or (ours[~valid] == 1).all(), name


OURS = {"target_entropy": "target_entropy", "reweight_w": "amplify", "reweight_m": "attenuate"}
OURS |= {"adaptive": "adaptive", "alpha": "step", "w_max": "amplify_max", "m_min": "attenuate_min"}


@pytest.mark.parametrize("index", range(2))
def test_controller_moves_as_the_released_one(vectors, index):
    sequence = vectors["controller"][index]
    controller = TargetEntropyController(**{OURS[name]: value for name, value in sequence["config"].items()})
    assert controller.gate is True
    for entropy, (gate, *weights) in zip(sequence["entropies"], sequence["gate_W_M_after_each"], strict=True):
        controller.update(math.nan if entropy is None else entropy)
        assert controller.gate is gate
        assert [controller.amplify, controller.attenuate] == pytest.approx(weights, abs=1e-6)
