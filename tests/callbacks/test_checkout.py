"""The commit and the changes that a run was started with: in its log and on its page, without a secret."""

import json
import subprocess

import pytest

from steer_trl import AlarmsCallback, runlog
from steer_trl.callbacks import checkout as module
from steer_trl.callbacks.checkout import checkout, write_diff
from steer_trl.redact import without_secrets
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
    assert checkout() == ({"code": {"commit": head(), "is_changed": False}}, "")
    (repository / "train.py").write_text("lr = 2\n")
    code, diff = checkout()
    assert code["code"]["is_changed"] and {"-lr = 1", "+lr = 2"} <= set(diff.splitlines())


def test_a_diff_is_cut_where_it_is_too_long(repository, monkeypatch):
    (repository / "train.py").write_text("lr = 2\n" * 100)
    whole = checkout()[1]
    monkeypatch.setattr(module, "LARGEST", 200)
    assert checkout()[1] == f"{whole[:200]}\n[{len(whole) - 200} more characters are left out.]\n"


@pytest.mark.parametrize("where", ["outside", "no commit", "no git"])
def test_without_a_checkout_nothing_is_known(tmp_path, monkeypatch, where):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    if where == "no commit":
        subprocess.run(["git", "init", "-q"], check=True)
    if where == "no git":
        monkeypatch.setenv("PATH", str(tmp_path))
    assert checkout() == ({}, "")


SECRETS = [f'login("{TOKEN}")', "hub_token: easy", "export WANDB_API_KEY=easy", "MY_TOKEN = 'easy'", "password: easy"]
SECRETS += ["url = 'https://me:easy@host/x'", 'headers = {"Authorization": "easy"}', f"x = '{40 * 'a0'}'"]


@pytest.mark.parametrize("line", SECRETS)
def test_a_line_with_a_secret_is_withheld(line):
    assert without_secrets(f"+lr = 2\n+{line}\n-{line}\n") == "+lr = 2\n+[withheld]\n-[withheld]\n"


def test_what_is_no_secret_stays():
    lines = ["index 0123456..789abcd 100644", "+t.pad_token = t.eos_token", "+model: Qwen/Qwen2.5-Math-1.5B", ""]
    assert without_secrets("\n".join(lines)) == "\n".join(lines)


def test_a_run_writes_both_and_the_page_shows_the_commit(make_trainer, repository):
    (repository / "train.py").write_text(f"lr = 2\ntoken = '{TOKEN}'\n")
    trainer = make_trainer(max_steps=1, trainer_arguments={"callbacks": [AlarmsCallback()]})
    trainer.train()
    logs = repository / "run" / runlog.LOGS
    run = json.loads((logs / runlog.RUN).read_text())
    assert run["code"] == {"commit": head(), "is_changed": True}
    assert "+lr = 2\n+[withheld]\n" in (logs / "code-00000000.diff").read_text()
    assert all(TOKEN not in path.read_text() for path in logs.iterdir() if path.is_file())
    (shown,) = page_data(find_runs([repository / "run"]))["runs"]
    assert shown["code"] == run["code"]


def test_a_tree_that_is_clean_again_leaves_no_diff(tmp_path):
    (tmp_path / runlog.LOGS).mkdir()
    write_diff(str(tmp_path), 5, "-a\n")
    assert (tmp_path / runlog.LOGS / "code-00000005.diff").read_text() == "-a\n"
    write_diff(str(tmp_path), 5, "")
    assert not list((tmp_path / runlog.LOGS).iterdir())
