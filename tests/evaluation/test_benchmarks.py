"""What to evaluate on, by names, files and numbers of samples."""

import pytest

from steer_trl.evaluation import load_benchmarks


class TestBenchmarks:
    def test_specifications(self, tmp_path):
        path = tmp_path / "mine.jsonl"
        path.write_text('{"problem": "1+1?", "answer": "2"}\n')
        loaded = load_benchmarks([str(path), f"aime24={path}", f"b={path}@3"])
        assert [(b.name, b.num_samples, len(b.dataset)) for b in loaded] == [
            ("mine", 1, 1),
            ("aime24", 32, 1),
            ("b", 3, 1),
        ]

    @pytest.mark.parametrize(
        ("wrong", "message"),
        [
            (["a=x.jsonl", "a=y.jsonl"], "benchmark 'a' is named twice"),
            (["a=x.jsonl@0"], "benchmark 'a' must have >= 1 samples, got 0"),
            ([], "benchmarks must not be empty"),
            ([""], "a benchmark must be NAME, .* got ''"),
        ],
    )
    def test_refusals(self, wrong, message):
        with pytest.raises(ValueError, match=message):
            load_benchmarks(wrong)
