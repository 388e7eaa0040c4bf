"""The results of a training in its card."""

import json

import pytest
from datasets import Dataset
from huggingface_hub import ModelCard
from support.hub_server import complaints
from support.runs import ON_CPU

from steer_trl import SteerGRPOConfig
from steer_trl.data import SOURCES, load_math_dataset, raw_rows
from steer_trl.evaluation import Benchmark, BenchmarkEvaluation
from steer_trl.report.card import CardFacts, make_card
from steer_trl.report.hub_results import find_hub_datasets, read_results


class TestDatasets:
    def test_only_data_from_the_hub_is_named(self):
        dataset = Dataset.from_dict({"prompt": ["a", "b"]})
        assert find_hub_datasets(dataset) == [] == find_hub_datasets(None)
        dataset.info.homepage = "https://huggingface.co/datasets/open-r1/DAPO-Math-17k-Processed"
        mapped = dataset.map(lambda row: {"solution": row["prompt"]}).select([0])
        assert find_hub_datasets(mapped) == ["open-r1/DAPO-Math-17k-Processed"]
        dataset.info.homepage = "https://example.com/datasets/a"
        assert find_hub_datasets(dataset) == []

    def test_the_loader_says_where_rows_come_from(self, monkeypatch, tmp_path):
        rows = {"problem": ["1+1?", "2+2?"], "answer": ["2", "4"]}
        monkeypatch.setattr(raw_rows, "load_dataset", lambda **_: Dataset.from_dict(rows))  # the Hub is not here
        assert find_hub_datasets(load_math_dataset("math500")) == ["HuggingFaceH4/MATH-500"]
        monkeypatch.undo()
        path = tmp_path / "math500.jsonl"
        path.write_text("".join(json.dumps({"problem": f"{i}+1?", "answer": str(i + 1)}) + "\n" for i in range(2)))
        assert find_hub_datasets(load_math_dataset(str(path))) == []


class TestOfATraining:
    LOG = [
        {"step": 5, "eval_aime24_avg@2": 0.25, "eval_aime24_pass@2": 0.5, "eval_aime24_num_tokens": 9.0},
        {"step": 10, "eval_aime24_avg@2": 0.75, "eval_aime24_pass@2": 1.0, "eval_average_avg": 0.75},
    ]

    def benchmarks(self, homepage):
        dataset = Dataset.from_dict({"source": ["aime24"] * 3})
        dataset.info.homepage = homepage
        return BenchmarkEvaluation([Benchmark("aime24", dataset, 2)])

    def test_a_hub_benchmark_has_its_revision(self):
        avg, best = read_results(self.LOG, 10, self.benchmarks("https://huggingface.co/datasets/math-ai/aime24"))
        assert (avg.metric_value, avg.metric_type, avg.metric_name) == (0.75, "accuracy", "avg@2")
        assert (best.metric_value, best.metric_type) == (1.0, "pass@2")
        source = SOURCES["aime24"]
        assert (avg.dataset_type, avg.dataset_split) == ("math-ai/aime24", "test")
        assert avg.dataset_revision == source.revision

    @pytest.mark.parametrize("column", [{"prompt": ["a"] * 3}, {"source": [1, 2, 3]}, {"source": [["aime24"]] * 3}])
    def test_unknown_facts_of_a_hub_benchmark_are_omitted(self, column):
        dataset = Dataset.from_dict(column)
        dataset.info.homepage = "https://huggingface.co/datasets/org/set"
        evaluation = BenchmarkEvaluation([Benchmark("aime24", dataset, 2)], judge=len)
        avg, _ = read_results(self.LOG, 10, evaluation)
        assert (avg.dataset_type, avg.dataset_revision, avg.metric_value) == ("org/set", None, 0.75)

    def test_a_file_of_the_same_name_is_local(self):
        avg, _ = read_results(self.LOG, 10, self.benchmarks(""))
        assert (avg.dataset_type, avg.dataset_revision) == ("aime24", None)

    def test_the_results_are_those_of_the_weights(self):
        best, earlier = (trained(self.LOG, step, self.benchmarks("")) for step in (10, 7))
        assert best.data.eval_results[0].metric_value == 0.75
        assert earlier.data.eval_results[0].metric_value == 0.25
        row = "| aime24 | avg@2 | 0.25 | 3 | 2 | temperature 1.0, top-p 0.7, 3072 tokens, at step 5 |"
        assert row in str(earlier) and "after step 7 of " in str(earlier)
        assert complaints(str(best)) == []
        assert ModelCard(str(best)).data.eval_results == best.data.eval_results


def trained(log, step, benchmarks):
    """The card of a run."""
    return make_card(CardFacts(SteerGRPOConfig("out", **ON_CPU), log=log, step=step, benchmarks=benchmarks))
