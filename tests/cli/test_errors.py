"""Whatever a user gets wrong ends in one line on stderr, and exit code 2; nearly always before anything is loaded."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest
import torch
from support import ENVIRONMENT, ROOT
from support.command_lines import evaluate, fill, train
from tqdm import tqdm

from steer_trl.cli.errors import HINT, TRACEBACK, report_errors
from steer_trl.cli.main import COMMANDS, main


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("place")
    fill(folder)
    return folder


@pytest.fixture
def here(place, monkeypatch):
    monkeypatch.chdir(place)
    for name in (TRACEBACK, "RANK"):
        monkeypatch.delenv(name, raising=False)
    yield
    shutil.rmtree(place / "new", ignore_errors=True)  # of what should have been refused, and was not


NAMED = [  # the mistakes of each kind, and what the lines on stderr must name
    ([], "train"),
    (["trian"], "'train'"),
    (["train"], "model_name_or_path", "dataset_name", "output_dir"),
    (train(advantage_shapping="steer"), "'advantage_shaping'"),
    (train(config="first-run"), "'first_run'"),
    (train(config="tab.yaml"), "line 2, column 1"),
    (train(config="typos.yaml"), "lambda_min", "steer_lamda_min"),
    (train(steer_lambda_min=2, stare_variant="X"), "steer_lambda_min", "stare_variant='X'"),
    (train(per_device_train_batch_size=0), "per_device_train_batch_size"),
    (train(loss_type="grop"), "'grpo'"),
    (train(report_to="tensorbord"), "report_to=['tensorbord']"),
    (train(config="tracker.yaml"), "{'a': 'b'}"),
    (train(lora_r=8, use_dora="true"), "lora_r=8", "use_dora=True"),
    (train(lora_r=16), "lora_r=16"),  # its default
    (train(dtype="bfloat16", model_init_kwargs='{"dtype": "float32"}'), "dtype='bfloat16'"),
    (train(config="bare.yaml"), "got True"),
    (train(accelerate_config="cpu", num_processes=2), "num_processes=2"),
    (train(dataset_name="bad.jsonl"), "in row"),
    (train(reward_funcs="raises.f"), "raises.py, line 2"),
    (train(output_dir="run"), "checkpoint-4"),
    (evaluate(backend="vlm"), "'vllm'"),
    (evaluate(temperatures=[0.5, 1], top_p=0.7), "top_p=0.7"),
    (["demo", "--problems", "0", "--tokens", "0", "--output_dir", "new"], "problems", "tokens"),
    (["report", "nope"], "nope"),
]
if not torch.accelerator.is_available():
    ON_GPU = {"use_cpu": "false", "bf16": "true"}
    NAMED += [
        (train(**ON_GPU), "bf16"),
        (train(accelerate_config="zero3"), "8 processes"),
        (train(accelerate_config="ddp", num_processes=2), "2 processes"),
    ]


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize(("line", "said"), [(line, said) for line, *said in NAMED], ids=lambda x: " ".join(x)[-90:])
def test_one_line_for_each_mistake(line, said, here, capsys):
    """The sentences, and those of all other kinds of mistakes, are in `tests/messages.txt`."""
    with pytest.raises(SystemExit) as exit:
        main(line)
    assert exit.value.code == 2
    program = f"steer-trl {line[0]}" if line and line[0] in COMMANDS else "steer-trl"
    lines = [text for text in capsys.readouterr().err.splitlines() if text.startswith("steer-trl")]
    errors = [text.partition(": error: ") for text in lines if ": note: " not in text]
    assert len(errors) == len(said) and {error[0] for error in errors} == {program}, lines
    assert all(any(expected in error[2] for error in errors) for expected in said), lines
    assert line[:1] != ["train"] or not Path("new").exists()


# The same in processes of their own, where nothing else can catch an error.
COMMAND = [sys.executable, "-m", "steer_trl.cli"]
AT_HOME = ENVIRONMENT | {"PYTHONPATH": str(ROOT)}


def shell(*line, folder=None, **environment):
    settings = {"cwd": folder, "env": AT_HOME | environment, "capture_output": True, "text": True, "timeout": 900}
    return subprocess.run([*COMMAND, *line], **settings)


@pytest.mark.usefixtures("default_port")
def test_each_of_two_processes_prints_its_own_error(place):
    done = shell(*train(accelerate_config="cpu_2_processes", dataset_name="bad.jsonl"), folder=place)
    errors = [line for line in done.stderr.splitlines() if line.startswith("steer-trl")]
    assert done.returncode == 2 and len(errors) <= 2, done.stderr
    assert any("error: data set 'bad.jsonl' cannot be loaded" in error for error in errors)
    assert "Traceback" not in done.stderr and "ChildFailedError" not in done.stderr


def test_a_traceback_on_request(place):
    done = shell("recipes", "nope", folder=place, STEER_TRL_TRACEBACK="1")
    assert done.returncode == 1 and "Traceback" in done.stderr and "NotThereError" in done.stderr


def test_a_reader_that_goes_away():
    line = " ".join([*COMMAND, "recipes steer_qwen2.5_math_7b | true"])
    done = subprocess.run(["bash", "-c", line], env=AT_HOME, capture_output=True, text=True)
    assert done.stderr == ""


def test_the_version():
    assert re.fullmatch(r"steer-trl \d+\.\d+\.\d+\n", shell("--version").stdout)


@pytest.mark.filterwarnings("default")
def test_a_crash_in_the_training_keeps_its_traceback(here, place):
    (place / "crashing.py").write_text("def reward(completions, **_):\n    raise ValueError('mine')\n")
    with pytest.raises(ValueError, match="mine"):
        main(train(reward_funcs="crashing.reward", prompt_column="problem", output_dir="crashed"))


def test_a_package_error_keeps_its_traceback(place):
    (place / "broken.py").write_text(
        "from steer_trl.shaping import Shaper\nclass WrongShape(Shaper):\n"
        "    def weights(self, batch, measure):\n        return batch.logps.new_ones(7, 3)\n"
    )
    line = train(advantage_shaping="broken.WrongShape", accelerate_config="cpu")
    done = shell(*line, folder=place, PYTHONPATH=f"{ROOT}:{place}")
    assert done.returncode == 1 and "Traceback" in done.stderr and "shaping/compose.py" in done.stderr
    assert done.stderr.strip().splitlines()[-1].endswith("process 0 ended with exit code 1; its messages are above.")


def test_a_process_without_a_starter_says_its_number(monkeypatch, capsys):
    monkeypatch.setenv("RANK", "3")
    monkeypatch.setattr("steer_trl.cli.errors.PATIENCE", 0)  # seconds in which the first process may say the same
    with pytest.raises(SystemExit), report_errors("steer-trl train"):
        raise ValueError("no")
    assert capsys.readouterr().err == f"steer-trl train: error [process 3]: no {HINT}\n"


@pytest.mark.parametrize(
    "error", [AttributeError("x"), AssertionError(), ModuleNotFoundError("no", name="steer_trl.cli.nothing")], ids=repr
)
def test_an_unforeseen_error_is_not_hidden(error):
    with pytest.raises(type(error)), report_errors("steer-trl"):
        raise error


def test_errors_stand_above_an_open_bar(capsys):
    with pytest.raises(SystemExit), report_errors("steer-trl eval"):
        bar = tqdm(total=3, file=sys.stderr)
        raise ValueError("no")
    bar.close()
    said = capsys.readouterr().err
    assert re.search(rf"[\n\r](\x1b\[A)?steer-trl eval: error: no {re.escape(HINT)}\n", said), said


@pytest.mark.usefixtures("default_port")
@pytest.mark.parametrize("engine", ["cpu", "cpu_2_processes"])
def test_an_interruption_of_started_processes_is_quiet(engine, place):
    (place / "sleeping.py").write_text(
        "import pathlib, time\n"
        "def reward(completions, **_):\n    pathlib.Path('asleep').touch()\n    time.sleep(600)\n"
    )
    line = train(reward_funcs="sleeping.reward", prompt_column="problem", output_dir="asleep_run")
    (place / "asleep").unlink(missing_ok=True)
    # What starts the tests in the background has them ignore the signal, and all that they start.
    listening = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    settings = {"cwd": place, "env": AT_HOME, "stderr": subprocess.PIPE, "text": True}
    command = [*COMMAND, *line, "--accelerate_config", engine]
    with subprocess.Popen(command, **settings, start_new_session=True, preexec_fn=listening) as process:
        while not (place / "asleep").exists():
            assert process.poll() is None, process.stderr.read()[-3000:]
            time.sleep(0.1)
        os.killpg(process.pid, signal.SIGINT)
        said = process.communicate()[1]
    shutil.rmtree(place / "asleep_run", ignore_errors=True)
    assert process.returncode == 130, said[-3000:]
    assert "Traceback" not in said
    assert "steer-trl train: stopped: interrupted\n" in said  # perhaps behind a bar of a process that ends
