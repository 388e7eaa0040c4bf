"""vLLM as a server: one process writes, two train; trained weights arrive, the score is free, and the server dies."""

import json
import os
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import pytest
import requests
from accelerate.utils.other import get_free_port
from support import ENVIRONMENT, forked
from support.processes import TWO_PROCESSES, run
from support.rollouts import moved_since, written_by_the_policy_as_it_was
from support.vllm_over_tcp import BACKEND, plugin_of_server
from transformers import AutoModelForCausalLM
from trl.scripts.vllm_serve import ScriptArguments, build_command

from steer_trl.trainer.checkpoints.where_to_resume import is_complete

SCRIPT = Path(__file__).parent / "server_run.py"


@pytest.fixture(scope="module")
def server(model, tmp_path_factory):
    """The command that `trl vllm-serve` runs, with weights over TCP; its address and process."""
    folder, port = tmp_path_factory.mktemp("server"), get_free_port()
    plugin_of_server(folder)
    arguments = ScriptArguments(model, host="127.0.0.1", port=port, dtype="float32", max_model_len=64)
    arguments.gpu_memory_utilization, arguments.enforce_eager = 0.3, True
    command = build_command(arguments, ["--weight-transfer-config", json.dumps({"backend": BACKEND})])
    path = {"PYTHONPATH": f"{folder}:{ENVIRONMENT['PYTHONPATH']}", "VLLM_HOST_IP": "127.0.0.1"}
    environment = ENVIRONMENT | path | {"VLLM_SERVER_DEV_MODE": "1", "VLLM_CPU_KVCACHE_SPACE": "1"}
    output = folder / "output.txt"
    with output.open("w") as stream:
        streams = {"stdout": stream, "stderr": subprocess.STDOUT}
        process = subprocess.Popen(command, env=environment, cwd=folder, start_new_session=True, **streams)
    url, until = f"http://127.0.0.1:{port}", time.monotonic() + forked.LIMIT
    while not answers(url):
        assert process.poll() is None and time.monotonic() < until, output.read_text()[-5000:]
        time.sleep(1)
    yield url, process.pid
    with suppress(ProcessLookupError):  # the training has ended it
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def answers(url):
    try:
        return requests.get(f"{url}/health", timeout=10).status_code == 200
    except requests.exceptions.RequestException:
        return False


@pytest.fixture(scope="module")
def ended(server, model, tmp_path_factory):
    """A training until the server is ended: what its processes have kept, and how it ended itself."""
    (url, pid), folder = server, tmp_path_factory.mktemp("trainer")
    words = (SCRIPT, model, folder, url, get_free_port(), pid)
    of_run = {"VLLM_HOST_IP": "127.0.0.1"}
    done = run(*words, engine=TWO_PROCESSES, folder=folder, check=False, launched=True, **of_run)
    kept = [folder / f"server-{rank}.json" for rank in range(2)]
    assert all(path.exists() for path in kept), done.stderr[-5000:]
    return [json.loads(path.read_text()) for path in kept], folder, done.stderr


def test_trained_weights_arrive_with_a_free_score(ended, model):
    ranks, *_ = ended
    for rank in ranks:
        assert rank["processes"] == 2 and len(rank["rollouts"]) == 3 and rank["scored"] == 0
        written_by_the_policy_as_it_was(rank["rollouts"], [call for each in ranks for call in each["drawn"]])
        moved_since(AutoModelForCausalLM.from_pretrained(model), rank["rollouts"][-1])


def test_entropy_is_held_and_every_group_teaches(ended):
    log = ended[0][0]["log"]
    assert len(log) == 6
    assert max(entry.get("hold_entropy/strength", 0) for entry in log) > 0
    assert max(entry["shaping/relative_change"] for entry in log) > 0
    assert {entry.get("dynamic_sampling/uninformative") for entry in log} - {None} == {0}


def test_the_death_of_the_server_leaves_a_whole_checkpoint(ended):
    _, folder, errors = ended
    assert "ConnectionError" in errors and "127.0.0.1" in errors
    checkpoint = folder / "out/checkpoint-6"
    assert [path for path in (folder / "out").glob("checkpoint-*") if is_complete(path)] == [checkpoint]
    AutoModelForCausalLM.from_pretrained(checkpoint)
    assert json.loads((checkpoint / "trainer_state.json").read_text())["global_step"] == 6
