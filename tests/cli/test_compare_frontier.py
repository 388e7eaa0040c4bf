"""`steer-trl compare --frontier`, on published files, on folders and on what cannot be compared."""

import json
from pathlib import Path

import numpy as np
import pytest
from support import ROOT
from support.evaluations import SETTINGS, write_evaluation

from steer_trl.cli.compare import main
from steer_trl.evaluation.frontier import compare_best
from steer_trl.evaluation.sweeps import read_sides

COUNTDOWN = ROOT / "experiments/results/countdown"
SKILL = np.linspace(0.1, 0.8, 40)


def write_sweep(folder, skill=SKILL, model="m", temperatures=(0.5, 1.0), **named):
    for temperature in temperatures:
        place, sampled = folder / f"t{temperature:g}", skill * (1.2 - 0.4 * temperature)
        write_evaluation(place, sampled, int(10 * temperature), drawn_at(temperature), model=model, **named)
    return folder


def drawn_at(temperature):
    return SETTINGS | {"sampling": {"temperature": temperature, "top_p": 1.0, "seed": 0}}


def test_the_published_files_give_the_table(tmp_path, capsys):
    folders = (COUNTDOWN, COUNTDOWN / "temperatures")
    a, b = (
        [str(file) for folder in folders for file in folder.glob(f"{arm}-start*.json")]
        for arm in ("grpo-dynamic-sampling", "constant-level")
    )
    out, picture = tmp_path / "made/out.json", tmp_path / "out.svg"
    main(["--frontier", "--a", *a, "--b", *b, "--json", str(out), "--picture", str(picture)])
    shown = capsys.readouterr().out
    lines = [line.split() for line in shown.split("\n\n")[0].splitlines()[2:]]
    found = [" ".join(line[3:7] if line[0] != "mean" else line[1:5]) for line in lines]
    differences = ["-1.9 ±1.8", "+1.7 ±1.7", "+6.2 ±1.8", "+9.8 ±1.9", "+13.6 ±2.2", "+5.9 ±1.7"]
    assert [one.split(" ", 2)[2] for one in found] == differences
    assert [line[:3] for line in lines[:5]] == [
        ["1", "0.25", "0.25"], ["2", "0.75", "0.75"], ["4", "1.25", "1.0"], ["8", "1.25", "1.0"], ["16", "1.5", "1.25"]
    ]  # fmt: skip
    assert "7 of 9" in shown and "pairs of runs" in shown
    rows = json.loads(out.read_text())["comparisons"]
    assert {row["table"] for row in rows} == {"best temperature", "equal accuracy"} and len(rows) == 13
    assert rows[5]["k"] == "mean" and rows[5]["verdict"] == "higher" and len(rows[5]["over_starts"]) == 2
    assert "<svg" in picture.read_text()


def test_folders_with_a_fallback_and_pieces_of_a_run(tmp_path, capsys):
    a, b = write_sweep(tmp_path / "a", model="a"), write_sweep(tmp_path / "b", SKILL / 2, model="b")
    more = write_sweep(tmp_path / "more", model="a", temperatures=(1.5,))
    write_evaluation(a / "greedy", SKILL, settings=SETTINGS | {"sampling": {"temperature": 0.0}}, samples=1, model="a")
    other = write_evaluation(tmp_path / "other", SKILL[::-1], settings=drawn_at(1.0), model="start")
    with pytest.raises(ValueError, match=r"same temperatures, 2 or more, got \[0.5, 1.0, 1.5\] and \[0.5, 1.0\]"):
        main(["--frontier", "--a", str(a), str(more), "--b", str(b)])
    write_sweep(b, SKILL / 2, model="b", temperatures=(1.5,))
    main(["--frontier", "--a", str(a), str(more), "--b", str(b), "--fallback", str(other)])
    shown = capsys.readouterr().out
    assert "fallback a" in shown and "0 of 1" in shown and "over the problems that both sides" in shown
    with pytest.raises(ValueError, match=r"are of one run and both at temperature 0.5"):
        main(["--frontier", "--a", str(a), str(write_sweep(tmp_path / "again", model="a")), "--b", str(b)])


def published(folder, name, start, seed, shift, temperatures=(0.5, 1.0), benchmarks=("test",)):
    rng = np.random.default_rng(100 * start + seed)
    path = folder / f"{name}-start{start}-seed{seed}.json"
    found = {}
    for temperature in temperatures:
        found[f"t{temperature:g}"] = {"settings": drawn_at(temperature), "benchmarks": {}}
        for benchmark in benchmarks:
            correct = rng.binomial(4, np.clip(SKILL + shift - 0.1 * temperature, 0, 1)).tolist()
            counts = {"samples": 4, "ids": [str(i) for i in range(40)], "correct": correct, "distinct": correct}
            found[f"t{temperature:g}"]["benchmarks"][benchmark] = counts
    path.write_text(json.dumps({"start": start, "seed": seed, "evaluations": found}))
    return str(path)


def test_runs_of_the_same_starts_and_seeds_are_pairs_in_any_order(tmp_path):
    runs = [(start, seed) for start in (1, 2) for seed in (0, 1)]
    a, b = ([published(tmp_path, name, *run, shift) for run in runs] for name, shift in (("a", 0), ("b", 0.1)))
    here, there = (read_sides(a, b_)["test"] for b_ in (b, b[::-1]))
    assert here.paired and here.starts == [1, 1, 2, 2] and np.array_equal(here.b.correct, there.b.correct)
    assert not read_sides(a, b[:3])["test"].paired
    with pytest.raises(ValueError, match="paired runs must be of the same starts and seeds"):
        read_sides(a, b[:3], paired=True)
    starts = [published(tmp_path, "start", start, 0, 0.2 * start, temperatures=(1.0,)) for start in (2, 1)]
    sides = read_sides(a, b, fallback=starts)["test"]
    means = sides.fallback_a.correct[0].mean(1)
    assert means[0] == means[1] < means[2] == means[3]
    assert np.array_equal(sides.fallback_a.correct, sides.fallback_b.correct)
    with pytest.raises(ValueError, match="one model, or one of each start, got 0 of 2 for"):
        read_sides(a, b, fallback=[starts[0], published(tmp_path, "start", 3, 0, 0, (1.0,))])


def test_a_benchmark_chooses_the_temperatures_of_the_others(tmp_path, capsys):
    both = ("test", "val")
    a, b = (published(tmp_path, name, 1, 0, shift, benchmarks=both) for name, shift in (("a", 0), ("b", 0.1)))
    main(["--frontier", "--validation", "val", a, b, "--json", str(tmp_path / "out.json")])
    rows = json.loads((tmp_path / "out.json").read_text())["comparisons"]
    sides = read_sides([a], [b])
    expected = compare_best(sides["test"], sides["val"])
    assert {row["benchmark"] for row in rows} == {"test"} and "chosen on val" in capsys.readouterr().out
    assert [row["difference"] for row in rows[:4]] == [row.difference.difference for row in expected]


WRONG = [
    (["--validation", "val"], "validation needs --frontier"),
    (["--fallback", "x"], "fallback needs --frontier"),
    (["--frontier", "--picture", "a.txt"], r"picture must end in .png, .svg or .pdf, got 'a.txt'"),
    (["--frontier", "--validation", "tset"], "must be one of several benchmarks, got 'tset'. Did you mean 'test'"),
]


@pytest.mark.parametrize(("words", "text"), WRONG)
def test_what_does_not_go_together_is_refused(tmp_path, words, text):
    sides = [published(tmp_path, name, 1, 0, 0, benchmarks=("test", "val")) for name in "ab"]
    with pytest.raises(ValueError, match=text):
        main([*sides, *words])


@pytest.mark.parametrize(
    ("flag", "place", "text"),
    [
        ("--json", "start.json", "json='.*' must not be written onto or into '.*start.json'"),
        ("--picture", "folder/x.png", "picture='.*' must not be written onto or into '.*folder'"),
        ("--picture", "a.svg", "picture='.*' must not be written onto or into '.*a.svg'"),
        ("--picture", "other.png", "picture='.*other.png' is a folder"),
    ],
)
def test_nothing_is_written_over_an_input(tmp_path, flag, place, text):
    a, b, start = (published(tmp_path, name, 1, 0, 0) for name in ("a", "b", "start"))
    a, start = (Path(old).rename(tmp_path / new) for old, new in ((a, "a.svg"), (start, "start.json")))
    (tmp_path / "other.png").mkdir()
    write_sweep(tmp_path / "folder", model="start")
    before = {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()}
    with pytest.raises(ValueError, match=text):
        fallback = [str(start), str(tmp_path / "folder")]
        main(["--frontier", str(a), b, "--fallback", *fallback, flag, str(tmp_path / place)])
    assert before == {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()}


def test_other_problems_and_other_settings_are_refused(tmp_path):
    a, fewer = write_sweep(tmp_path / "a", model="a"), write_sweep(tmp_path / "b", SKILL[:30], model="b")
    with pytest.raises(ValueError, match="must have answered the same problems of 'a'"):
        main(["--frontier", str(a), str(fewer)])
    with pytest.raises(ValueError, match=r"a/t0.5 is on both sides\. Give two models"):
        main(["--frontier", str(a), str(a)])
    single = write_evaluation(tmp_path / "c", SKILL, model="c")
    with pytest.raises(ValueError, match=r"steer-trl eval --temperatures .25 .5 .75 1 1.25 draws them"):
        main(["--frontier", str(a), str(single)])
    cut = write_sweep(tmp_path / "d", model="d")
    for file in cut.glob("*/settings.json"):
        file.write_text(json.dumps(json.loads(file.read_text()) | {"judge": "another"}))
    with pytest.raises(ValueError, match="evaluated in other ways"):
        main(["--frontier", str(a), str(cut)])
    (cut / "t1/settings.json").write_text('{"sampling": "t1"}')
    with pytest.raises(ValueError, match=r"at the same temperatures, 2 or more, got \[0.5, 1.0\] and \[0.5\]"):
        main(["--frontier", str(a), str(cut)])
