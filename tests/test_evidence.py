"""The evidence's command on a run of seconds; the tables of its page."""

import json
import sys
from types import SimpleNamespace

import pytest
import yaml
from support import ROOT
from support.processes import run

from steer_trl.evaluation.folders import compare_evaluations, differing_settings, read_evaluations

EVIDENCE = ROOT / "experiments/evidence"
HELD = "REPO-R held at 0.8"


@pytest.fixture
def protocol(monkeypatch):
    """The modules of its page."""
    names = ("records", "courses", "picture", "frontier", "pairs", "controls", "page", "confirm")
    monkeypatch.syspath_prepend(str(EVIDENCE))
    yield SimpleNamespace(**{name: __import__(name) for name in names})
    for name in names:
        sys.modules.pop(name)


def test_the_command_runs_what_is_missing_publishes_it_and_runs_nothing_twice(tmp_path):
    """Two arms, of which the published files give the same comparison as the folders of their evaluations."""
    arms = {"GRPO": {"advantage_shaping": "none"}, HELD: {"advantage_shaping": "repo_r", "hold_entropy": 0.8}}
    (tmp_path / "arms.yaml").write_text(yaml.safe_dump(arms))
    words = ["--arms_file", "arms.yaml", "--starts", 3, "--seeds", 1, "--tokens", 5000, "--eval_steps", 2]
    words += ["--start_steps", 2, "--num_problems", 4, "--output_dir", "runs", "--published", "published"]
    run(EVIDENCE, *words, folder=tmp_path)
    published = {path.name: path for path in (tmp_path / "published/countdown20").glob("*.json")}
    ours = ["grpo-start3-seed1.json", "repo-r-held-at-0.8-start3-seed1.json"]
    assert sorted(published) == [*ours, "start-start3.json"]
    record = json.loads(published[ours[1]].read_text())
    assert (record["arm"], record["start"], record["seed"]) == (HELD, 3, 1)
    assert record["settings"]["hold_entropy"] == 0.8 and record["generated_tokens"] >= 5000
    assert record["commits"] and record["started"].startswith("20") and record["device"].startswith("cpu")
    assert (record["resumed"], record["steps"]) == (0, 4)
    assert record["rollouts"]["step"] == [4] and record["rollouts"]["generated_tokens"] == [record["generated_tokens"]]
    assert [step for step, *_ in record["validation"]["accuracy greedy"]] == [0, 2, 4]
    start = tmp_path / "runs/countdown20/start-3"
    folders = [start / name / "_test" for name in ("grpo_seed_1", "repo_r_held_at_0.8_seed_1")]
    for sampling, samples in {"t1": 16, "greedy": 1}.items():
        sides = [read_evaluations(folder)[sampling] for folder in folders]
        small = [read_evaluations(published[name])[sampling] for name in ours]
        whole, counted = (compare_evaluations(*([one] for one in pair))["test"] for pair in (sides, small))
        assert len(counted) == {16: 9, 1: 1}[samples]
        assert counted == {metric: whole[metric] for metric in counted}
        assert compare_evaluations(sides[:1], small[1:])["test"] == counted
        assert not differing_settings(sides, small)
    run(EVIDENCE / "temperatures.py", "--arms", "GRPO", "--starts", 3, "--seeds", 1, *words[-4:], folder=tmp_path)
    hotter = read_evaluations(tmp_path / "published/countdown20/temperatures" / ours[0])
    drawn = {name: one.settings["sampling"]["temperature"] for name, one in hotter.items()}
    assert drawn == {f"t{temperature:g}": temperature for temperature in (0.25, 0.5, 0.75, 1.25, 1.5, 2.0)}
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()}
    run(EVIDENCE, *words, folder=tmp_path)
    assert before == {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()}


def test_a_sweep_asks_both_splits_at_every_temperature_and_its_file_is_small(tmp_path):
    (tmp_path / "arms.yaml").write_text(yaml.safe_dump({"GRPO": {"advantage_shaping": "none"}}))
    words = ["--arms_file", "arms.yaml", "--part", "sweep", "--starts", 3, "--seeds", 1, "--tokens", 5000]
    words += ["--start_steps", 2, "--num_problems", 12, "--output_dir", "runs", "--published", "published"]
    words += ["--temperatures", 0.5, 1, "--splits", "validation", "test", "--learning_rates", 1e-3]
    run(EVIDENCE, *words, folder=tmp_path)
    path = tmp_path / "published/countdown20/sweep/grpo-rate-0.001-start3-seed1.json"
    record = json.loads(path.read_text())
    assert record["settings"]["learning_rate"] == 1e-3 and record["evaluations"].keys() == {"t0.5", "t1"}
    assert set(record["validation"]) == {"accuracy T=1, of 4", "pass@4 T=1"}
    (folder,) = tmp_path.glob("runs/countdown20/sweep/start-3/grpo*/_test")
    whole, small = read_evaluations(folder), read_evaluations(path)
    for name, one in record["evaluations"].items():
        ids = {split: counts["ids"] for split, counts in one["benchmarks"].items()}
        assert ids == {"validation": "validation-", "test": "test-"}
        assert one["majority"]["test"].keys() == {"maj@16"}
        for split, metrics in small[name].values.items():
            assert metrics == {metric: whole[name].values[split][metric] for metric in metrics}


def publish(folder, arm, name, shift):
    """Two starts and two seeds of an arm, whose counts are those of a real run, dealt to other problems."""
    record = json.loads((ROOT / f"docs/evidence/countdown/choosing/one-million/{name}-start20-seed0.json").read_text())
    for start, seed in ((1, 0), (1, 1), (2, 0), (2, 1)):
        for one in record["evaluations"].values():
            counts = one["benchmarks"]["test"]
            for key in {"correct", "distinct"} & counts.keys():
                counts[key] = counts[key][1 + shift :] + counts[key][: 1 + shift]
        path = folder / f"{name}-start{start}-seed{seed}.json"
        path.write_text(json.dumps(record | {"arm": arm, "start": start, "seed": seed}))


def test_the_page_of_the_protocol_has_the_differences_of_the_command(protocol, tmp_path):
    page = protocol.page
    arms = {page.BASELINE: "grpo-dynamic-sampling", "constant level": "stare-c2-held-at-0.35"}
    for shift, (arm, name) in enumerate(arms.items()):
        publish(tmp_path, arm, name, shift)
    loaded = page.load(tmp_path)
    assert [(arm, len(runs)) for arm, runs in loaded.items()] == [(arm, 4) for arm in arms]
    sides = [sorted(tmp_path.glob(f"{name}-*.json")) for name in arms.values()]
    words = ["compare", "--paired", "--json", "c.json", "--a", *sides[0], "--b", *sides[1]]
    run("-m", "steer_trl.cli", *words, folder=tmp_path)
    compared = json.loads((tmp_path / "c.json").read_text())["comparisons"]
    (one,) = (one for one in compared if (one["sampling"], one["metric"]) == ("t1", "pass@16"))
    table = page.differences(loaded)
    (row,) = (line for line in table.splitlines() if "| pass@16, temperature 1 |" in line)
    assert f"| {one['difference']:+.3f} | {one['low']:+.3f} to {one['high']:+.3f} |" in row
    assert f"{one['over_starts'][0]:+.3f} to {one['over_starts'][1]:+.3f}" in row
    assert "| a task | constant level |" in page.held({"a task": loaded})


def test_holms_correction_is_that_of_the_book(protocol):
    """By hand: 3 x .01; 2 x .03; and .04, which cannot be smaller than the one before."""
    assert protocol.page.holm({"a": 0.01, "b": 0.04, "c": 0.03}) == pytest.approx({"a": 0.03, "c": 0.06, "b": 0.06})


@pytest.mark.parametrize("name", ["page", "confirm"])
def test_the_page_is_what_the_published_runs_give(protocol, monkeypatch, tmp_path, name):
    page = getattr(protocol, name)
    written, drawn, before = tmp_path / "page.md", tmp_path / "drawn.png", page.PAGE.read_text()
    monkeypatch.setattr(page, "PAGE", written)
    monkeypatch.setattr(page, "PICTURE", drawn)
    page.main()
    assert written.read_text() == before and "{" not in before and drawn.exists()


def test_what_the_courses_show(protocol, tmp_path):
    """By hand: three quarters of the tokens are at step 6, between two evaluations. The baseline is as accurate as the
    other's 0.3 halfway to its second evaluation, where it solves 0.25."""
    rollouts = {"step": [2, 4, 6, 8], "generated_tokens": [10, 20, 30, 40], "entropy": [0.4, None, 0.2, 0.1]}
    baseline = {"a": [[0, 0.1, 0], [4, 0.5, 0], [8, 0.3, 0]], "b": [[0, 0.2, 0], [4, 0.3, 0], [8, 0.4, 0]]}
    records = [
        {"validation": courses, "rollouts": rollouts, "generated_tokens": 40}
        for courses in (baseline, {"a": [[0, 0.1, 0], [8, 0.3, 0]], "b": [[0, 0.2, 0], [8, 0.75, 0]]})
    ]
    arms = {
        arm: {(1, seed): protocol.pairs.Run(record, {}) for seed in (0, 1)}
        for arm, record in zip((protocol.pairs.BASELINE, "arm"), records, strict=True)
    }
    table = protocol.courses.last_quarter(arms, {"A": "a", "B": "b"})
    assert "| 2 | -0.100 | +0.050 |" in table and "| arm | 2 | +0.050 (+0.150 ±0.000) |" in table
    assert protocol.courses.stopped_as_accurate(arms, "arm", "a", "b") == "50.0 ±0.0"
    protocol.picture.picture({"arm": records[:1] * 2}, {"A": "a", "B": "b"}, tmp_path / "drawn.png")
    assert (tmp_path / "drawn.png").read_bytes().startswith(b"\x89PNG")
