"""From judged samples to a table: by hand."""

import json
from math import comb, sqrt

import pytest

from steer_trl.evaluation import summarize, table
from steer_trl.evaluation.records import SampleRecord


def entry(benchmark, problem, answer, correct):
    text = f"It is {answer}."
    return SampleRecord(0, benchmark, problem, 0, answer, correct, False, answer, answer is None, 10, text)


class TestSummary:
    ENTRIES = [
        *(entry("a", "0", answer, answer == "1") for answer in ("1", "1", "2", None)),
        *(entry("a", "1", answer, answer == "7") for answer in ("5", "5", "7", "6")),
        *(entry("b", "0", answer, answer == "3") for answer in ("3", None)),
    ]

    def test_a_summary_equals_hand_counted_values(self):
        summary = summarize(self.ENTRIES)
        a, b = summary["benchmarks"]["a"], summary["benchmarks"]["b"]
        assert (a["problems"], a["samples"], b["problems"], b["samples"]) == (2, 4, 1, 2)
        means = {key: mean for key, (mean, _) in a["metrics"].items()}
        assert means == {
            "avg@4": (2 / 4 + 1 / 4) / 2,
            "pass@2": pytest.approx(((1 - comb(2, 2) / comb(4, 2)) + (1 - comb(3, 2) / comb(4, 2))) / 2),
            "pass@4": 1.0,
            **{"cover@0.25": 1.0, "cover@0.5": 0.5, "cover@0.75": 0.0},
            "maj@4": 0.5,
            "distinct@4": 1.0,  # "It is 1." twice, and "It is 7."
            **{"unanswered": 1 / 8, "truncated": 1 / 8, "timed_out": 0.0, "num_tokens": 10.0},
        }
        assert b["metrics"]["avg@2"] == (0.5, None)  # one problem has no interval
        average = summary["average"]
        assert average["avg"][0] == pytest.approx((3 / 8 + 1 / 2) / 2) and average["avg"][1] is None
        cover = {"cover@0.25", "cover@0.5", "cover@0.75"}
        assert set(average) == {"avg", "maj", "pass@2", "unanswered", "truncated", "timed_out", "num_tokens"} | cover
        json.dumps(summary, allow_nan=False)

    def test_interval_of_the_average(self):
        entries = [entry(name, str(i), "1", i % 2 == 0) for name in "ab" for i in range(4)]
        half = 1.96 * sqrt(1 / 3) / 2
        assert summarize(entries)["average"]["avg"] == pytest.approx((0.5, sqrt(2 * half**2) / 2))

    def test_the_table_has_a_column_for_each_benchmark(self):
        lines = [line.split() for line in table(summarize(self.ENTRIES)).splitlines()]
        rows = {row[0]: row[1:] for row in lines if row}
        assert lines[0] == ["a", "b", "average"] and rows["problems"] == ["2", "1"]
        assert rows["avg@4"] == ["37.5", "±24.5"] and rows["avg@2"] == ["50.0"] and rows["avg"] == ["43.8"]
        assert rows["distinct@4"] == ["1.00"] and rows["num_tokens"] == ["10.00"] * 3
