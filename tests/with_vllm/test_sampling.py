"""Dynamic sampling with real vLLM, colocated: the same engine is asked until the rollout is full."""

import json
from pathlib import Path

from support import processes


def test_the_engine_is_asked_until_the_rollout_is_full(model, tmp_path):
    processes.run(Path(__file__).parent / "sampling_run.py", model, tmp_path / "out", launched=True)
    state = json.loads((tmp_path / "out/checkpoint-3/trainer_state.json").read_text())
    log = [entry for entry in state["log_history"] if "dynamic_sampling/attempts" in entry]
    assert len(log) == 3 and sum(entry["dynamic_sampling/attempts"] for entry in log) > 3
    assert all(entry["dynamic_sampling/hidden"] == 0 for entry in log)  # trained on groups with both kinds only
    assert min(entry.get("dynamic_sampling/informative", 1) for entry in log) < 1  # absent: enough groups had waited
