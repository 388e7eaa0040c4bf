"""A run that is killed and resumed goes on as if nothing had happened, also in the middle of a rollout."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from support import processes
from support.processes import TWO_PROCESSES
from support.runs import CHARACTERS, save_tiny_model

SCRIPT = Path(__file__).parent / "killed_run.py"
CLOCKS = {
    "step_time",
    "train_runtime",
    "train_samples_per_second",
    "train_steps_per_second",
    "total_flos",
    "train_loss",
}


def run(*arguments, **options):
    return processes.run(SCRIPT, *arguments, **options)


def logged(folder):
    history = json.loads((folder / "checkpoint-10/trainer_state.json").read_text())["log_history"]
    return [{key: value for key, value in entry.items() if key not in CLOCKS} for entry in history]


def same_ending(one, other):
    parameters = [load_file(folder / "checkpoint-10/model.safetensors") for folder in (one, other)]
    assert all(torch.equal(value, parameters[1][name]) for name, value in parameters[0].items())
    for mine, theirs in zip(logged(one), logged(other), strict=True):
        assert mine == theirs


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return save_tiny_model(tmp_path_factory.mktemp("model"), CHARACTERS)


@pytest.fixture(scope="module")
def whole(model, tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole") / "out"
    run(model, folder, "never")
    return folder


@pytest.mark.parametrize("moment", ["update 3", "rollout 4", "accumulation 7"])
def test_killed_and_resumed(model, whole, tmp_path, moment):
    folder = tmp_path / "out"
    assert run(model, folder, moment, check=False).returncode == -9
    assert not (folder / "checkpoint-10").exists()
    run(model, folder, "resume")
    same_ending(whole, folder)
    log = logged(whole)
    assert len({entry["stare/amplify"] for entry in log if "stare/amplify" in entry}) > 1  # there was a state to lose


def test_killed_and_resumed_on_two_processes(model, tmp_path):
    """With a regulator, whose state is that of all ranks, while its level falls; STARE's is tested above, on one."""
    whole, folder = tmp_path / "whole", tmp_path / "out"
    run(model, whole, "never", "held", engine=TWO_PROCESSES)
    assert run(model, folder, "update 6", "held", engine=TWO_PROCESSES, check=False).returncode != 0
    run(model, folder, "resume", "held", engine=TWO_PROCESSES)
    same_ending(whole, folder)
    strengths = {entry["hold_entropy/strength"] for entry in logged(whole) if "hold_entropy/strength" in entry}
    assert len(strengths) > 1  # there was a state to lose
    levels = [entry["hold_entropy/target"] for entry in logged(folder) if "hold_entropy/target" in entry]
    assert levels == pytest.approx([10.0] * 4 + [8.0] * 4 + [4.0] * 2)  # of rollouts at step 0, 4 and 8 of 10
    assert (folder / "checkpoint-2/rollout_1_of_2.pt").exists()


def test_dynamic_sampling_reads_on_where_it_was_killed(model, tmp_path):
    """In the middle of an attempt; groups were left over from the rollout before."""
    whole, folder = tmp_path / "whole", tmp_path / "out"
    run(model, whole, "never", "resample", engine=TWO_PROCESSES)
    assert run(model, folder, "rollout 4", "resample", engine=TWO_PROCESSES, check=False).returncode != 0
    run(model, folder, "resume", "resample", engine=TWO_PROCESSES)
    same_ending(whole, folder)
    log = [entry for entry in logged(whole) if "dynamic_sampling/attempts" in entry]
    assert len(log) == 3 and sum(entry["dynamic_sampling/attempts"] for entry in log) > 3
    assert any(entry["dynamic_sampling/waiting"] for entry in log[:-1])


def test_a_rollout_of_other_processes_is_refused(model, whole, tmp_path):
    folder = tmp_path / "out"
    shutil.copytree(whole / "checkpoint-2", folder / "checkpoint-2")
    done = run(model, folder, "resume", engine=TWO_PROCESSES, check=False)
    assert done.returncode != 0
    assert "was saved in the middle of a rollout" in done.stderr and "on as many processes as saved it" in done.stderr


def test_only_the_middle_of_a_rollout_is_saved(whole):
    saved = {int(path.parent.name.split("-")[1]) for path in whole.glob("checkpoint-*/rollout_0_of_1.pt")}
    assert saved == {1, 2, 3, 5, 6, 7, 9, 10}
