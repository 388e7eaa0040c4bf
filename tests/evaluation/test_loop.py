"""Draw, judge, write down: every cut is resumed to the same file, and the judge decides."""

import pytest
from datasets import Dataset

from steer_trl.evaluation import Benchmark, Completion, Records, Sampling, evaluate


class Script:
    """A back end that knows what it will say: a function of prompt, seed and place in the batch."""

    is_collective = needs_equal_batches = False

    def __init__(self):
        self.calls = []

    def __call__(self, prompts, sampling, seed):
        self.calls.append(seed)
        return [Completion(rf"\boxed{{{(seed + i) % 5}}}", 3 + seed % 9, i % 7 == 0) for i, _ in enumerate(prompts)]


@pytest.fixture
def benchmarks():
    asked = {"prompt": [{"role": "user", "content": "?"}], "source": "x"}
    rows = Dataset.from_list([asked | {"solution": rf"\boxed{{{i % 3}}}", "id": str(i)} for i in range(5)])
    return [Benchmark("one", rows, 4), Benchmark("two", rows.select(range(3)), 1)]


def test_every_cut_goes_on_to_the_same_file(benchmarks, judge, tmp_path):
    settings = {"a": 1}
    whole = Records(tmp_path / "whole", settings)
    entries = evaluate(benchmarks, Script(), judge, Sampling(), 6, whole)
    assert len(entries) == 23 and [one.batch for one in entries] == [i // 6 for i in range(23)]
    text = (tmp_path / "whole/completions.jsonl").read_text()
    cuts = [0, 1, len(text) // 3, len(text) // 2, text.index("\n") + 1, len(text) - 1, len(text)]
    for cut in cuts:
        folder = tmp_path / str(cut)
        Records(folder, settings)
        (folder / "completions.jsonl").write_text(text[:cut])
        generate = Script()
        assert evaluate(benchmarks, generate, judge, Sampling(), 6, Records(folder, settings)) == entries
        assert (folder / "completions.jsonl").read_text() == text
        # A last line that lacks only its end is whole.
        assert len(generate.calls) == 4 - (text[:cut].count("\n") // 6 if cut < len(text) - 1 else 4)


def test_a_judge_gets_each_benchmarks_own_columns():
    """A batch has problems of both, of which one is asked as a text and one as a conversation."""
    sums = Dataset.from_list([{"id": str(i), "prompt": f"{i}?", "answer": f"{i}"} for i in range(3)])
    talks = [{"id": str(i), "prompt": [{"role": "user", "content": "?"}], "tests": f"{i}"} for i in range(2)]
    calls = []

    def judge(prompts, completions, answer=None, tests=None, **_):
        calls.append((answer, tests))
        return [1.0] * len(prompts)

    made = [Benchmark("sums", sums, 1), Benchmark("talks", Dataset.from_list(talks), 1)]
    records = evaluate(made, Script(), judge, Sampling(), 5)
    assert [record.benchmark for record in records] == ["sums"] * 3 + ["talks"] * 2
    assert calls == [(["0", "1", "2"], None), (None, ["0", "1"])]


def test_seeds_share_no_batch(benchmarks, judge):
    drawn = []
    for seed in range(4):
        generate = Script()
        evaluate(benchmarks, generate, judge, Sampling(seed=seed), 6)
        drawn += generate.calls
    assert len(set(drawn)) == len(drawn) == 16


def test_a_folder_takes_no_evaluation_with_other_settings(tmp_path):
    Records(tmp_path, {"top_p": 0.7})
    with pytest.raises(ValueError, match=r"other settings \(top_p: 0.7 there, 0.9 here\)"):
        Records(tmp_path, {"top_p": 0.9})
    Records(tmp_path, {"top_p": 0.9}, overwrite=True)
    (tmp_path / "settings.json").unlink()
    (tmp_path / "completions.jsonl").write_text("{}\n")
    with pytest.raises(ValueError, match=r"holds completions, but settings\.json, .* is missing"):
        Records(tmp_path, {"top_p": 0.9})
