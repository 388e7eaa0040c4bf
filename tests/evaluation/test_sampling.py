"""How completions are drawn: by name, from a file, and what cannot be."""

import numpy as np
import pytest
from datasets import Dataset

from steer_trl.evaluation import Benchmark, BenchmarkEvaluation, Sampling, load_samplings


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
            *((f"{name}: {{top_p: 1.0}}\n", f"first no '.' or '-'.*got '{name}'") for name in ("..", ".", "-x", ".x")),
            ("completions.jsonl: {top_p: 1.0}\n", "and no file of an evaluation, got 'completions.jsonl'"),
            ("hot: {top_k: 1.5}\n", "top_k must be a whole number, got 1.5"),
            ("hot: {max_tokens: 7.0}\n", "max_tokens must be a whole number, got 7.0"),
            ("hot: {seed: .5}\n", "seed must be a whole number, got 0.5"),
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


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"temperature": -1.0}, "temperature must be in .*, got -1.0"),
        ({"top_p": 0.0}, "top_p must be in .*, got 0.0"),
        ({"max_tokens": 0}, "max_tokens must be in .*, got 0"),
        ({"top_k": -1}, "top_k must be in .*, got -1"),
        ({"seed": -1}, "seed must be >= 0, got -1"),
    ],
)
def test_sampling_refusals(wrong, message):
    with pytest.raises(ValueError, match=message):
        Sampling(**wrong)


def test_whole_numbers_are_taken_where_others_are_meant():
    found = Sampling(temperature=2, top_p=1, top_k=np.int64(3))
    assert [(type(value), value) for value in vars(found).values()][:3] == [(float, 2.0), (float, 1.0), (int, 3)]


@pytest.mark.parametrize("name", ["..", "a/b", "", "summary.json", 1])
def test_names_in_a_training_are_folders_too(name):
    with pytest.raises(ValueError, match="the name of a sampling must be"):
        BenchmarkEvaluation([Benchmark("a", Dataset.from_dict({"prompt": ["1+1="]}), 1)], {name: Sampling()})
