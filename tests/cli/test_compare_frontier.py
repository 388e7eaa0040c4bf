"""`steer-trl compare --frontier`, on folders and on what cannot be compared."""

import json

import numpy as np
import pytest
from support.evaluations import SETTINGS, write_evaluation

from steer_trl.cli.compare import main
from steer_trl.evaluation.frontier import compare_best
from steer_trl.evaluation.records import SampleRecord
from steer_trl.evaluation.summary import summarize
from steer_trl.evaluation.sweeps import read_sides

SKILL = np.linspace(0.1, 0.8, 40)


def write_sweep(folder, skill=SKILL, model="m", temperatures=(0.5, 1.0), **named):
    for temperature in temperatures:
        place, sampled = folder / f"t{temperature:g}", skill * (1.2 - 0.4 * temperature)
        write_evaluation(place, sampled, int(10 * temperature), drawn_at(temperature), model=model, **named)
    return folder


def add_benchmark(folder, name):
    """Add a second benchmark to an evaluation, with every other verdict of the first turned round."""
    entries = [json.loads(line) for line in (folder / "completions.jsonl").read_text().splitlines()]
    entries.sort(key=lambda entry: (entry["batch"], entry["sample"]))
    count = 1 + entries[-1]["batch"]
    others = [
        entry | {"benchmark": name, "batch": entry["batch"] + count, "correct": entry["correct"] ^ (i % 2 == 0)}
        for i, entry in enumerate(entries)
    ]
    both = [*entries, *others]
    (folder / "completions.jsonl").write_text("".join(json.dumps(entry) + "\n" for entry in both))
    (folder / "summary.json").write_text(json.dumps(summarize([SampleRecord(**entry) for entry in both])))


def drawn_at(temperature):
    return SETTINGS | {"sampling": {"temperature": temperature, "top_p": 1.0, "seed": 0}}


def test_a_run_may_lie_in_several_folders(tmp_path, capsys):
    a, b = write_sweep(tmp_path / "a", model="a"), write_sweep(tmp_path / "b", SKILL / 2, model="b")
    more = write_sweep(tmp_path / "more", model="a", temperatures=(1.5,))
    write_evaluation(a / "greedy", SKILL, settings=SETTINGS | {"sampling": {"temperature": 0.0}}, samples=1, model="a")
    with pytest.raises(ValueError, match=r"same temperatures, 2 or more, got \[0.5, 1.0, 1.5\] and \[0.5, 1.0\]"):
        main(["--frontier", "--a", str(a), str(more), "--b", str(b)])
    write_sweep(b, SKILL / 2, model="b", temperatures=(1.5,))
    out = tmp_path / "made/out.json"
    words = ["--a", str(a), str(more), "--b", str(b), "--json", str(out)]
    main(["--frontier", *words])
    assert "over the problems that both sides" in capsys.readouterr().out
    rows = json.loads(out.read_text())["comparisons"]
    assert [row["k"] for row in rows] == [1, 2, 4, "mean"] and rows[-1]["verdict"] == "lower"
    with pytest.raises(ValueError, match=r"are of one run and both at temperature 0.5"):
        main(["--frontier", "--a", str(a), str(write_sweep(tmp_path / "again", model="a")), "--b", str(b)])


def test_a_benchmark_chooses_the_temperatures_of_the_others(tmp_path, capsys):
    a, b = (write_sweep(tmp_path / name, SKILL - shift, model=name) for name, shift in (("a", 0), ("b", 0.1)))
    for folder in (a, b):
        for one in folder.iterdir():
            add_benchmark(one, "val")
    main(["--frontier", "--validation", "val", str(a), str(b), "--json", str(tmp_path / "out.json")])
    rows = json.loads((tmp_path / "out.json").read_text())["comparisons"]
    sides = read_sides([str(a)], [str(b)])
    expected = compare_best(sides["a"], sides["val"])
    assert {row["benchmark"] for row in rows} == {"a"} and "chosen on val" in capsys.readouterr().out
    assert [row["difference"] for row in rows] == [row.difference.difference for row in expected]


WRONG = [
    (["--validation", "val"], "validation needs --frontier"),
    (["--frontier", "--validation", "tset"], "must be one of several benchmarks, got 'tset'"),
]


@pytest.mark.parametrize(("words", "text"), WRONG)
def test_contradictory_arguments_are_refused(tmp_path, words, text):
    sides = [str(write_sweep(tmp_path / name, model=name)) for name in "ab"]
    with pytest.raises(ValueError, match=text):
        main([*sides, *words])


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
    cold = json.loads((cut / "t1/settings.json").read_text()) | {"sampling": {}}
    (cut / "t1/settings.json").write_text(json.dumps(cold))
    with pytest.raises(ValueError, match=r"at the same temperatures, 2 or more, got \[0.5, 1.0\] and \[0.5\]"):
        main(["--frontier", str(a), str(cut)])
