"""What to evaluate on, by names, files and numbers of samples."""

import pytest
from datasets import Dataset

from steer_trl.evaluation import Benchmark, load_benchmarks


class TestBenchmarks:
    def test_a_specification_names_a_file_and_its_samples(self, tmp_path):
        path = tmp_path / "mine.jsonl"
        path.write_text('{"problem": "1+1?", "answer": "2"}\n')
        loaded = load_benchmarks([str(path), f"aime24={path}", f"b={path}@3"])
        assert [(b.name, b.num_samples) for b in loaded] == [("mine", 1), ("aime24", 32), ("b", 3)]
        assert [len(b.dataset) for b in loaded] == [1, 1, 1]

    @pytest.mark.parametrize(
        ("wrong", "message"),
        [
            (["a=x.jsonl", "a=y.jsonl"], "benchmark 'a' is named twice"),
            (["a=x.jsonl@0"], "benchmark 'a' must have from 1 to 100,000 samples, got 0"),
            ([], "benchmarks must not be empty"),
            ([""], "benchmark '' must be NAME"),
            (["a=x.jsonl@many"], "benchmark 'a=x.jsonl@many' must be NAME, .* and SAMPLES a whole number"),
        ],
    )
    def test_wrong_specifications_are_refused(self, wrong, message):
        with pytest.raises(ValueError, match=message):
            load_benchmarks(wrong)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (["c", "d"], ["c", "d"]),
        ([7, 8], ["7", "8"]),
        (["c", "c"], ["0", "1"]),
        ([None, "c"], ["0", "1"]),
        (None, ["0", "1"]),
    ],
)
def test_unique_ids_name_problems(given, expected):
    columns = {"prompt": ["1+1=", "2+2="]} | ({} if given is None else {"id": given})
    assert Benchmark("a", Dataset.from_dict(columns), 1).ids == expected


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ('{"prompt": 1}', "row 0: a question must be a text or a list of messages"),
        ('{"prompt": [{"role": "user"}]}', "row 0: a question must be a text or a list of messages, each with 'role'"),
        ('{"prompt": [1]}', "row 0: a question must be a text or a list of messages"),
        ('{"prompt": "a"}\n{"prompt": null}', "row 1: there is no prompt"),
        ('{"prompt": null, "a": 1}', "row 0: there is no prompt"),
        ('{"problem": "a"}', "must have a column 'prompt' for a judge of your own"),
    ],
)
def test_rows_that_cannot_be_asked_are_refused(tmp_path, rows, message):
    path = tmp_path / "mine.jsonl"
    path.write_text(rows + "\n")
    with pytest.raises(ValueError, match=f"benchmark '.*mine.jsonl'.*{message}"):
        load_benchmarks([str(path)], as_they_are=True)
