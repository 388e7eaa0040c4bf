"""`steer-trl compare`, on evaluations that steer-trl eval has written and on ones made up."""

import json
import subprocess
import sys

import numpy as np
import pytest
from scipy import stats
from support import ENVIRONMENT
from support.evaluations import SETTINGS, write_evaluation

from steer_trl.cli.compare import main


def shares(folder):
    """Share of correct samples of each problem, read by other means."""
    found = {}
    for line in (folder / "completions.jsonl").read_text().splitlines():
        entry = json.loads(line)
        found.setdefault(entry["id"], []).append(entry["correct"])
    return [np.mean(found[name]) for name in sorted(found)]


def compared(tmp_path, *arguments):
    main([*map(str, arguments), "--json", str(tmp_path / "out.json")])
    written = json.loads((tmp_path / "out.json").read_text())
    return {(one["sampling"], one["benchmark"], one["metric"]): one for one in written["comparisons"]}


SKILL = np.linspace(0.1, 0.8, 60)


def drawn_with(**sampling):
    return SETTINGS | {"sampling": SETTINGS["sampling"] | sampling}


def test_two_evaluations_are_paired_over_their_problems(tmp_path, capsys):
    """Of other models, whose samples have other seeds."""
    a = write_evaluation(tmp_path / "a", SKILL, 1)
    b = write_evaluation(tmp_path / "b", SKILL + 0.15, 2, drawn_with(seed=7), model="other")
    found = compared(tmp_path, a, b)["", "a", "avg@4"]
    expected = stats.ttest_rel(shares(b), shares(a)).confidence_interval(0.95)
    assert (found["low"], found["high"]) == pytest.approx((expected.low, expected.high))
    assert found["difference"] == pytest.approx(np.mean(shares(b)) - np.mean(shares(a)))
    assert (found["problems"], found["seeds"], found["verdict"]) == (60, [1, 1], "higher")
    shown = capsys.readouterr().out
    (line,) = (line for line in shown.splitlines() if "avg@4" in line)
    assert f"{found['difference']:+.3f}" in line and f"{found['low']:+.3f} to {found['high']:+.3f}" in line
    assert line.split()[-1] == "higher" and "over the problems that both sides have answered (paired)" in shown


@pytest.mark.parametrize(
    ("other", "text"),
    [
        ({"settings": drawn_with(temperature=1.5)}, r"other ways \(sampling.temperature: 1.0 in .*a, 1.5 in .*b\)"),
        ({"skill": SKILL[:50]}, "must have answered the same problems of 'a'"),
        ({"name": "c"}, r"must be of the same benchmarks, got \['a'\] and \['c'\]"),
        ({"samples": 2}, "must have as many samples of each problem of 'a'"),
    ],
)
def test_evaluations_that_cannot_be_compared_are_refused(tmp_path, other, text):
    a = write_evaluation(tmp_path / "a", SKILL)
    b = write_evaluation(tmp_path / "b", **{"skill": SKILL} | other)
    with pytest.raises(ValueError, match=text):
        main([str(a), str(b)])


def test_folders_that_cannot_be_compared_are_named(tmp_path):
    a, b, c = (write_evaluation(tmp_path / name, SKILL, seed) for seed, name in enumerate("abc"))
    (tmp_path / "empty").mkdir()
    torn = write_evaluation(tmp_path / "torn", SKILL)
    (torn / "summary.json").unlink()
    named = write_evaluation(tmp_path / "named/papers", SKILL).parent
    unread, uncounted = (write_evaluation(tmp_path / name, SKILL) for name in ("unread", "uncounted"))
    (unread / "settings.json").write_text("[]")
    (uncounted / "summary.json").write_text("{}")
    wrong = [
        ([a], "two sides are needed"),
        ([a, a, a], "two sides are needed"),
        ([a, tmp_path / "nowhere"], "must be a folder that steer-trl eval has written"),
        ([a, tmp_path / "empty"], "holds no completions.jsonl"),
        ([a, torn], "an evaluation that has not ended. Run its command again"),
        ([a, unread], "settings.json' cannot be read as a mapping in JSON"),
        ([a, uncounted], "uncounted/completions.jsonl' does not hold .*KeyError"),
        ([a, named], "both sides must have the same samplings"),
        (["--a", a, "--b", b, c], "one seed, or both several, got 1 and 2"),
        (["--a", a, a, "--b", b, c], r"/a is given twice, and would count as two\. Give it once"),
        ([a, tmp_path / "empty/../a"], "/a is given twice"),
        ([named, named], "/named/papers is given twice"),
    ]
    for arguments, text in wrong:
        with pytest.raises(ValueError, match=text):
            main([*map(str, arguments)])


def test_a_comparison_takes_no_torch():
    script = "import sys; import steer_trl.cli.compare, steer_trl.report; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], env=ENVIRONMENT, check=False).returncode == 0


def test_paired_runs_share_an_initial_model(tmp_path, capsys):
    rng = np.random.default_rng(0)
    begun = [np.clip(SKILL + shift, 0, 1) for shift in (0.0, 0.1, 0.2)]
    a, b = (
        [
            write_evaluation(tmp_path / f"{name}{i}", np.clip(skill + more, 0, 1), int(rng.integers(99)), model=name)
            for i, skill in enumerate(begun)
        ]
        for name, more in (("a", 0), ("b", 0.15))
    )
    found = compared(tmp_path, "--paired", "--a", *a, "--b", *b)["", "a", "avg@4"]
    apart = compared(tmp_path, "--a", *a, "--b", *b)["", "a", "avg@4"]
    assert found["seeds"] == [3, 3] and found["verdict"] == "higher"
    assert found["high"] - found["low"] < apart["high"] - apart["low"]  # the starts differ more than the sides
    assert "pairs of runs" in capsys.readouterr().out


OTHER_LINES = ["{", "[]", '{"batch": 0}', '{"batch": "first", "benchmark": "a"}']


@pytest.mark.parametrize(
    "change",
    [
        *(lambda lines, other=other: [*lines, f"{other}\n"] for other in OTHER_LINES),
        *(lambda lines: lines[:-1], lambda lines: [*lines, lines[0]], lambda lines: []),
    ],
)
def test_lost_and_broken_lines_are_named(tmp_path, change):
    a, b = (write_evaluation(tmp_path / name, SKILL) for name in "ab")
    path = b / "completions.jsonl"
    path.write_text("".join(change(path.read_text().splitlines(keepends=True))))
    with pytest.raises(ValueError, match=r"b/completions.jsonl' does not hold the completions that summary.json"):
        main([str(a), str(b)])


@pytest.mark.parametrize("path", ["a/settings.json", "b/completions.jsonl", "a/new/x.json", "summary.json", "folder"])
def test_only_an_older_comparison_is_overwritten(tmp_path, path):
    sides = [str(write_evaluation(tmp_path / name, SKILL)) for name in "ab"]
    (tmp_path / "folder").mkdir()
    (tmp_path / "summary.json").write_text('{"benchmarks": {}}')
    before = {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()}
    with pytest.raises(ValueError, match=path):
        main([*sides, "--json", str(tmp_path / path)])
    assert before == {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()}
    for side in sides, sides[::-1]:
        main([*side, "--json", str(tmp_path / "new/out.json")])
    assert json.loads((tmp_path / "new/out.json").read_text())["a"] == [sides[1]]
