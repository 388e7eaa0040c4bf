"""Several samplings and any judge: by the command line, during training, and what is compared afterwards."""

import json

import pytest
from datasets import Dataset
from support.runs import save_tiny_model

from steer_trl import SteerGRPOTrainer
from steer_trl.cli.arguments import MathArguments
from steer_trl.cli.compare import main as compare
from steer_trl.cli.evaluate import EvalArguments, run
from steer_trl.countdown.task import countdown_reward, problems, solutions
from steer_trl.data.instructions import INSTRUCTIONS, OF_THE_PAPERS, with_instruction
from steer_trl.evaluation import (
    Benchmark,
    BenchmarkEvaluation,
    RewardJudge,
    Sampling,
    load_benchmarks,
    load_samplings,
)
from steer_trl.report.evaluations import evaluated
from steer_trl.report.read import find_runs


class TestNames:
    def test_the_papers_greedy_and_temperature_1(self):
        found = load_samplings(["papers", "greedy", "t1", "t0.5"], max_tokens=7, seed=3)
        assert [(one.temperature, one.top_p) for one in found.values()] == [(1, 0.7), (0, 1), (1, 1), (0.5, 1)]
        assert {(one.max_tokens, one.seed) for one in found.values()} == {(7, 3)}
        assert Sampling() == load_samplings(["papers"])["papers"]

    def test_a_file_of_names_and_settings(self, tmp_path):
        path = tmp_path / "mine.yaml"
        path.write_text("hot: {temperature: 1.3, top_p: 1.0}\nlong: {max_tokens: 99}\n")
        found = load_samplings(["greedy", str(path)], max_tokens=7)
        assert list(found) == ["greedy", "hot", "long"]
        assert (found["hot"].temperature, found["hot"].max_tokens, found["long"].max_tokens) == (1.3, 7, 99)

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("hot: 1.3\n", "must map names to settings"),
            ("[]\n", "must map names to settings"),
            ("hot: {temprature: 1}\n", "hot.temprature is no setting of a sampling. Did you mean 'temperature'"),
            ("../up: {top_p: 1.0}\n", r"the name of a sampling must be letters.*got '\.\./up'"),
            ("hot: {top_p: 2}\n", r"top_p must be in \(0, 1\], got 2"),
            ("greedy: {top_p: 1.0}\n", "'greedy' is given twice"),
            ("a: [\n", "cannot be read"),
        ],
    )
    def test_files_that_are_refused(self, tmp_path, text, message):
        path = tmp_path / "mine.yaml"
        path.write_text(text)
        with pytest.raises(ValueError, match=message):
            load_samplings(["greedy", str(path)])

    def test_names_that_are_refused(self, tmp_path):
        with pytest.raises(ValueError, match=r"'papres' is unknown\. Did you mean 'papers'"):
            load_samplings(["papres"])
        with pytest.raises(ValueError, match=r"gone.yaml' cannot be read"):
            load_samplings([str(tmp_path / "gone.yaml")])


class TestJudges:
    def test_a_reward_function_judges_texts_as_it_rewards_them(self):
        prompts = [row["prompt"] for row in problems("test")[:4]]
        texts = [solutions(prompts[0])[0], "1+1=3", solutions(prompts[2])[1], ""]
        verdicts = RewardJudge(countdown_reward)(
            texts, [{"prompt": prompt, "id": str(i)} for i, prompt in enumerate(prompts)]
        )
        assert [verdict.correct for verdict in verdicts] == [True, False, True, False]
        assert [verdict.answer for verdict in verdicts] == texts

    def test_it_is_given_messages_where_the_prompt_has_some_and_every_column(self):
        seen = {}

        def reward(prompts, completions, difficulty, **_):
            seen.update(prompts=prompts, completions=completions, difficulty=difficulty)
            return [None, 0.5]

        rows = [{"prompt": [{"role": "user", "content": "a"}], "difficulty": n} for n in (1, 2)]
        verdicts = RewardJudge(reward, threshold=0.4)(["x", "y"], rows)
        assert [verdict.correct for verdict in verdicts] == [False, True]
        assert seen["completions"] == [[{"role": "assistant", "content": text}] for text in "xy"]
        assert seen["difficulty"] == [1, 2] and seen["prompts"] == [row["prompt"] for row in rows]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return str(save_tiny_model(tmp_path_factory.mktemp("tiny")))


@pytest.fixture
def sums(tmp_path):
    path = tmp_path / "sums.jsonl"
    path.write_text("".join(f'{{"problem": "{i}+1=", "answer": "{i + 1}"}}\n' for i in range(4)))
    return f"{path}@16"


def arguments(model, folder, benchmark, **others):
    sizes = {"max_tokens": 4, "batch_size": 32, "backend": "transformers"}
    return EvalArguments(model, str(folder), [benchmark], **sizes | others)


def test_the_headline_columns_come_out_of_one_evaluation(model, sums, tmp_path, capsys):
    """Accuracy with top-p 0.7 and greedy, pass@16 and different solutions at temperature 1, on a model of math."""
    folders = [tmp_path / "a", tmp_path / "b"]
    for seed, folder in enumerate(folders):
        found = run(arguments(model, folder, sums, samplings=["papers", "greedy", "t1"], seed=seed))
    assert list(found) == ["papers", "greedy", "t1"]
    metrics = {name: one["benchmarks"]["sums"]["metrics"] for name, one in found.items()}
    assert "avg@16" in metrics["papers"] and next(iter(metrics["greedy"])) == "avg@1"
    assert {"avg@16", "pass@16", "distinct@16"} <= metrics["t1"].keys()
    for name in found:
        settings = json.loads((folders[0] / name / "settings.json").read_text())
        assert settings["sampling"]["temperature"] == (0 if name == "greedy" else 1)
        assert len((folders[0] / name / "completions.jsonl").read_text().splitlines()) == (
            4 if name == "greedy" else 64
        )
    drawn = {name: (folders[0] / name / "completions.jsonl").read_text() for name in ("papers", "t1")}
    assert drawn["papers"] != drawn["t1"]
    capsys.readouterr()
    compare([str(folder) for folder in folders])
    shown = capsys.readouterr().out
    assert all(f"\n{name}\n" in f"\n{shown}" for name in found) and shown.count("num_tokens") == 3


def test_one_way_to_draw_among_several_draws_what_it_does_alone(model, sums, tmp_path):
    run(arguments(model, tmp_path / "alone", sums))
    run(arguments(model, tmp_path / "several", sums, samplings=["greedy", "papers"]))
    alone, several = (tmp_path / name / "completions.jsonl" for name in ("alone", "several/papers"))
    assert alone.read_text() == several.read_text()


def test_any_task_is_evaluated_by_its_own_reward(model, tmp_path):
    path = tmp_path / "task.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in problems("test")[:6]))
    judge = "steer_trl.countdown.task.countdown_reward"
    found = run(arguments(model, tmp_path / "out", f"{path}@2", judge=judge, samplings=["t1", "t2"]))
    assert found["t2"]["benchmarks"]["task"]["problems"] == 6 and found["t1"]["settings"]["judge"] == judge
    entries = [json.loads(line) for line in (tmp_path / "out/t1/completions.jsonl").read_text().splitlines()]
    prompts = {row["id"]: row["prompt"] for row in problems("test")}
    rewards = countdown_reward([prompts[e["id"]] for e in entries], [e["completion"] for e in entries])
    assert [entry["correct"] for entry in entries] == [reward > 0 for reward in rewards]


def test_each_benchmark_has_its_own_instruction(model, sums, tmp_path):
    wordings = tmp_path / "wordings.yaml"
    wordings.write_text("sums: 'Only {problem}'\n")
    run(arguments(model, tmp_path / "out", sums, instruction=str(wordings)))
    plain, own = (arguments(model, tmp_path / "x", sums, instruction=one) for one in (None, str(wordings)))
    assert plain.wording is None and own.wording == {"sums": "Only {problem}"}
    wordings.write_text("other: '{problem}'\n")
    with pytest.raises(ValueError, match="instruction: 'other' is no benchmark of"):
        run(arguments(model, tmp_path / "y", sums, instruction=str(wordings)))


def test_the_papers_test_files_ask_each_benchmark_in_their_way(model, tmp_path):
    names = {name: tmp_path / f"{name}.jsonl" for name in (*OF_THE_PAPERS, "mine")}
    for path in names.values():
        path.write_text(json.dumps({"problem": "1+1=", "answer": "2"}) + "\n")
    of_each = [f"{name}={path}" for name, path in names.items()]
    asked = {b.name: b.dataset[0]["prompt"][-1]["content"] for b in load_benchmarks(of_each, "either", "papers")}
    assert asked["math500"] == asked["minerva"] == asked["olympiadbench"] == "1+1="
    assert (
        asked["aime24"] == asked["aime25"] == asked["amc23"] == with_instruction("1+1=", INSTRUCTIONS["answer_line"])
    )
    assert asked["mine"] == with_instruction("1+1=", INSTRUCTIONS["boxed"])  # no file of the papers'
    with pytest.raises(ValueError, match="answer_format must be 'either' with instruction='papers'"):
        arguments(model, tmp_path / "x", of_each[0], instruction="papers")
    args = MathArguments(eval_benchmarks=of_each[:1], eval_instruction="papers")
    evaluation = args.load_evaluation(max_tokens=8)
    assert [v.correct for v in evaluation.judge(["Answer: 2"], [{"solution": "2"}])] == [True]
    assert evaluation.benchmarks[0].dataset[0]["prompt"][-1]["content"] == asked["aime24"]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"samplings": ["greedy"], "temperature": 0.5}, "temperature=0.5 cannot be combined with samplings"),
        ({"samplings": ["gredy"]}, "Did you mean 'greedy'"),
        (
            {"judge": "my.judge", "answer_format": "answer_line"},
            "answer_format='answer_line' cannot be combined with judge",
        ),
    ],
)
def test_settings_that_are_refused(model, sums, tmp_path, wrong, message):
    with pytest.raises(ValueError, match=message):
        arguments(model, tmp_path / "out", sums, **wrong)


def test_several_samplings_during_training(train, tmp_path):
    rows = [{"id": str(i), "prompt": f"{i}+1=", "answer": str(i + 1)} for i in range(3)]

    def ends_in_one(completions, **_):
        return [float("1" in text) for text in completions]

    evaluation = BenchmarkEvaluation(
        [Benchmark("sums", Dataset.from_list(rows), 4)], load_samplings(["greedy", "t1"], max_tokens=4), ends_in_one
    )
    trainer = train(
        SteerGRPOTrainer,
        max_steps=2,
        eval_strategy="steps",
        eval_steps=1,
        save_strategy="steps",
        save_steps=1,
        load_best_model_at_end=True,
        metric_for_best_model="sums_t1_pass@4",
        trainer_arguments={"benchmarks": evaluation},
    )
    logged = [entry for entry in trainer.state.log_history if "eval_sums_t1_avg@4" in entry]
    assert [entry["step"] for entry in logged] == [1, 2] and "eval_sums_greedy_avg@1" in logged[0]
    assert evaluation.num_samples == 3 * (1 + 4)
    lines = (tmp_path / "run/benchmarks/step-2/t1/completions.jsonl").read_text().splitlines()
    right = [json.loads(line)["correct"] for line in lines]
    assert len(right) == 12 and sum(right) / 12 == pytest.approx(logged[1]["eval_sums_t1_avg@4"])
    shown = evaluated(*find_runs([tmp_path / "run"]))
    assert shown.step == 2 and set(shown.intervals) == {key for key in logged[0] if key.startswith("eval_sums_")}
    card = (tmp_path / "run/checkpoint-2/README.md").read_text()
    assert "temperature 0.0" in card and "temperature 1.0, top-p 1.0" in card
    with pytest.raises(ValueError, match=r"metric_for_best_model must be one of .*sums_greedy_avg@1"):
        train(
            SteerGRPOTrainer,
            eval_strategy="steps",
            metric_for_best_model="sums_avg@4",
            trainer_arguments={"benchmarks": evaluation},
        )
