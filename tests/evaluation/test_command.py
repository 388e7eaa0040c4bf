"""`steer-trl eval`: resumed after a kill, in several ways to draw, by any judge, with an instruction for each."""

import json
import shutil
import signal

import pytest
from datasets import Dataset
from support import processes
from support.eval_command import arguments, other_eos, other_template, other_tokenizer

from steer_trl.cli.arguments import MathArguments
from steer_trl.cli.compare import main as compare
from steer_trl.cli.eval_arguments import EvalArguments
from steer_trl.cli.evaluate import run
from steer_trl.cli.parser import RecipeParser
from steer_trl.data import SOURCES, Source
from steer_trl.data.instructions import INSTRUCTIONS, OF_THE_PAPERS, add_instruction
from steer_trl.evaluation import load_benchmarks, load_samplings


@pytest.fixture(scope="module")
def aime24(tmp_path_factory):
    """A stand-in of its size."""
    path = tmp_path_factory.mktemp("data") / "aime24.parquet"
    Dataset.from_list([{"problem": f"What is {i}+1?", "answer": str(i + 1)} for i in range(30)]).to_parquet(path)
    return path


def test_killed_half_way_and_gone_on_with(tiny_folder, aime24, tmp_path):
    def words(folder, module="steer_trl.cli"):
        given = {"model_name_or_path": tiny_folder, "output_dir": tmp_path / folder, "batch_size": 16}
        given |= {"benchmarks": f"aime24={aime24}@8", "max_tokens": 16}
        return ["-m", module, "eval", *processes.flags(given)]

    done = processes.run(*words("whole"))
    assert "aime24" in done.stdout and "Wrote" in done.stdout
    killed = processes.run(*words("cut", "support.killed_eval"), check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    drawn = (tmp_path / "cut/completions.jsonl").read_text().count("\n")
    assert drawn == 7 * 16 and not (tmp_path / "cut/summary.json").exists()
    processes.run(*words("cut"))
    for name in ("completions.jsonl", "summary.json", "settings.json"):
        assert (tmp_path / "cut" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    metrics = json.loads((tmp_path / "whole/summary.json").read_text())["benchmarks"]["aime24"]
    assert (metrics["problems"], metrics["samples"]) == (30, 8)


OTHER_PROMPTS = r"\(prompt_token_ids: '\w{16}' there, '\w{16}' here\)"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (other_template, OTHER_PROMPTS),
        (other_tokenizer, OTHER_PROMPTS),
        (other_eos, r"\(eos_token_ids: \[1\] there, \[1, 5\] here\)"),
        (None, r"\(timeout: 5.0 there, 4.0 here\)"),
    ],
)
def test_an_evaluation_of_another_model_or_prompt_is_not_resumed(tiny_folder, sums, tmp_path, change, message):
    model = shutil.copytree(tiny_folder, tmp_path / "model")
    run(arguments(model, tmp_path / "out", f"{sums}@2"))
    if change:
        change(model)
    with pytest.raises(ValueError, match=message):
        run(arguments(model, tmp_path / "out", f"{sums}@2", timeout=5.0 if change else 4.0))


def test_the_chat_template_is_given_its_arguments(tiny_folder, sums, tmp_path):
    model = shutil.copytree(tiny_folder, tmp_path / "model")
    template = model / "chat_template.jinja"
    template.write_text(template.read_text() + "{% if not thinks | default(true) %}42{% endif %}")
    found = {}
    for given in (None, '{"thinks": true}', {"thinks": False}):
        summary = run(arguments(model, tmp_path / str(len(found)), f"{sums}@2", chat_template_kwargs=given))
        found[str(given)] = summary["settings"]
    digests = [settings["prompt_token_ids"] for settings in found.values()]
    assert digests[0] == digests[1] != digests[2]
    assert [settings.get("chat_template_kwargs") for settings in found.values()] == [
        None,
        {"thinks": True},
        {"thinks": False},
    ]
    with pytest.raises(ValueError, match=r"chat_template_kwargs\.thinks"):
        run(arguments(model, tmp_path / "2", f"{sums}@2"))


def test_an_evaluation_of_another_commit_is_not_resumed(tiny_folder, sums, tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    repository = tmp_path / "models--us--tiny"
    (repository / "refs").mkdir(parents=True)
    for commit in ("a" * 40, "b" * 40):
        shutil.copytree(tiny_folder, repository / "snapshots" / commit)
    (repository / "refs/main").write_text("a" * 40)
    for _ in range(2):  # the second time nothing is left to draw
        run(arguments("us/tiny", tmp_path / "out", f"{sums}@2"))
    (repository / "refs/main").write_text("b" * 40)
    with pytest.raises(ValueError, match=r"\(model_commit: 'a{40}' there, 'b{40}' here\)"):
        run(arguments("us/tiny", tmp_path / "out", f"{sums}@2"))


def test_two_processes_measure_what_one_does(tiny_folder, sums, tmp_path):
    given = {"model_name_or_path": tiny_folder, "benchmarks": f"{sums}@3", "max_tokens": 8, "batch_size": 5}
    for folder, engine in (("one", None), ("two", processes.TWO_PROCESSES)):
        words = processes.flags(given | {"output_dir": tmp_path / folder})
        processes.run("-m", "steer_trl.cli", "eval", *words, engine=engine)
    for name in ("completions.jsonl", "summary.json"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


def test_the_headline_columns_come_out_of_one_evaluation(tiny_folder, sums, tmp_path, capsys):
    folders = [tmp_path / "a", tmp_path / "b"]
    for seed, folder in enumerate(folders):
        found = run(arguments(tiny_folder, folder, f"{sums}@16", samplings=["papers", "greedy", "t1"], seed=seed))
    assert list(found) == ["papers", "greedy", "t1"]
    metrics = {name: one["benchmarks"]["sums"]["metrics"] for name, one in found.items()}
    assert "avg@16" in metrics["papers"] and next(iter(metrics["greedy"])) == "avg@1"
    assert {"avg@16", "pass@16", "distinct@16"} <= metrics["t1"].keys()
    for name in found:
        settings = json.loads((folders[0] / name / "settings.json").read_text())
        assert settings["sampling"]["temperature"] == (0 if name == "greedy" else 1)
        lines = (folders[0] / name / "completions.jsonl").read_text().splitlines()
        assert len(lines) == (4 if name == "greedy" else 64)
    drawn = {name: (folders[0] / name / "completions.jsonl").read_text() for name in ("papers", "t1")}
    assert drawn["papers"] != drawn["t1"]
    run(arguments(tiny_folder, tmp_path / "alone", f"{sums}@16"))  # draws what it does among several
    assert (tmp_path / "alone/completions.jsonl").read_text() == drawn["papers"]
    capsys.readouterr()
    compare([str(folder) for folder in folders])
    shown = capsys.readouterr().out
    assert all(f"\n{name}\n" in f"\n{shown}" for name in found) and shown.count("num_tokens") >= 3


def test_a_sweep_is_several_samplings(tiny_folder, sums, tmp_path):
    recipe = tmp_path / "sweep.yaml"
    recipe.write_text("temperatures: [0.25, 1, 1.5]\n")
    needed = ["--model_name_or_path", str(tiny_folder), "--output_dir", str(tmp_path), "--benchmarks", f"{sums}@2"]
    named = load_samplings(["greedy", "t0.25", "t1", "t1.5"], max_tokens=3072)
    for words in (["--temperatures", ".25", "1", "1.5"], ["--config", str(recipe)]):
        (args,) = RecipeParser((EvalArguments,)).parse_args_and_config([*needed, "--samplings", "greedy", *words])
        assert args.samplings_by_name == named and list(args.samplings_by_name) == list(named)
    recipe.write_text("temperatures: [a]\n")
    with pytest.raises(ValueError, match=r"temperatures.*: invalid float value: 'a'"):
        RecipeParser((EvalArguments,)).parse_args_and_config([*needed, "--config", str(recipe)])


def test_another_evaluation_in_a_sweeps_last_folder_is_found_before_the_first_sample(
    tiny_folder, sums, tmp_path, monkeypatch
):
    fields = {"model_name_or_path": str(tiny_folder), "output_dir": str(tmp_path / "out"), "benchmarks": [str(sums)]}
    (tmp_path / "out/t1").mkdir(parents=True)
    (tmp_path / "out/t1/settings.json").write_text('{"seed": 3}')
    monkeypatch.setattr("steer_trl.cli.evaluate.evaluate", lambda *_: pytest.fail("it draws"))
    with pytest.raises(ValueError, match=r"t1 holds an evaluation with other settings"):
        run(EvalArguments(**fields, temperatures=[0.5, 1.0]))
    assert not (tmp_path / "out/t0.5").exists()


def test_the_papers_wording_differs_between_benchmarks(tiny_folder, tmp_path):
    names = {name: tmp_path / f"{name}.jsonl" for name in (*OF_THE_PAPERS, "mine")}
    for path in names.values():
        path.write_text(json.dumps({"problem": "1+1=", "answer": "2"}) + "\n")
    of_each = [f"{name}={path}" for name, path in names.items() if name != "mine"]
    asked = {b.name: b.dataset[0]["prompt"][-1]["content"] for b in load_benchmarks(of_each, "either", "papers")}
    assert {asked.pop(name) for name in ("math500", "minerva", "olympiadbench")} == {"1+1="}
    assert asked == dict.fromkeys(("aime24", "aime25", "amc23"), add_instruction("1+1=", INSTRUCTIONS["answer_line"]))
    with pytest.raises(ValueError, match="answer_format must be 'either' with instruction='papers'"):
        arguments(tiny_folder, tmp_path / "x", of_each[0], instruction="papers")
    with pytest.raises(ValueError, match=r"instruction='papers'.*'mine'"):
        load_benchmarks([*of_each, f"mine={names['mine']}"], "either", "papers")
    with pytest.raises(ValueError, match=r"instruction='papers'.*'mine'"):
        arguments(tiny_folder, tmp_path / "x", f"{names['mine']}", instruction="papers", answer_format="either")
    args = MathArguments(eval_benchmarks=of_each[:1], eval_instruction="papers")
    evaluation = args.load_evaluation(max_tokens=8)
    assert evaluation.judge(["Answer: 2"], ["2"]) == [1.0]
    assert evaluation.benchmarks[0].dataset[0]["prompt"][-1]["content"] == asked["aime24"]


def test_a_benchmark_under_another_name_is_asked_as_before(tmp_path, monkeypatch):
    """A short name decides on the wording and the samples, whatever the results call it."""
    for name, problem in (("aime24", "1+1="), ("math500", "1+2=")):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "test.jsonl").write_text(json.dumps({"problem": problem, "answer": "2"}) + "\n")
        monkeypatch.setitem(SOURCES, name, Source(str(folder), "test"))
    loaded = load_benchmarks(["mine=aime24", "aime25=math500"], "either", "papers")
    asked = {one.name: (one.dataset[0]["prompt"][-1]["content"], one.num_samples) for one in loaded}
    assert asked == {"mine": (add_instruction("1+1=", INSTRUCTIONS["answer_line"]), 32), "aime25": ("1+2=", 1)}


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"backend": "tgi"}, "backend='tgi' is unknown"),
        ({"backend": "vllm"}, "backend='vllm' needs vLLM, which is not installed: pip"),
        ({"tensor_parallel_size": 2}, "tensor_parallel_size=2"),
        ({"chat_template_kwargs": "{"}, "chat_template_kwargs must be a JSON object"),
        ({"chat_template_kwargs": "[1]"}, "chat_template_kwargs must be a JSON object"),
        ({"chat_template_kwargs": {"tokenize": False}}, "chat_template_kwargs must be .* without any of tokenize"),
        ({"batch_size": 0}, "batch_size must be in .1, inf., got 0"),
        ({"dtype": "int8"}, "dtype='int8' is unknown"),
        ({"samplings": ["greedy"], "temperature": 0.5}, "temperature=0.5"),
        ({"samplings": ["gredy"]}, "Did you mean 'greedy'"),
        ({"temperatures": [0.5], "top_p": 0.9}, "top_p=0.9"),
        ({"temperatures": [0.0]}, r"temperatures must be in \[0.001, 1000\], got 0.0: greedy, 0, has a name"),
        ({"temperatures": [float("nan")]}, r"temperatures must be in \[0.001, 1000\], got nan"),
        ({"temperatures": [0.5, 0.5]}, "samplings: 't0.5' is given twice"),
        ({"temperatures": [1.0], "samplings": ["t1"]}, "samplings: 't1' is given twice"),
        ({"judge": "my.judge", "answer_format": "either"}, "answer_format='either'"),
        ({"judge": "my.judge", "timeout": 9.0}, "timeout=9.0"),
        ({"judge": "my.judge"}, r"judge='my\.judge' cannot be used"),
    ],
)
def test_settings_that_are_refused(tiny_folder, sums, tmp_path, wrong, message):
    with pytest.raises(ValueError, match=message):
        run(arguments(tiny_folder, tmp_path / "out", f"{sums}@16", **wrong))


@pytest.mark.parametrize(
    ("name", "drawn"), [("completions.jsonl", {}), ("settings.json", {}), ("t1/summary.json", {"samplings": ["t1"]})]
)
def test_problems_are_not_overwritten(tiny_folder, tmp_path, name, drawn):
    path = tmp_path / "out" / name
    path.parent.mkdir(parents=True)
    path.write_text('{"prompt": "1+1="}\n')
    with pytest.raises(ValueError, match=f"output_dir=.*{name}"):
        judge = "support.eval_command.accept"
        arguments(tiny_folder, tmp_path / "out", f"mine={path}@2", judge=judge, overwrite=True, **drawn)
    assert path.read_text() == '{"prompt": "1+1="}\n'


@pytest.mark.parametrize("ids", [["c", "d", "same", "same"], [None] * 4, [3, 2, 1, 0]])
def test_each_row_is_a_problem_whatever_its_id(tiny_folder, tmp_path, ids):
    path = tmp_path / "task.jsonl"
    path.write_text("".join(json.dumps({"prompt": f"{i}+1=", "id": name}) + "\n" for i, name in enumerate(ids)))
    judge = "support.eval_command.accept"
    for seed in (0, 1):
        found = run(arguments(tiny_folder, tmp_path / str(seed), f"{path}@2", judge=judge, seed=seed))
        (row,) = found["benchmarks"].values()
        assert (row["problems"], row["samples"], row["metrics"]["avg@2"]) == (4, 2, (1.0, 0.0))
    compare([str(tmp_path / "0"), str(tmp_path / "1")])
