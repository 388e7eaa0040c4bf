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
CLOCKS = {"step_time", "train_runtime", "train_samples_per_second", "train_steps_per_second"}
CLOCKS |= {"total_flos", "train_loss"}
# The first rollout of each training is compared with its own policy, also after a resume.
MEASURED = {"sampled_as_scored", "sampled_as_scored/error"}


def run(*arguments, **options):
    return processes.run(SCRIPT, *arguments, **options)


def logged(folder):
    history = json.loads((folder / "checkpoint-10/trainer_state.json").read_text())["log_history"]
    return [{key: value for key, value in entry.items() if key not in CLOCKS | MEASURED} for entry in history]


def same_ending(one, other):
    parameters = [load_file(folder / "checkpoint-10/model.safetensors") for folder in (one, other)]
    assert all(torch.equal(value, parameters[1][name]) for name, value in parameters[0].items())
    assert logged(one) == logged(other)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return save_tiny_model(tmp_path_factory.mktemp("model"), CHARACTERS)


@pytest.fixture(scope="module")
def whole(model, tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole") / "out"
    run(model, folder, "never")
    return folder


def column(folder, key):
    return [entry[key] for entry in logged(folder) if key in entry]


@pytest.mark.parametrize("moment", ["update 3", "rollout 4", "accumulation 7"])
def test_a_killed_run_resumes_to_the_same_end(model, whole, tmp_path, moment):
    folder = tmp_path / "out"
    assert run(model, folder, moment, check=False).returncode == -9
    assert not (folder / "checkpoint-10").exists()
    run(model, folder, "resume")
    same_ending(whole, folder)
    assert len(set(column(whole, "stare/amplify"))) > 1  # there was a state to lose


@pytest.fixture
def killed_on_two(model, tmp_path):
    """A run of two processes without a pause, and one that was killed and resumed."""

    def train(name, moment):
        whole, folder = tmp_path / "whole", tmp_path / "out"
        run(model, whole, "never", name, engine=TWO_PROCESSES)
        assert run(model, folder, moment, name, engine=TWO_PROCESSES, check=False).returncode != 0
        run(model, folder, "resume", name, engine=TWO_PROCESSES)
        same_ending(whole, folder)
        return folder

    return train


def test_a_run_killed_on_two_processes_resumes_to_the_same_end(killed_on_two):
    """With a regulator, whose state is that of all ranks, while its level falls; STARE's is tested above, on one."""
    folder = killed_on_two("held", "update 6")
    assert len(set(column(folder, "hold_entropy/strength"))) > 1  # there was a state to lose
    levels = column(folder, "hold_entropy/target")
    assert levels == pytest.approx([10.0] * 4 + [8.0] * 4 + [4.0] * 2)  # of rollouts at step 0, 4 and 8 of 10
    assert (folder / "checkpoint-2/rollout_1_of_2.pt").exists()


def test_dynamic_sampling_reads_on_where_it_was_killed(killed_on_two):
    """In the middle of an attempt; groups were left over from the rollout before."""
    folder = killed_on_two("resample", "rollout 4")
    attempts = column(folder, "dynamic_sampling/attempts")
    assert len(attempts) == 3 and sum(attempts) > 3 and any(column(folder, "dynamic_sampling/waiting")[:2])


def test_a_rollout_of_other_processes_is_refused(model, whole, tmp_path):
    folder = tmp_path / "out"
    shutil.copytree(whole / "checkpoint-2", folder / "checkpoint-2")
    done = run(model, folder, "resume", engine=TWO_PROCESSES, check=False)
    assert done.returncode != 0
    assert "was saved in the middle of a rollout" in done.stderr and "on as many processes as saved it" in done.stderr


def test_only_the_middle_of_a_rollout_is_saved(whole):
    saved = {int(path.parent.name.split("-")[1]) for path in whole.glob("checkpoint-*/rollout_0_of_1.pt")}
    assert saved == {1, 2, 3, 5, 6, 7, 9, 10}
