"""The commit that a run was started with: in its log and on its page, without a secret."""

import json
import subprocess

import pytest

from steer_trl import AlarmsCallback
from steer_trl.monitoring import run_files
from steer_trl.monitoring.checkout import find_commit
from steer_trl.report.data import page_data
from steer_trl.report.read import find_runs

TOKEN = "hf_" + 17 * "aB3"


@pytest.fixture
def repository(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    (tmp_path / "train.py").write_text("lr = 1\n")
    author = ["-c", "user.name=x", "-c", "user.email=x@y"]
    for words in (["init", "-q"], ["add", "."], [*author, "commit", "-qm", "first"]):
        subprocess.run(["git", *words], check=True)
    return tmp_path


def head():
    return subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()


def test_a_clean_and_a_changed_checkout(repository):
    (repository / "not_added.py").write_text("")
    assert find_commit() == {"code": {"commit": head(), "is_changed": False}}
    (repository / "train.py").write_text("lr = 2\n")
    assert find_commit() == {"code": {"commit": head(), "is_changed": True}}


@pytest.mark.parametrize("where", ["outside", "no commit", "no git"])
def test_without_a_checkout_nothing_is_known(tmp_path, monkeypatch, where):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    if where == "no commit":
        subprocess.run(["git", "init", "-q"], check=True)
    if where == "no git":
        monkeypatch.setenv("PATH", str(tmp_path))
    assert find_commit() == {}


def test_a_run_records_its_commit_without_code(make_trainer, repository):
    (repository / "train.py").write_text(f"lr = 2\ntoken = '{TOKEN}'\n")
    trainer = make_trainer(max_steps=1, trainer_arguments={"callbacks": [AlarmsCallback()]})
    trainer.train()
    logs = repository / "run" / run_files.LOGS
    run = json.loads((logs / run_files.RUN).read_text())
    assert run["code"] == {"commit": head(), "is_changed": True}
    assert all(TOKEN not in path.read_text() for path in logs.iterdir() if path.is_file())
    (shown,) = page_data(find_runs([repository / "run"]))["runs"]
    assert shown["code"] == run["code"]
