"""Two trackers at once, each real and without a network: they get every step, and the alarms if they take any."""

import json
import sqlite3
from contextlib import closing

import pytest
from support import ENVIRONMENT, SMOKE
from support.processes import run
from support.runs import save_tiny_model

from steer_trl.monitoring import run_files

for package in ("trackio", "wandb"):
    pytest.importorskip(package, reason=f"{package} is not here: pip install 'steer_trl[trackers]'")

STEPS = 30  # a model that gets nothing right has raised an alarm by then


def test_every_tracker_gets_every_step(tmp_path, monkeypatch):
    for name, value in {"WANDB_MODE": "offline", "TRACKIO_DIR": str(tmp_path / "trackio")}.items():
        monkeypatch.setitem(ENVIRONMENT, name, value)
    (tmp_path / "sums.jsonl").write_text(
        "".join(json.dumps({"problem": f"{i}+1=", "answer": "5"}) + "\n" for i in range(8))
    )
    names = ["--run_name", "both", "--project", "sums", "--output_dir", "out", "--dataset_name", "sums.jsonl"]
    trackers = ["--report_to", "trackio", "wandb"]
    recipe = ["--config", SMOKE, "--model_name_or_path", save_tiny_model(tmp_path / "tiny")]
    sizes = ["--max_steps", STEPS, "--save_strategy", "no"]
    run("-m", "steer_trl.cli", "train", *recipe, *names, *trackers, *sizes, folder=tmp_path, launched=True)
    log = list(run_files.lines(tmp_path / "out/_logs/metrics.jsonl"))
    entropies = [entry["rollout_entropy"] for entry in log if "rollout_entropy" in entry]
    assert len(entropies) == STEPS

    with closing(sqlite3.connect(tmp_path / "trackio/sums.db")) as database:
        entries = [json.loads(metrics) for (metrics,) in database.execute("select metrics from metrics order by id")]
        alerts = [title for (title,) in database.execute("select title from alerts")]
    assert [entry["train/rollout_entropy"] for entry in entries if "train/rollout_entropy" in entry] == entropies
    alarms = [alarm["title"] for alarm in run_files.lines(tmp_path / "out/_logs/alarms.jsonl")]
    assert alarms and sorted(alerts) == sorted(alarms)

    (binary,) = tmp_path.glob("wandb/offline-run-*/run-*.wandb")  # W&B has no reader of it but its own server
    content = binary.read_bytes()
    assert content.count(b"train/rollout_entropy") >= STEPS and alarms[0].encode() in content
