"""`benchmarks/gpu.py` in small, on CPU: every part runs, its checks hold, and a second call measures nothing."""

import json
from importlib.util import find_spec

import pytest
from support import ROOT, processes

SCRIPT = ROOT / "benchmarks/gpu.py"
# One of each kind: the others call the same functions with another method.
PARTS = ["sensitivity", "off_is_exact", "selection", "bf16", "overhead", "without_padding"]
PARTS += ["smollm2_held"]
WITH_VLLM = ["vllm_none"] if find_spec("vllm") is None else []  # where it is missing it is named


def run(*words, check=True):
    return processes.run(SCRIPT, *words, check=check).stdout


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    folder = tmp_path_factory.mktemp("gpu")
    return folder, run("--tiny", "--output_dir", str(folder), "--parts", *PARTS, *WITH_VLLM)


def test_every_part_runs_and_its_checks_hold(measured):
    folder, output = measured
    assert not list(folder.glob("*.failed.json"))
    parts = {path.stem: json.loads(path.read_text()) for path in folder.glob("*.json")}
    assert parts.keys() == set(PARTS)
    assert all(part["device"] == "CPU, tiny" and part["rows"] for part in parts.values())
    checks = [row["passed"] for part in parts.values() for row in part["rows"] if "passed" in row]
    assert len(checks) > 12 and all(checks)
    assert "vllm_none: left out, not installed: vllm" in output or not WITH_VLLM
    assert "| sensitivity | largest error over largest change: float32, tied head, temperature 1.0" in output


def test_a_second_call_measures_only_what_is_missing(measured):
    folder, _ = measured
    before = {path.name: path.stat().st_mtime_ns for path in folder.glob("*.json")}
    (folder / "selection.json").unlink()
    output = run("--tiny", "--output_dir", str(folder), "--parts", *PARTS)
    assert "sensitivity: there already" in output and "selection: done" in output
    after = {path.name: path.stat().st_mtime_ns for path in folder.glob("*.json")}
    assert {name for name, time in after.items() if time != before.get(name)} == {"selection.json"}
    assert after.keys() == before.keys()


def test_without_a_gpu_nothing_is_published(tmp_path):
    assert "give another --output_dir" in run("--tiny", check=False)
    assert "| part | what | value | passed |" in run("--table", "--output_dir", str(tmp_path))
