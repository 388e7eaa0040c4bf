"""With FSDP's efficient loading, every process has the weights of every model, also before a training."""

import json
from pathlib import Path

import pytest
from support.processes import engine_on_cpu, run
from support.runs import CHARACTERS, save_judge, save_tiny_model

SCRIPT = Path(__file__).with_name("loaded_weights.py")


@pytest.mark.parametrize("words", [[], ["ignored"]], ids=["sharded", "ignored"])
def test_every_process_has_the_weights_of_every_model(tmp_path, words):
    save_tiny_model(tmp_path / "reference", CHARACTERS)
    save_judge(tmp_path / "judge")
    run(SCRIPT, "out.json", *words, engine=engine_on_cpu("fsdp2", tmp_path), folder=tmp_path, launched=True)
    found = json.loads((tmp_path / "out.json").read_text())
    one, two = found["sizes"]
    assert found["is_sharded"] == (not words)
    assert one == pytest.approx(two) and min(one.values()) > 1
