"""How completions are drawn: by name, and what cannot be."""

import numpy as np
import pytest
from datasets import Dataset

from steer_trl.evaluation import Benchmark, BenchmarkEvaluation, Sampling, load_samplings


def test_the_papers_greedy_and_temperature_1():
    found = load_samplings(["papers", "greedy", "t1", "t0.5"], max_tokens=7, seed=3)
    assert [(one.temperature, one.top_p) for one in found.values()] == [(1, 0.7), (0, 1), (1, 1), (0.5, 1)]
    assert {(one.max_tokens, one.seed) for one in found.values()} == {(7, 3)}
    assert Sampling() == load_samplings(["papers"])["papers"]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"temperature": -1.0}, "temperature must be in .*, got -1.0"),
        ({"top_p": 0.0}, "top_p must be in .*, got 0.0"),
        ({"max_tokens": 0}, "max_tokens must be in .*, got 0"),
        ({"top_k": -1}, "top_k must be in .*, got -1"),
        ({"seed": -1}, "seed must be in .*, got -1"),
        ({"seed": 0.5}, "seed must be a whole number, got 0.5"),
        ({"max_tokens": "7"}, "max_tokens must be a number in .*, got '7'"),
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
    with pytest.raises(ValueError, match="the name of a sampling must"):
        BenchmarkEvaluation([Benchmark("a", Dataset.from_dict({"prompt": ["1+1="]}), 1)], {name: Sampling()})
