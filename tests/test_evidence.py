"""The evidence's command on a run of seconds, and its tables on numbers made up."""

import json
import math
import sys

import pytest
from support import ROOT
from support.processes import run

EVIDENCE = ROOT / "examples/evidence"


@pytest.fixture
def tables(monkeypatch):
    monkeypatch.syspath_prepend(str(EVIDENCE))
    yield __import__("tables")
    sys.modules.pop("tables")


def made_up(arm, seed, accuracy, entropies, target=None):
    held = {} if target is None else {"hold_entropy/target": target}
    log = [{"step": i, "entropy": h, "rollout_entropy": h} | held for i, h in enumerate(entropies)]
    point = {"T=1": {key: [accuracy, 0.1] for key in ("accuracy", "pass@16", "distinct")}}
    point |= {"top-p 0.7": {"accuracy": [accuracy, 0.1]}, "greedy": {"accuracy": [accuracy, 0.1]}, "step": 9}
    return {"arm": arm, "seed": seed, "log": log, "held_out": [point]}


def test_the_error_counts_after_settling(tables):
    path = [1.0] * tables.SETTLED + [0.4, 0.6, 0.5, 0.52]
    error, share = tables.held_error(made_up("x", 0, 0.5, path, target=0.5))
    assert (error, share) == (pytest.approx((0.2 + 0.2 + 0 + 0.04) / 4), 0.5)
    assert tables.held_error(made_up("GRPO", 0, 0.5, path)) is None


def test_differences_are_paired_by_seed(tables, tmp_path):
    for seed, (base, other) in enumerate([(0.3, 0.4), (0.4, 0.5), (0.5, 0.6)]):
        for arm, accuracy in (("GRPO", base), ("held", other)):
            (tmp_path / f"{arm}{seed}.json").write_text(json.dumps(made_up(arm, seed, accuracy, [0.5] * 90, 0.5)))
    page = tables.page(tmp_path)
    assert "0.500 (+0.100 ±0.000)" in page and "0.0%, 0.0%, 0.0%" in page
    assert tables.interval([1.0, 2.0, 3.0]) == (2.0, pytest.approx(4.303 / math.sqrt(3)))


def test_the_command_runs_what_is_missing_and_nothing_twice(tmp_path):
    arms = ["--arms", "GRPO", "REPO-R held at 0.8", "--seeds", "0", "--steps", "4", "--eval_every", "2"]
    sizes = ["--supervised_steps", "2", "--held_out", "4", "--output_dir", "runs", "--published", "published"]
    run(EVIDENCE, *arms, *sizes, folder=tmp_path)
    published = sorted((tmp_path / "published").glob("*.json"))
    assert [path.name for path in published] == ["grpo-seed0.json", "repo-r-held-at-0.8-seed0.json"]
    record = json.loads(published[1].read_text())
    assert [point["step"] for point in record["held_out"]] == [2, 4]
    assert record["settings"]["hold_entropy"] == 0.8 and len(record["log"]) == 2
    before = {path: path.stat().st_mtime_ns for path in (*published, *tmp_path.glob("runs/*/measured.json"))}
    run(EVIDENCE, *arms, *sizes, folder=tmp_path)
    assert all(path.stat().st_mtime_ns == at for path, at in before.items())
    assert "REPO-R held at 0.8" in (tmp_path / "published/index.md").read_text()
