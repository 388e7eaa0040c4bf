"""Whatever a user gets wrong ends in one line on stderr, and exit code 2; nearly always before anything is loaded."""

import json
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
from support import ENVIRONMENT, ROOT, SMOKE
from support.runs import save_tiny_model
from tqdm import tqdm

from steer_trl.cli.errors import HINT, TRACEBACK, one_line
from steer_trl.cli.main import COMMANDS, main

FILES = {
    "tab.yaml": "max_steps: 1\n\tseed: 2\n",
    "empty.yaml": "",
    "twice.yaml": "max_steps: 1\nseed: 2\nmax_steps: 2\n",
    "circle.yaml": "extends: circle.yaml\n",
    "gone.yaml": "extends: fist_run\n",
    "env.yaml": f"extends: {SMOKE}\nenv: [A, B]\n",
    "binary.yaml": b"\xff\xfe\x00",
    "switch.yaml": f"extends: {SMOKE}\nnum_generations: true\n",
    "mapping.yaml": f"extends: {SMOKE}\nlearning_rate: {{a: 1}}\n",
    "typos.yaml": f"extends: {SMOKE}\nlambda_min: 0.7\nsteer_lamda_min: 0.7\n",
    "same.yaml": f"extends: {SMOKE}\nadvantage_shaping: steer\nstare_amplify: 2.0\n",
    "nul.yaml": f'extends: {SMOKE}\nenv: {{A: "a\\0"}}\n',
    "tracker.yaml": f"extends: {SMOKE}\nreport_to: {{a: b}}\n",
    "reward.yaml": f"extends: {SMOKE}\nreward_funcs: maths\n",
    "no.yaml": f"extends: {SMOKE}\neval_strategy: no\neval_benchmarks: problems.jsonl\n",
    "latin.jsonl": '{"problem": "Wie groß?", "answer": "2"}\n'.encode("latin-1"),
    "objects.jsonl": '{"problem": {"a": 1}, "answer": "2"}\n' * 8,
    "bad.jsonl": '{"problem": "1+1?", "answer": "2"}\n{"problem": \n',
    "columns.jsonl": '{"frage": "1+1?", "antwort": "2"}\n' * 8,
    "problems.csv": "frage,antwort\nWhat is 1+1?,2\nWhat is 1+2?,3\n",
    "problems.txt": "What is 1+1?",
    "rewards_of_mine.py": "VALUE = 3\ndef reward(completions, **_): return [1.0] * len(completions)\n",
    "torn_file.py": "def reward(\n",
    "raises.py": "x = 1\n1 / 0\n",
    "ends.py": "raise SystemExit\n",
    "tools_of_mine.py": "def silent(x: str): return x\ndef untyped(x):\n '''Do.\n Args:\n  x: it\n '''\n",
}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("place")
    save_tiny_model(folder / "tiny")
    rows = [{"problem": f"What is {i}+1?", "answer": str(i + 1)} for i in range(8)]
    (folder / "problems.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for name, text in FILES.items():
        (folder / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    (folder / "empty").mkdir()
    shutil.copytree(folder / "tiny", folder / "torn")
    (folder / "torn/model.safetensors").write_bytes((folder / "tiny/model.safetensors").read_bytes()[:999])
    shutil.copytree(folder / "tiny", folder / "base")
    (folder / "base/chat_template.jinja").unlink()
    shutil.copytree(folder / "tiny", folder / "wordless", ignore=shutil.ignore_patterns("tokenizer*"))
    for step in (2, 4):
        (folder / f"run/checkpoint-{step}").mkdir(parents=True)
        state = {"settings": {"advantage_shaping": ["steer", "stare"]}}
        (folder / f"run/checkpoint-{step}/shaping_state.json").write_text(json.dumps(state))
    return folder


@pytest.fixture
def here(place, monkeypatch):
    monkeypatch.chdir(place)
    for name in (TRACEBACK, "RANK"):
        monkeypatch.delenv(name, raising=False)
    yield
    shutil.rmtree(place / "new", ignore_errors=True)  # of what should have been refused, and was not


TRAIN = {"--config": str(SMOKE), "--model_name_or_path": "tiny", "--dataset_name": "problems.jsonl"}
TRAIN |= {"--output_dir": "new"}
EVAL = {"--model_name_or_path": "tiny", "--output_dir": "new", "--benchmarks": "problems.jsonl@1"}


def train(**changed):
    """A command line that works, but for what is changed."""
    return words("train", TRAIN, changed)


def evaluate(**changed):
    return words("eval", EVAL, changed)


def words(command, usual, changed):
    given = usual | {f"--{name}": value for name, value in changed.items()}
    line = [command]
    for flag, value in given.items():
        if value is not None:
            line += [flag, *map(str, value if isinstance(value, list) else [value])]
    return line


EVALUATED = {"eval_strategy": "steps", "eval_steps": 1, "eval_benchmarks": ["problems.jsonl@1"]}
# What is typed, and what each line must say.
MISTAKES = [
    # Commands and flags.
    ([], r"no command\. Use one of train, eval"),
    (["help", "trian"], r"no command 'trian'"),
    (["trian"], r"no command 'trian'\. Did you mean 'train'\?"),
    (["train"], *(rf"{name} is missing\. Give" for name in ("model_name_or_path", "dataset_name", "output_dir"))),
    (train(advantage_shapping="steer"), r"advantage_shapping is no setting\. Did you mean 'advantage_shaping'\?"),
    (train(**{"steer-lamda-min": 0.7}), r"steer_lamda_min is no setting\. Did you mean 'steer_lambda_min'\?"),
    (train(max_step=3), r"max_step is no setting\. Did you mean 'max_steps'\?"),  # not taken for max_steps
    ([*train(), "steer"], "'steer' belongs to no setting"),
    ([*train(), "--"], r"'--' belongs to no setting"),
    # Recipes.
    ([*train(config=None), "--config"], "config.*: expected one argument"),
    (train(config="first-run"), r"there is no recipe 'first-run'.* Did you mean 'first_run'\?"),
    (train(config="runs/mine.yaml"), "there is no recipe 'runs/mine.yaml'.*steer-trl recipes lists the names"),
    (train(config="tab.yaml"), r"tab\.yaml is no valid YAML: .* line 2, column 1"),
    (train(config="empty.yaml"), "empty.yaml must be a YAML mapping, got nothing"),
    (train(config="binary.yaml"), r"binary\.yaml is no valid YAML"),
    (train(config="twice.yaml"), r"'max_steps' is there twice.* line 1, column 1"),
    (train(config="circle.yaml"), "extends itself"),
    (train(config="gone.yaml"), r"gone\.yaml extends 'fist_run'.* Did you mean 'first_run'\?"),
    (train(config="env.yaml"), "env must be a mapping of variables"),
    (train(config="mapping.yaml"), "learning_rate must be a number in .*, got {'a': 1}"),
    (train(config="switch.yaml"), "num_generations.*: invalid int value: 'true'"),
    (train(config="typos.yaml"), *(rf"^{name} is no setting\. Did" for name in ("lambda_min", "steer_lamda_min"))),
    (train(config="same.yaml"), "stare_amplify=2.0 is a setting of 'stare'"),
    (train(config="nul.yaml"), "recipe nul.yaml: env cannot be set: embedded null byte"),
    (train(config="reward.yaml"), "reward_funcs='maths' cannot be used: it must be 'math' or an import path"),
    (train(config="no.yaml"), "eval_benchmarks cannot be combined with eval_strategy='no'"),
    # Methods.
    (train(advantage_shaping="ster"), r"advantage_shaping='ster' is unknown\. Did you mean 'steer'\?"),
    (train(advantage_shaping=["psr", "nsr"]), "cannot be combined: each replaces the advantages"),
    (train(advantage_shaping="steer", stare_amplify=2.0), r"Set advantage_shaping to \['steer', 'stare'\], or leave"),
    (train(steer_lambda_min=2, stare_variant="X"), "steer_lambda_min must be", "stare_variant='X' is unknown"),
    # TRL's own settings.
    (train(per_device_train_batch_size=0), "per_device_train_batch_size must be in"),
    (train(loss_type="foo"), "loss_type='foo' is unknown"),
    (train(report_to=["none", "none"]), r"report_to=\['none', 'none'\] must be 'none' alone, or some of"),
    (train(report_to="tensorbord"), r"report_to=\['tensorbord'\] must be 'none' alone, or some of 'azure_ml'"),
    (train(config="tracker.yaml"), r"report_to=\[?{'a': 'b'}\]? must be 'none' alone, or some of 'azure_ml'"),
    (train(steps_per_generation=0), r"steps_per_generation must be in \[1, inf\), got 0"),
    (train(num_iterations=0), r"num_iterations must be in \[1, inf\), got 0"),
    (train(num_train_epochs="inf", max_steps=-1), r"num_train_epochs must be in \[0, inf\), got inf"),
    (train(use_liger_kernel="true"), "use_liger_kernel=True needs liger_kernel, which is not installed here"),
    (train(lora_r=8), "lora_r=8 cannot be combined with use_peft=False"),
    (train(dynamic_sampling="resample", correct_threshold=1), "correct_threshold must be in \\[-1, 1\\), got 1"),
    (train(stare_target_entropy=80, stare_target_entropy_unit="initial"), "stare_target_entropy must be in \\(0, 10"),
    (train(num_generations=0), "num_generations must be in \\[1, inf\\), got 0"),
    (train(num_generations=3), "num_generations=3 must divide the 8 .* 2 or 4"),
    (train(eval_strategy="steps", eval_steps=1), "eval_strategy='steps' needs eval_benchmarks"),
    (train(dataset_config="main"), "dataset_config='main' cannot be combined with the file"),
    (train(beta=-1), "beta must be in .0, inf., got -1.0"),
    (train(eval_on_start="true"), "eval_on_start=True needs eval_benchmarks"),
    (train(eval_benchmarks="problems.jsonl@1"), "eval_benchmarks cannot be combined with eval_strategy='no'"),
    (train(eval_temperature=0.5), "eval_temperature is no setting.* Use eval_samplings"),
    (train(eval_samplings="t1"), r"eval_samplings=\['t1'\] cannot be combined with eval_benchmarks=None"),
    (train(eval_judge="my.judge"), "eval_judge='my.judge' cannot be combined with eval_benchmarks=None"),
    (train(**EVALUATED, eval_samplings=["t1", "greddy"]), "samplings: 'greddy' is unknown. Did you mean 'greedy'"),
    (train(**EVALUATED, eval_judge="no.such.judge"), "eval_judge='no.such.judge' cannot be used"),
    # The model.
    (train(model_name_or_path="empty"), "Unrecognized model in empty"),
    (train(model_name_or_path="torn"), "Error while deserializing header"),
    (train(model_name_or_path="base"), "'base' has no chat template"),
    (train(model_name_or_path="wordless"), "The tokenizer of 'wordless' has no vocabulary: its files are missing"),
    # The data set.
    (train(dataset_name=""), "dataset_name is missing. Give"),
    (train(dataset_name=["problems.jsonl", " "]), "dataset_name is missing. Give"),
    (train(dataset_name="dapo-math"), r"no short name\. Did you mean 'dapo-math-17k'\? Short names are"),
    (train(dataset_name="nope.jsonl"), "'nope.jsonl': there is no such file"),
    (train(dataset_name="empty"), "'empty' cannot be loaded: .*any data files"),
    (train(dataset_name="problems.txt"), "must be a .parquet or .json or .jsonl or .csv file"),
    (train(dataset_name="me/no-such-data"), "'me/no-such-data' cannot be loaded from the Hub: Couldn't reach"),
    (train(dataset_name="bad.jsonl"), "'bad.jsonl' cannot be loaded: .*JSON parse error: .* in row"),
    (train(dataset_name="latin.jsonl"), "'utf-8' codec can't decode byte"),
    (train(dataset_name="objects.jsonl"), "a question must be a text or a list of messages, each with 'role' and"),
    (
        train(dataset_name="objects.jsonl", prompt_column="problem", reward_funcs="rewards_of_mine.reward"),
        "data set 'objects.jsonl', row 0: a question must be a text or a list of messages",
    ),
    (train(dataset_name="columns.jsonl"), "a question is missing", "an answer is missing"),
    (train(dataset_name="problems.csv", prompt_column="frage"), "an answer is missing: .*'antwort'"),
    (
        train(dataset_name="problems.csv", prompt_column="frag", answer_column="antwort"),
        r"prompt_column='frag' is no column of data set 'problems.csv'\. Did you mean 'frage'\?",
    ),
    (train(dataset_split="test"), "'problems.jsonl' cannot be loaded: Unknown split"),
    (train(limit=0), "limit must be in .1, inf., got 0"),
    (train(limit=1, gradient_accumulation_steps=2), "train_dataset must have >= 2 rows, got 1"),
    # The reward.
    (train(reward_incorrect=1), "incorrect must be in"),
    (train(reward_timeout=0), "timeout must be in"),
    (train(reward_funcs="no_such_module.f"), "reward_funcs='no_such_module.f' cannot be used: No module named"),
    (train(reward_funcs="rewards_of_mine.f"), "has no attribute 'f'"),
    (train(reward_funcs="raises.f"), r"reward_funcs='raises.f' .*: ZeroDivisionError: .* \(.*raises\.py, line 2\)"),
    (train(reward_funcs="ends.f"), r"reward_funcs='ends.f' cannot be used: SystemExit: +\(.*ends\.py, line 1\)"),
    (train(reward_funcs="torn_file.reward"), r"'torn_file.reward' cannot be used: .*\(torn_file.py, line 1"),
    (train(reward_funcs="rewards_of_mine.VALUE"), "it is a int, no function"),
    (train(reward_funcs="rewards_of_mine.reward"), "prompt_column='prompt' is no column.* with --prompt_column"),
    (train(reward_funcs="rewards_of_mine.reward", reward_incorrect=0), "reward_incorrect=0.0 cannot be combined"),
    (train(tools="run_python"), "tools='run_python' cannot be used: it must be an import path"),
    (train(tools="tools_of_mine.gone"), "has no attribute 'gone'"),
    (train(tools="tools_of_mine.silent"), "Cannot generate JSON schema for silent because it has no docstring"),
    (train(tools="tools_of_mine.untyped"), "tools='tools_of_mine.untyped' cannot be used: Argument x is missing"),
    # Folders.
    (train(output_dir="problems.txt"), "File exists: 'problems.txt'"),
    (train(output_dir=" "), "output_dir is missing"),
    (train(output_dir="runs/\udcff"), "surrogates not allowed"),
    (train(output_dir="run"), r"holds a run \(checkpoint-4, checkpoint-2\), .* remove the folder"),
    (train(output_dir="tiny"), r"holds a run \(config.json\)"),
    (train(output_dir="tiny", resume_from_checkpoint="auto"), r"holds a run \(config.json\)"),
    (train(output_dir="run", resume_from_checkpoint="checkpoint-3"), "='checkpoint-3' must be true, auto or the fol"),
    (train(output_dir="run", overwrite_output_dir="true"), "overwrite_output_dir is no setting. It is gone"),
    (train(resume_from_checkpoint="tiny"), "resume_from_checkpoint='tiny' must be true, auto or the folder of a"),
    # Processes: all of this without starting any.
    ([*train(), "--accelerate_config"], "accelerate_config: expected one argument"),
    (train(accelerate_config="zero4"), r"no engine configuration 'zero4'.* Did you mean 'zero3'\?"),
    (train(accelerate_config="cpu", num_processes=0), "num_processes must be in .1, inf., got 0"),
    (train(num_processes=4), "num_processes cannot be used without accelerate_config"),
    (
        train(accelerate_config="cpu_2_processes", num_processes=3, per_device_train_batch_size=1),
        "num_generations=4 must divide the 6 .* 3 or 6",
    ),
    # Evaluation.
    (["eval"], "required: --model_name_or_path.*, --output_dir"),
    (evaluate(benchmark="aime24"), r"benchmark is no setting\. Did you mean 'benchmarks'\?"),
    (evaluate(benchmarks="aime27"), r"'aime27' is no short name\. Did you mean 'aime2"),
    (evaluate(backend="vlm"), r"backend='vlm' is unknown\. Did you mean 'vllm'\?"),
    (evaluate(output_dir=" "), "output_dir is missing"),
    (evaluate(model_name_or_path=""), "model_name_or_path is missing"),
    (evaluate(judge="no.such"), "judge='no.such' cannot be used: No module named 'no'"),
    (evaluate(model_name_or_path="torn"), "Error while deserializing header"),
    (evaluate(model_name_or_path="base"), "'base' has no chat template"),
    (evaluate(model_name_or_path="wordless"), "The tokenizer of 'wordless' has no vocabulary"),
    (evaluate(output_dir="problems.txt"), "File exists: 'problems.txt'"),
    (evaluate(write_card="true"), "write_card is no setting. It is gone"),
    # Recipes, listed.
    (["recipes", "psrr"], r"there is no recipe 'psrr'.* Did you mean 'psr'\?"),
    (["recipes", "a", "b"], "one name is shown at a time"),
    # The report.
    (["report"], "required: RUN"),
    (["report", "nope"], "nope"),
    (["report", "--out", "x", "nope"], "--out"),
]
if not torch.accelerator.is_available():
    ON_GPU = {"use_cpu": "false", "bf16": "true"}
    MISTAKES += [
        (train(**ON_GPU), "Your setup doesn't support bf16"),
        (train(accelerate_config="zero3"), "starts 8 processes, one per GPU, and this machine has 0"),
        (train(accelerate_config="ddp", num_processes=2), "starts 2 processes, one per GPU"),
    ]


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize(("line", "said"), [(line, said) for line, *said in MISTAKES], ids=lambda x: " ".join(x)[-90:])
def test_one_line_for_each_mistake(line, said, here, capsys):
    with pytest.raises(SystemExit) as exit:
        main(line)
    assert exit.value.code == 2
    program = f"steer-trl {line[0]}" if line and line[0] in COMMANDS else "steer-trl"
    lines = [text for text in capsys.readouterr().err.splitlines() if text.startswith("steer-trl")]
    errors = [text.partition(": error: ") for text in lines if ": note: " not in text]
    assert len(errors) == len(said) and {error[0] for error in errors} == {program}, lines
    assert all(any(re.search(expected, error[2]) for error in errors) for expected in said), lines
    needs_a_trainer = {"base", "wordless"} & {*line}  # which makes the folder
    assert line[:1] != ["train"] or needs_a_trainer or not Path("new").exists()


# The same in processes of their own, where nothing else can catch an error.
COMMAND = [sys.executable, "-m", "steer_trl.cli"]
AT_HOME = ENVIRONMENT | {"PYTHONPATH": str(ROOT)}


def shell(*line, folder=None, **environment):
    settings = {"cwd": folder, "env": AT_HOME | environment, "capture_output": True, "text": True, "timeout": 900}
    return subprocess.run([*COMMAND, *line], **settings)


def test_of_two_processes_each_says_what_it_knows(place):
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


def test_an_error_inside_of_the_package_keeps_its_traceback(place):
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
    with pytest.raises(SystemExit), one_line("steer-trl train"):
        raise ValueError("no")
    assert capsys.readouterr().err == f"steer-trl train: error [process 3]: no {HINT}\n"


@pytest.mark.parametrize(
    "error", [AttributeError("x"), AssertionError(), ModuleNotFoundError("no", name="steer_trl.cli.nothing")], ids=repr
)
def test_an_unforeseen_error_is_not_hidden(error):
    with pytest.raises(type(error)), one_line("steer-trl"):
        raise error


def test_an_error_is_not_written_behind_an_open_progress_bar(capsys):
    with pytest.raises(SystemExit), one_line("steer-trl eval"):
        bar = tqdm(total=3, file=sys.stderr)
        raise ValueError("no")
    bar.close()
    said = capsys.readouterr().err
    assert re.search(rf"[\n\r](\x1b\[A)?steer-trl eval: error: no {re.escape(HINT)}\n", said), said


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
            assert process.poll() is None
            time.sleep(0.1)
        os.killpg(process.pid, signal.SIGINT)
        said = process.communicate()[1]
    shutil.rmtree(place / "asleep_run", ignore_errors=True)
    assert process.returncode == 130, said[-3000:]
    assert "Traceback" not in said
    assert "steer-trl train: stopped: interrupted\n" in said  # perhaps behind a bar of a process that ends
