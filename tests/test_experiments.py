"""The experiments: their pages are what the published files give, and the dial's analysis is what plain loops give."""

import json
import random
import re

import pytest
import yaml
from support import ROOT, dial_recomputed
from support.processes import run as run_process

from experiments.dial import analysis, page, pilots, plan, published
from experiments.lab.published import read_published

SAMPLINGS = {"greedy": 1, "t0.25": 16, "t0.5": 16, "t0.75": 16, "t1": 16}


def record(draw, problems=30, **more):
    """A published file whose counts are `draw(split, sampling)`, a probability for each problem."""
    rng = random.Random(repr(sorted(more.items())))
    evaluations = {}
    for sampling, samples in SAMPLINGS.items():
        benchmarks = {}
        for split in ("validation", "test"):
            correct = [sum(rng.random() < draw(split, sampling) for _ in range(samples)) for _ in range(problems)]
            benchmarks[split] = {"samples": samples, "ids": f"{split}-", "correct": correct}
            if samples > 1:
                benchmarks[split]["distinct"] = [min(count, 3) for count in correct]
        evaluations[sampling] = {"settings": {}, "benchmarks": benchmarks}
    return {"seed": more["start"], "evaluations": evaluations} | more


def write(folder, arm, start, draw=None, whole=None, rollouts=None):
    """Write a published file of an arm and a start, and return its record."""
    made = whole or record(draw, arm=arm, start=start)
    entropy = [1.0, 1.0, 1.0, 1.0, 0.5, 0.7]
    made["rollouts"] = rollouts or {"generated_tokens": [1, 2, 3, 4, 5, 6], "rollout_entropy": entropy}
    path = folder / plan.file_name(arm, start)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(made))
    return made


def test_intervals_and_holm_are_those_of_the_book():
    """By hand: mean 2, standard deviation 1, so half is 4.3027 / sqrt(3); and 3 x .01, 2 x .03, then not smaller."""
    interval = analysis.over_starts([1.0, 2.0, 3.0])
    assert interval.mean == 2 and interval.half == pytest.approx(4.302653 / 3**0.5)
    assert analysis.holm({"a": 0.01, "b": 0.04, "c": 0.03}) == pytest.approx({"a": 0.03, "c": 0.06, "b": 0.06})


def test_the_coefficient_is_interpolated_over_its_logarithm():
    assert pilots.chosen_coefficient({0.01: 0.45, 0.03: 0.6, 0.1: 0.8}) == pytest.approx(0.041)  # a quarter of the way
    assert pilots.chosen_coefficient({0.01: 0.2, 0.03: 0.3, 0.1: 0.4}) == 0.1


@pytest.mark.parametrize(
    "wrong",
    [{"ids": ["0", "1"]}, {"correct": [0, 3, 5]}, {"correct": [0, 0, 4]}, {"correct": [0, 3, "4"]}, {"samples": 4.5}],
)
def test_a_damaged_published_file_is_named(tmp_path, wrong):
    counts = {"samples": 4, "ids": ["0", "1", "2"], "correct": [0, 3, 4], "distinct": [0, 1, 2]} | wrong
    path = tmp_path / "a.json"
    path.write_text(json.dumps({"evaluations": {"t1": {"settings": {}, "benchmarks": {"test": counts}}}}))
    with pytest.raises(ValueError, match=r"a\.json"):
        read_published(path)


def test_the_page_is_what_another_script_finds(tmp_path):
    """Random counts of four starts; the other script shares no line with the analysis."""
    shares = {"start": 0.1, "baseline": 0.3, "dial 0.5": 0.32, "dial 0.65": 0.35, "dial 0.8": 0.28}
    shares |= {"F-GRPO": 0.3, "C2 0.65": 0.33, "placebo 0.65": 0.31}
    for start in (41, 42, 43, 44):
        for arm, share in shares.items():
            write(tmp_path / "long", arm, start, lambda split, sampling, share=share: share * (1 + (sampling == "t1")))
    write(tmp_path / "long", "dial 0.8", 45, lambda split, sampling: 0.9)  # of a start that lacks the other arms
    wrong, equal = dial_recomputed.check(page.page(tmp_path), tmp_path)
    alone, against_others, hands, temperatures = 3 + 2 * 7 + 4 * 7 + 7 * 3 + 7 * 3, 2 * 3 * 7, 2, 9
    assert wrong == [] and equal == alone + against_others + hands + temperatures
    changed = page.page(tmp_path).replace("+", "+1", 40)
    assert dial_recomputed.check(changed, tmp_path)[0]


def test_another_script_reads_every_table_of_arms(tmp_path):
    """Random counts of every arm of the short regime from three starts. One number of each table is changed."""
    held = {"generated_tokens": [1, 2, 3, 4, 9, 10], "rollout_entropy": [1.0, 1.0, 1.0, 1.0, 0.6, 0.7]}
    arms = {job.arm for job in plan.jobs_of(plan.read_plan()) if job.folder == "short-again"}
    for start in (41, 42, 43):
        for arm in {"start", *arms}:
            share = random.Random(arm).uniform(0.1, 0.4)
            write(tmp_path / "short-again", arm, start, lambda split, sampling, share=share: share, rollouts=held)
    text = page.page(tmp_path)
    assert dial_recomputed.check(text, tmp_path)[0] == []
    headings = [
        "How it is held",
        "Difficulty",
        "Ways to hold the entropy and weights by difficulty, against the baseline",
    ]
    for heading in (*headings, "Every method at its authors' constants"):
        before, after = text.split(f"\n## {heading}\n")
        text = f"{before}\n## {heading}\n" + re.sub(r"\| ([+-])(\d)", r"| \g<1>1\2", after, count=1)
    assert len(dial_recomputed.check(text, tmp_path)[0]) == 4


def test_runs_are_packed_and_unpacked_whole(tmp_path):
    made = write(tmp_path / "runs/long", "baseline", 41, lambda split, sampling: 0.5)
    published.pack(tmp_path / "runs", tmp_path / "runs.jsonl.xz")
    (path,) = published.unpack(tmp_path / "again", tmp_path / "runs.jsonl.xz").rglob("*.json")
    assert path.relative_to(tmp_path / "again").parts == ("long", "baseline-start41.json")
    assert json.loads(path.read_text()) == made


@pytest.mark.evidence
@pytest.mark.skipif(not published.FILE.exists(), reason="a source distribution has no published runs")
def test_the_published_page_of_the_dial_is_recomputed(tmp_path):
    folder = published.unpack(tmp_path)
    text = page.PAGE.read_text()
    assert text == page.page(folder)
    assert dial_recomputed.check(text, folder)[0] == []


def test_a_run_of_the_dial_leaves_one_file(tmp_path):
    """A job with checkpoints, and the one that prolongs it."""
    tiny = plan.read_plan()
    tiny["regimes"] = {"long": {"start_steps": 2, "tokens": 5000, "settings": {"learning_rate": 1e-3}}}
    tiny["common"] |= {"save_steps": 4, "dynamic_sampling": "none"}
    for one in tiny["evaluations"].values():
        one |= {"num_problems": 4, "samplings": ["greedy", "t1"], "every": 4000}
    pair = {"regime": "long", "starts": [41], "arms": ["dial 0.65"]}
    tiny["blocks"] = {"pair": pair | {"checkpoints": True}, "longer": pair | {"tokens": 12000}}
    (tmp_path / "plan.yaml").write_text(yaml.safe_dump(tiny, sort_keys=False))
    words = ["-m", "experiments.dial", "--plan", "plan.yaml", "--output_dir", "runs", "--published", "out"]
    run_process(*words, "--workers", 1, folder=tmp_path, PYTHONPATH=str(ROOT))
    files = [tmp_path / f"out/{name}/dial-0.65-start41.json" for name in ("long", "long-6m")]
    first, longer = (json.loads(path.read_text()) for path in files)
    assert first["settings"]["hold_entropy"] == 0.65 and first["seed"] == 41 and first["commits"]
    assert first["checkpoints"][0]["evaluations"]["t1"]["benchmarks"]["test"]["samples"] == 16
    tokens = first["rollouts"]["generated_tokens"]
    assert longer["rollouts"]["generated_tokens"][: len(tokens)] == tokens and longer["resumed"] == 1
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()}
    run_process(*words, "--workers", 1, folder=tmp_path, PYTHONPATH=str(ROOT))
    assert before == {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()}
    start = tmp_path / "out/long/start-start41.json"
    start.write_text(json.dumps(json.loads(start.read_text()) | {"weights": "of another machine"}))
    files[0].unlink()
    failed = run_process(*words, "--workers", 1, folder=tmp_path, PYTHONPATH=str(ROOT), check=False)
    assert failed.returncode and "is of another model than" in failed.stderr and not files[0].exists()
