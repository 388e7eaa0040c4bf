"""Names in a command are checked without importing torch."""

import subprocess
import sys
from dataclasses import fields

import pytest
from support import ENVIRONMENT, SMOKE
from support.command_lines import train
from support.evaluations import write_evaluation

from steer_trl.cli import name_checks
from steer_trl.cli.compare import find_evaluation
from steer_trl.cli.eval_arguments import EvalArguments
from steer_trl.cli.main import main
from steer_trl.cli.recipe_files import RECIPES, list_files, load_recipe
from steer_trl.cli.recipes import GROUPS, find_recipes, read_first_sentence
from steer_trl.cli.setting_names import ALIASES, read_names
from steer_trl.cli.train import TYPES
from steer_trl.evaluation import load_benchmarks
from steer_trl.monitoring import run_files


def test_every_alias_leads_to_a_setting():
    known = [{field.name for kind in kinds for field in fields(kind)} for kinds in (TYPES, [EvalArguments])]
    for alias, settings in ALIASES.items():
        assert any(alias not in of_command and {*settings} & of_command for of_command in known)
        assert {*settings} <= set().union(*known)


@pytest.mark.parametrize(("command", "kinds"), [("train", TYPES), ("eval", [EvalArguments])])
def test_the_sources_name_every_setting(command, kinds):
    assert {field.name for kind in kinds for field in fields(kind)} <= read_names(command)


WITHOUT_TORCH = """
import sys
from steer_trl.cli.main import main
try:
    main(sys.argv[1:])
finally:
    heavy = {"torch", "trl", "transformers", "datasets", "wandb"} & sys.modules.keys()
    assert not heavy, heavy
"""


@pytest.mark.parametrize(
    "line",
    [
        ["train", "--config", "frist_run"],
        ["train", "--config", str(SMOKE), "--dataset_name", "nope.jsonl", "--model_name_or_path", "runs/nope"],
        ["train", "--config", str(SMOKE), "--accelerate_config", "zero4"],
        ["train", "--config", str(SMOKE), "--advantage_shapping", "steer"],
        ["train", "--config", str(SMOKE), "--lr", "1e-3"],
        ["eval", "--modle_name_or_path", "x"],
        ["eval", "--model_name_or_path", "./nope", "--output_dir", "x", "--benchmarks", "aime99"],
    ],
    ids=lambda line: line[-2],
)
def test_a_wrong_name_is_reported_before_torch_is_imported(line, tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_TORCH, *line], env=ENVIRONMENT, cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 2 and done.stderr.startswith(f"steer-trl {line[0]}: error: "), done.stderr


@pytest.mark.parametrize(
    ("path", "is_there"),
    [("model", True), ("empty", False), ("./nope", False), ("a/b/c", False), ("runs/nope", False), ("model/x", False)],
)
def test_a_missing_folder_of_a_model_is_named(path, is_there, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("model", "empty"):
        (tmp_path / name).mkdir()
    (tmp_path / "model/config.json").touch()
    complaints = name_checks.model_complaints(path)
    assert bool(complaints) is not is_there and all(f"{path!r}" in one and "Hub" not in one for one in complaints)


@pytest.mark.parametrize(
    ("specification", "file"),
    [
        ("runs/lr=1e-6/test.jsonl", "runs/lr=1e-6/test.jsonl"),
        ("runs/lr=1e-6/test.jsonl@8", "runs/lr=1e-6/test.jsonl"),
        ("test=runs/lr=1e-6/test.jsonl@8", "runs/lr=1e-6/test.jsonl"),
        ("test=runs/v@2/test.jsonl", "runs/v@2/test.jsonl"),
        ("test.jsonl@8", "test.jsonl"),
        ("my@home.jsonl", "my@home.jsonl"),
    ],
)
def test_a_benchmark_is_read_as_the_evaluation_reads_it(specification, file, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    complaint = name_checks.benchmark_complaints(specification)
    assert complaint and all(file in one for one in complaint)  # no such file yet
    (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / file).write_text('{"problem": "1+1?", "answer": "2"}\n')
    assert name_checks.benchmark_complaints(specification) == []
    (loaded,) = load_benchmarks([specification])
    assert loaded.num_samples == (8 if specification.endswith("@8") else 1) and len(loaded.dataset) == 1


def test_a_model_that_is_not_on_the_hub_is_named():
    (complaint,) = name_checks.model_complaints("org/no-such-model")
    assert "'org/no-such-model'" in complaint and "Hub" in complaint  # the tests have no network


def test_all_wrong_names_stand_in_one_error(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run/checkpoint-2").mkdir(parents=True)
    line = train(dataset_name="nope.jsonl", model_name_or_path="./nope", output_dir="run")
    with pytest.raises(SystemExit):
        main(line)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 3
    for text in ("nope.jsonl", "./nope", "checkpoint-2"):
        assert sum(text in line for line in lines) >= 1


def test_typed_values_go_over_a_recipes():
    line = name_checks.read_command(["--config", str(SMOKE), "--advantage-shaping", "steer", "opo", "--max_steps=3"])
    assert line.values("advantage_shaping") == ["steer", "opo"] and line.value("max_steps") == "3"
    assert line.value("loss_type") == load_recipe(SMOKE)["loss_type"] and line.values("eval_benchmarks") == []


def test_every_recipe_stands_once_in_the_list():
    listed = [path for patterns in GROUPS.values() for path in find_recipes(patterns)]
    assert sorted(path.stem for path in listed) == sorted(list_files(RECIPES))
    assert all(read_first_sentence(path).endswith(".") for path in listed)


@pytest.mark.parametrize("inside", ["_test", "_test/t1", "benchmarks/step-20", "benchmarks/step-20/papers"])
def test_a_run_folder_stands_for_its_evaluation(inside, tmp_path, capsys):
    write_evaluation(tmp_path / "run" / inside, [0.5, 0.2])
    if inside.startswith("benchmarks"):
        write_evaluation(tmp_path / "run" / inside.replace("20", "9"), [0.5, 0.2])
        for step in (9, 20):
            key = "eval_a_papers_avg@4" if inside.endswith("papers") else "eval_a_avg@4"
            run_files.append(tmp_path / "run", {"step": step, key: 0.5})
    found = find_evaluation(str(tmp_path / "run"))
    depth = "run" if inside == "_test" else f"run/{'/'.join(inside.split('/')[: 2 if 'step' in inside else 1])}"
    assert found == str(tmp_path / depth) and (depth == "run") is (capsys.readouterr().err == "")


def test_several_evaluations_of_a_run_are_listed(tmp_path):
    for name in ("_eval/t1", "_test/t1"):
        write_evaluation(tmp_path / name, [0.5, 0.2])
    with pytest.raises(ValueError, match=r"_eval.*_test"):
        find_evaluation(str(tmp_path))


@pytest.mark.parametrize("state", ["", "{", "[]", "{}", '{"global_step": "4"}'])
def test_an_incomplete_checkpoint_is_not_resumed(tmp_path, state):
    checkpoint = tmp_path / "run/checkpoint-4"
    checkpoint.mkdir(parents=True)
    (tmp_path / "run/config.json").write_text("{}")
    for text, is_refused in ((state, True), ('{"global_step": 4}', False)):
        (checkpoint / "trainer_state.json").write_text(text)
        for resume in (str(checkpoint), "auto"):
            assert bool(name_checks.folder_complaints(str(tmp_path / "run"), resume)) is is_refused
