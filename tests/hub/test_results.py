"""Results in a card: a training's own, and those that `steer-trl eval --write_card true` adds."""

import json
import re
from pathlib import Path

import pytest
from datasets import Dataset
from huggingface_hub import ModelCard
from support.hub_server import complaints
from support.runs import ON_CPU, save_tiny_model

from steer_trl import SteerGRPOConfig
from steer_trl.cli.main import main
from steer_trl.data import SOURCES, load_math_dataset, reading
from steer_trl.evaluation import Benchmark, BenchmarkEvaluation
from steer_trl.hub.card import Run, make_card
from steer_trl.hub.results import datasets_on_hub, results_of_log


class TestDatasets:
    def test_only_what_was_loaded_from_the_hub_is_named(self):
        dataset = Dataset.from_dict({"prompt": ["a", "b"]})
        assert datasets_on_hub(dataset) == [] == datasets_on_hub(None)
        dataset.info.homepage = "https://huggingface.co/datasets/open-r1/DAPO-Math-17k-Processed"
        mapped = dataset.map(lambda row: {"solution": row["prompt"]}).select([0])
        assert datasets_on_hub(mapped) == ["open-r1/DAPO-Math-17k-Processed"]
        dataset.info.homepage = "https://example.com/datasets/a"
        assert datasets_on_hub(dataset) == []

    def test_the_loader_says_where_rows_come_from(self, monkeypatch, tmp_path):
        rows = {"problem": ["1+1?", "2+2?"], "answer": ["2", "4"]}
        monkeypatch.setattr(reading, "load_dataset", lambda **_: Dataset.from_dict(rows))  # the Hub is not here
        assert datasets_on_hub(load_math_dataset("math500")) == ["HuggingFaceH4/MATH-500"]
        monkeypatch.undo()
        path = tmp_path / "math500.jsonl"
        path.write_text("".join(json.dumps({"problem": f"{i}+1?", "answer": str(i + 1)}) + "\n" for i in range(2)))
        assert datasets_on_hub(load_math_dataset(str(path))) == []


class TestOfATraining:
    LOG = [
        {"step": 5, "eval_aime24_avg@2": 0.25, "eval_aime24_pass@2": 0.5, "eval_aime24_num_tokens": 9.0},
        {"step": 10, "eval_aime24_avg@2": 0.75, "eval_aime24_pass@2": 1.0, "eval_average_avg": 0.75},
    ]

    def benchmarks(self, homepage):
        dataset = Dataset.from_dict({"source": ["aime24"] * 3})
        dataset.info.homepage = homepage
        return BenchmarkEvaluation([Benchmark("aime24", dataset, 2)])

    def test_a_benchmark_of_the_hub_is_named_with_its_revision(self):
        avg, best = results_of_log(self.LOG, 10, self.benchmarks("https://huggingface.co/datasets/math-ai/aime24"))
        assert (avg.metric_value, avg.metric_type, avg.metric_name) == (0.75, "accuracy", "avg@2")
        assert (best.metric_value, best.metric_type) == (1.0, "pass@2")
        source = SOURCES["aime24"]
        assert (avg.dataset_type, avg.dataset_split) == ("math-ai/aime24", "test")
        assert avg.dataset_revision == source.revision

    @pytest.mark.parametrize("column", [{"prompt": ["a"] * 3}, {"source": [1, 2, 3]}, {"source": [["aime24"]] * 3}])
    def test_what_is_not_known_of_a_benchmark_of_the_hub_is_left_out(self, column):
        dataset = Dataset.from_dict(column)
        dataset.info.homepage = "https://huggingface.co/datasets/org/set"
        evaluation = BenchmarkEvaluation([Benchmark("aime24", dataset, 2)], judge=len)
        avg, _ = results_of_log(self.LOG, 10, evaluation)
        assert (avg.dataset_type, avg.dataset_revision, avg.metric_value) == ("org/set", None, 0.75)

    def test_a_file_of_the_same_name_is_not(self):
        avg, _ = results_of_log(self.LOG, 10, self.benchmarks(""))
        assert (avg.dataset_type, avg.dataset_revision) == ("aime24", None)

    def test_the_results_are_those_of_the_weights(self):
        best, earlier = (trained(self.LOG, step, self.benchmarks("")) for step in (10, 7))
        assert best.data.eval_results[0].metric_value == 0.75
        assert earlier.data.eval_results[0].metric_value == 0.25
        row = "| aime24 | avg@2 | 0.25 | 3 | 2 | temperature 1.0, top-p 0.7, 3072 tokens, at step 5 |"
        assert row in str(earlier) and "The weights are those of step 7, the best by" in str(earlier)
        assert complaints(str(best)) == []
        assert ModelCard(str(best)).data.eval_results == best.data.eval_results


def trained(log, step, benchmarks):
    """The card of a run."""
    return make_card(Run(SteerGRPOConfig("out", **ON_CPU), log=log, step=step, benchmarks=benchmarks))


@pytest.fixture
def model(tmp_path):
    """A folder of a model with the card of a run that measured `sums` at step 5."""
    folder = save_tiny_model(tmp_path / "model")
    log = [{"step": 5, "eval_sums_avg@2": 0.25}]
    rows = Dataset.from_dict({"source": ["sums"] * 3})
    trained(log, 5, BenchmarkEvaluation([Benchmark("sums", rows, 2)])).save(folder / "README.md")
    return folder


@pytest.fixture
def sums(tmp_path):
    path = tmp_path / "sums.jsonl"
    path.write_text("".join(f'{{"problem": "{i}+1=", "answer": "{i + 1}"}}\n' for i in range(3)))
    return path


def evaluate(model, sums, **others):
    given = {"output_dir": model.parent / "eval", "benchmarks": f"{sums}@2", "max_tokens": 4, "write_card": "true"}
    given |= {"backend": "transformers", "model_name_or_path": model} | others
    main(["eval", *(str(word) for name, value in given.items() for word in (f"--{name}", value))])


def manners(card):
    return [(r.metric_name, r.metric_args["max_tokens"], r.metric_args.get("step")) for r in card.data.eval_results]


class TestOfTheCommand:
    def test_its_results_are_beside_those_of_the_training(self, model, sums, capsys):
        before = ModelCard.load(model / "README.md").text
        evaluate(model, sums)
        assert f"Wrote the results into {model / 'README.md'}" in capsys.readouterr().out
        card = ModelCard.load(model / "README.md")
        assert manners(card) == [("avg@2", 3072, 5), ("avg@2", 4, None), ("pass@2", 4, None), ("maj@2", 4, None)]
        metrics = json.loads((model.parent / "eval/summary.json").read_text())["benchmarks"]["sums"]["metrics"]
        for result in card.data.eval_results[1:]:
            assert result.metric_value == pytest.approx(metrics[result.metric_name][0], abs=1e-6)
        assert complaints(str(card)) == []
        assert card.text == before

    def test_a_set_of_the_hub_with_a_judge_of_ones_own(self, model, sums, monkeypatch):
        rows = {"prompt": ["1+1=", "2+2="]}
        monkeypatch.setattr(reading, "load_dataset", lambda **_: Dataset.from_dict(rows))  # the Hub is not here
        evaluate(model, "org/set", judge="support.eval_command.accept")
        found = [r for r in ModelCard.load(model / "README.md").data.eval_results if r.dataset_type == "org/set"]
        assert [(r.metric_name, r.metric_value) for r in found] == [("avg@2", 1.0), ("pass@2", 1.0), ("maj@2", 1.0)]

    def test_the_summary_is_there_before_the_card(self, model, sums, monkeypatch):
        monkeypatch.setattr("steer_trl.cli.evaluate.results_of_summary", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            evaluate(model, sums)
        assert (model.parent / "eval/summary.json").is_file()

    def test_the_same_again_takes_the_place_of_the_first(self, model, sums):
        evaluate(model, sums)
        once = (model / "README.md").read_text()
        evaluate(model, sums)
        assert (model / "README.md").read_text() == once

    @pytest.mark.parametrize("end", ["\n", "\r\n"])
    def test_a_card_of_another_hand_keeps_all_else(self, model, sums, end):
        text = "---\nlicense: mit\nmine: 1\n---\n\n# Mine\n\n## Evaluation\n\nBy eye.\n".replace("\n", end)
        card = Path(model, "README.md")
        card.write_bytes(text.encode())
        evaluate(model, sums)
        data = ModelCard.load(card).data
        assert data.to_dict()["mine"] == 1 and data.model_name == "model" and len(data.eval_results) == 3
        written = card.read_bytes()
        assert written.endswith(text.partition(f"---{end}{end}")[2].encode())
        assert written.count(end.encode()) == written.count(b"\n") > 10

    @pytest.mark.parametrize(("text", "said"), [(None, "No such file"), ("---\n- a\n---\n", "should be a dict")])
    def test_refused_before_anything_is_drawn(self, model, sums, capsys, text, said):
        (model / "README.md").unlink()
        if text:
            (model / "README.md").write_text(text)
        with pytest.raises(SystemExit):
            evaluate(model, sums)
        assert re.search(f"write_card=True needs .* is none: .*{said}", capsys.readouterr().err)
        assert not Path(model.parent / "eval").exists()
