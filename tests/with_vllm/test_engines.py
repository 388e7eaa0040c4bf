"""Colocated vLLM on each of two processes whose model is sharded: trained weights arrive, and the score is free."""

import json
from pathlib import Path

import numpy as np
import pytest
from support.processes import engine_on_cpu, run
from support.rollouts import moved_since, written_by_the_policy_as_it_was
from transformers import AutoModelForCausalLM

SCRIPT = Path(__file__).parent / "engine_run.py"
ENGINES = {"zero3": ("DEEPSPEED", 3), "fsdp2": ("FSDP", None)}


@pytest.fixture(scope="module", params=ENGINES)
def engine(request):
    return request.param


@pytest.fixture(scope="module")
def results(engine, model, tmp_path_factory):
    """A training with vLLM, and one of the same engine without it on the completions that vLLM has drawn."""
    folder = tmp_path_factory.mktemp(engine)
    configuration = engine_on_cpu(engine, folder)
    for kind in ("vllm", "recorded"):
        run(SCRIPT, model, folder, kind, engine=configuration, folder=folder, launched=kind == "vllm")
    drawn = [call for rank in range(2) for call in json.loads((folder / f"drawn-{rank}.json").read_text())]
    with_vllm, without = (json.loads((folder / f"{kind}.json").read_text()) for kind in ("vllm", "recorded"))
    return with_vllm, drawn, without


def test_trained_weights_arrive_with_a_free_score(engine, results, model):
    """vLLM's probabilities of what it draws are those of the model as it is by then, and not those it began with."""
    with_vllm, drawn, without = results
    for result in (with_vllm, without):
        assert (result["engine"], result["zero_stage"]) == ENGINES[engine] and result["processes"] == 2
    rollouts = with_vllm["rollouts"]
    assert len(rollouts) == 3 and with_vllm["scored"] == 0
    written_by_the_policy_as_it_was(rollouts, drawn)
    moved_since(AutoModelForCausalLM.from_pretrained(model), rollouts[-1])


def test_the_loss_equals_that_without_vllm(results):
    logs = [result["log"] for result in results[::2]]
    assert len(logs[0]) == len(logs[1]) == 6
    for key in ("loss", "entropy", "reward", "grad_norm", "hold_entropy/strength", "dynamic_sampling/attempts"):
        one, other = ([entry[key] for entry in log if key in entry] for log in logs)
        assert one and np.allclose(one, other, rtol=1e-4, atol=1e-6), key


def test_entropy_is_held_and_every_group_teaches(results):
    for result in results[::2]:
        assert max(entry.get("hold_entropy/strength", 0) for entry in result["log"]) > 0
        missing = {entry.get("dynamic_sampling/uninformative") for entry in result["log"]}
        assert missing - {None} == {0}
