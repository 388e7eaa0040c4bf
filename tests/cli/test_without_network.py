"""A machine without a network, and recipes that cannot be read: one line that names what is wrong."""

import subprocess
import sys

import pytest
from support import ENVIRONMENT, SMOKE
from support.runs import save_tiny_model

from steer_trl.cli import name_checks
from steer_trl.cli.errors import is_of_users
from steer_trl.cli.main import main
from steer_trl.cli.parser import RecipeParser
from steer_trl.cli.recipe_files import load_recipe
from steer_trl.cli.train import TYPES
from steer_trl.support.exceptions import InvalidValueError

# Nothing listens on this port, so that every connection is refused.
NO_NETWORK = {"HF_HUB_OFFLINE": "0", "HF_ENDPOINT": "http://127.0.0.1:9", "HF_HUB_DISABLE_TELEMETRY": "1"}


def run(folder, *words, **environment):
    command = [sys.executable, "-m", "steer_trl.cli", *map(str, words)]
    return subprocess.run(command, cwd=folder, env=ENVIRONMENT | environment, capture_output=True, text=True)


@pytest.mark.parametrize(
    "words",
    [
        ["train", "--config", "recommended_qwen2.5_math_7b"],
        ["eval", "--model_name_or_path", "Qwen/Qwen2.5-Math-7B", "--output_dir", "out", "--benchmarks", "aime24"],
    ],
    ids=["recipe", "eval"],
)
def test_a_model_on_the_hub(words, tmp_path):
    done = run(tmp_path, *words, **NO_NETWORK)
    lines = done.stderr.splitlines()
    assert done.returncode == 2 and len(lines) == 1, done.stderr
    assert (
        lines[0].startswith(f"steer-trl {words[0]}: error: ") and "Qwen2.5-Math-7B" in lines[0] and "Hub" in lines[0]
    )


def test_a_push(tmp_path):
    model = save_tiny_model(tmp_path / "tiny")
    (tmp_path / "sums.jsonl").write_text("".join(f'{{"problem": "{i}+1", "answer": "{i + 1}"}}\n' for i in range(8)))
    words = ["train", "--config", SMOKE, "--model_name_or_path", model, "--dataset_name", "sums.jsonl"]
    done = run(tmp_path, *words, "--output_dir", "out", "--push_to_hub", "true", HF_TOKEN="hf_x", **NO_NETWORK)
    (line,) = [line for line in done.stderr.splitlines() if "error" in line]
    assert done.returncode == 2 and "Traceback" not in done.stderr and "--push_to_hub" in line


@pytest.mark.parametrize("package", ["httpx", "httpx2", "huggingface_hub"])
def test_a_hub_error_is_the_users_unless_training_crashed(package):
    kind = type("ConnectError", (Exception,), {"__module__": f"{package}._exceptions"})
    error = kind("[Errno -2] Name or service not known")
    assert is_of_users(error)
    wrapped = Exception("no file")
    wrapped.__cause__ = error
    assert is_of_users(wrapped)
    wrapped.is_crash = True
    assert not is_of_users(wrapped) and not is_of_users(Exception("no file"))


UNREADABLE = {"utf-16.yaml": "learning_rate: 1e-6 # \u00e4".encode("utf-16")[:-1], "latin.yaml": b"# \xe4\nseed: 1\n"}
UNREADABLE |= {"nested.yaml": b"a: " + b"[" * 20_000, "nested_too.yaml": b"a: " + b"[" * 20_000 + b"]" * 20_000}
UNREADABLE |= {
    "empty.yaml": b"",
    "comments.yaml": b"# learning_rate: 1e-6\n",
    "list.yaml": b"- 1\n",
    "nul.yaml": b"a: \0",
}


@pytest.mark.parametrize("name", UNREADABLE)
@pytest.mark.parametrize("command", ["recipes", "train", "eval"])
def test_an_unreadable_recipe_is_named(name, command, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).write_bytes(UNREADABLE[name])
    with pytest.raises(SystemExit) as exit_:
        main([command, name] if command == "recipes" else [command, "--config", name])
    (line,) = capsys.readouterr().err.splitlines()
    assert exit_.value.code == 2 and name in line


def test_a_recipe_that_is_a_comment_and_settings_is_shown(tmp_path, capsys):
    for text in ("# One.\n# Two.\n", "# One.\n", ""):
        path = tmp_path / "mine.yaml"
        path.write_text(text + "seed: 7")
        main(["recipes", str(path)])
        assert capsys.readouterr().out == text + "seed: 7\n"


SEEN = """
import sys
from steer_trl.cli.main import main
main(["eval", "--config", "mine.yaml", "--list"])
from huggingface_hub import constants
print(constants.HF_HUB_ETAG_TIMEOUT, constants.HF_HOME)
"""


def test_variables_of_a_recipe_are_set_before_libraries_read_them(tmp_path):
    (tmp_path / "mine.yaml").write_text(f"env:\n  HF_HUB_ETAG_TIMEOUT: 77\n  HF_HOME: {tmp_path}/home\n")
    done = subprocess.run([sys.executable, "-c", SEEN], cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == f"77 {tmp_path}/home", done.stderr


def test_docstrings_may_be_stripped(tmp_path):
    for command in ("demo", "compare", "report", "recipes"):
        done = run(tmp_path, command, "--help", PYTHONOPTIMIZE="2")
        assert done.returncode == 0 and "usage" in done.stdout, done.stderr


def test_a_flag_without_a_value_has_one_or_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run/checkpoint-4").mkdir(parents=True)
    (tmp_path / "run/checkpoint-4/trainer_state.json").write_text("{}")
    assert name_checks.folder_complaints("run", "")
    line = name_checks.read_command(["--output_dir", "run", "--resume_from_checkpoint", "--max_steps", "7"])
    assert line.value("resume_from_checkpoint") == "true"
    assert name_checks.folder_complaints("run", line.value("resume_from_checkpoint")) == []
    parser = RecipeParser(TYPES, prog="steer-trl train")
    needed = ["--model_name_or_path", "m", "--dataset_name", "d", "--output_dir", "run", "--use_cpu", "true"]
    needed += ["--bf16", "false"]
    for words in (["--resume_from_checkpoint", *needed], [*needed, "--resume_from_checkpoint"]):
        assert parser.parse_args_and_config(words)[1].resume_from_checkpoint == "true"
    for action in parser._actions:
        # A value that is left out must not be taken for a setting that is left out.
        assert action.nargs != "?" or action.const is not None, action.dest
    with pytest.raises(InvalidValueError, match="hub_model_id"):
        parser.parse_args_and_config([*needed, "--hub_model_id"])


def test_a_recipes_own_file_is_utf_8(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text("# \u00e4\nrun_name: \u00e4\n", encoding="utf-8")
    assert load_recipe(path) == {"run_name": "\u00e4"}
