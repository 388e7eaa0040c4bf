"""`make gpu` in small: its plan, its one file, its table, and a run that is killed and goes on."""

import getpass
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from statistics import fmean

import pytest
import yaml
from support import ENVIRONMENT, ROOT

from experiments.gpu import plan, results
from steer_trl import SteerGRPOConfig
from steer_trl.cli.recipe_files import load_recipe
from steer_trl.cli.train import parse
from steer_trl.monitoring import run_files

SECRET = {"HF_TOKEN": "hf_notforothers", "USER": "someoneshere", "LOGNAME": "someoneshere"}
LIMIT = 900


def test_the_plan_is_valid_and_arms_differ_in_the_setting_alone(tmp_path):
    experiment = plan.make_experiment(tmp_path, is_tiny=False)
    assert experiment.task.start == load_recipe(plan.FOLDER / "recipe.yaml")["model_name_or_path"]
    found = {}
    for run in plan.runs_of(list(plan.ARMS), list(plan.SEEDS)):
        recipe = experiment.recipe(run.name, plan.settings_of(run, is_tiny=False))
        path = tmp_path / "recipe.yaml"
        path.write_text(yaml.safe_dump(recipe | {"use_cpu": True, "bf16": False}))
        problems, args, model = (vars(part) for part in parse(["--config", str(path)]))
        found[run] = {name: value for name, value in (problems | args | model).items() if name != "output_dir"}
        assert problems["reward_funcs"] == ["math"] and args["dynamic_sampling"] == "resample"
    for run, fields in found.items():
        first = found[plan.Run(plan.BASELINE, run.seed)]
        differing = {name for name, value in fields.items() if repr(value) != repr(first[name])}
        filled = {"shaping_options"} | {name for name in fields if name.startswith(("hold_entropy", "stare_"))}
        assert differing - filled <= {"advantage_shaping", "hold_entropy"}
    advised = {"hold_entropy": 0.65, "advantage_shaping": "f_grpo", "dynamic_sampling": "resample"}
    held = SteerGRPOConfig("out", use_cpu=True, bf16=False, **advised)
    ours = found[plan.Run("held", 1)]
    assert ours["hold_entropy"] == held.hold_entropy and ours["advantage_shaping"] == held.advantage_shaping


def start(folder, *words):
    """Start the experiment in a process group of its own, as somebody with a token."""
    environment = ENVIRONMENT | SECRET | {"PYTHONPATH": f"{ROOT}:{ENVIRONMENT['PYTHONPATH']}"}
    words = [sys.executable, "-m", "experiments.gpu", "--tiny", "--output_dir", str(folder), *words]
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    return subprocess.Popen(words, env=environment, cwd=ROOT, start_new_session=True, **streams)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A run that was killed after its first checkpoint and continued: its folder, and what was printed."""
    folder = tmp_path_factory.mktemp("someplace") / "gpu"
    words = ("--arms", "held", "--seeds", "1")
    process = start(folder, *words)
    run, until = folder / "held_seed_1", time.monotonic() + LIMIT
    while not list(run.glob("checkpoint-*/trainer_state.json")):
        assert process.poll() is None and time.monotonic() < until, process.communicate()[0][-5000:]
        time.sleep(0.1)
    # Its children end with it.
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    assert not (folder / results.RECORDS / "held-start0-seed1.json").exists()
    again = start(folder, *words)
    output, _ = again.communicate(timeout=LIMIT)
    assert again.returncode == 0, output[-5000:]
    return folder, output


@pytest.mark.evidence
def test_a_killed_run_goes_on(made):
    folder, _ = made
    (record,) = [run for run in json.loads((folder / results.FILE).read_text())["runs"] if run["arm"] == "held"]
    assert record["resumed"] == 1
    totals = record["rollouts"]["generated_tokens"]
    assert totals == sorted(totals) and totals[-1] >= load_recipe(plan.FOLDER / "tiny.yaml")["max_generated_tokens"]
    log = list(run_files.lines(folder / "held_seed_1" / run_files.LOGS / run_files.METRICS))
    steps = [entry["step"] for entry in log if "step_time" in entry]
    assert steps == list(range(1, len(steps) + 1))


@pytest.mark.evidence
def test_the_file_has_nothing_private(made):
    folder, _ = made
    text = (folder / results.FILE).read_text()
    private = [str(folder), str(ROOT), os.path.expanduser("~"), socket.gethostname(), "someplace", *SECRET.values()]
    # In a container the user is often called root, a word that may stand anywhere.
    private += [getpass.getuser()] if getpass.getuser() != "root" else []
    assert [word for word in private if word in text] == []
    strings = re.findall(r'"([^"]*)"', text)
    assert [one for one in strings if one.startswith(("/", "~", "\\\\")) or re.match(r"[A-Za-z]:\\", one)] == []
    problems = (folder / "problems/train.jsonl").read_text().splitlines()
    assert not any(json.loads(row)["problem"] in text for row in problems)


def by_hand(run):
    """One try, 16 tries, and generated per trained token, in loops over the counts and the rollouts."""
    counts = run["evaluations"]["t1"]["benchmarks"]["test"]["correct"]
    correct = [int(digit, 36) for digit in counts] if isinstance(counts, str) else counts
    cells = [100 * fmean(count / 16 for count in correct), 100 * fmean(count > 0 for count in correct)]
    if "rollouts" not in run:
        return cells
    before, trained = 0, 0.0
    course = run["rollouts"]
    for total, ratio in zip(
        course["generated_tokens"], course["dynamic_sampling/tokens_per_trained_token"], strict=True
    ):
        trained += (total - before) / ratio if ratio else 0.0
        before = total
    return [
        *cells,
        course["entropy"][0],
        fmean(course["entropy"][-3:]),
        before / trained,
        before / run["step_seconds"],
    ]


@pytest.mark.evidence
def test_the_table_is_that_of_the_file(made):
    folder, output = made
    file = json.loads((folder / results.FILE).read_text())
    text = results.table(file)
    assert text in output
    rows = {cells[1].strip(): cells[2:] for line in text.splitlines() if len(cells := line.split("|")) > 3}
    for run in file["runs"]:
        name = run["arm"] if run["seed"] is None else f"{run['arm']}, seed {run['seed']}"
        found = [
            float(number) for cell in rows[name] for number in re.findall(r"\d[\d,]*\.?\d*", cell.replace(",", ""))
        ]
        expected = by_hand(run)
        assert found[: len(expected)] == pytest.approx(expected, abs=0.51, rel=5e-3)


def record(arm, seed, counts):
    evaluation = {
        "settings": {},
        "benchmarks": {"test": {"samples": 16, "ids": "test-", "correct": counts, "distinct": counts}},
    }
    return {
        "arm": arm,
        "start": 0,
        "seed": seed,
        "device": "A card",
        "versions": {"trl": "1"},
        "evaluations": {"t1": evaluation},
    }


def test_arms_are_compared_with_the_baseline_of_the_same_seeds():
    counts = {("GRPO", 1): [0, 8, 16], ("GRPO", 2): [0, 0, 16], ("held", 1): [4, 8, 16], ("held", 2): [4, 4, 16]}
    runs = [record("start", None, [1, 1, 1]), *(record(*run, each) for run, each in counts.items())]
    runs.append(record("F-GRPO", 3, [0, 0, 0]))
    lines = [line for line in results.table({"runs": runs}).splitlines() if "against" in line]
    assert len(lines) == 1 and lines[0].startswith("held against GRPO")
    one, several = (float(found) for found in re.findall(r"([+-][\d.]+) points", lines[0]))
    one_try = [100 * fmean(x / 16 for x in counts[key]) for key in counts]
    assert one == pytest.approx(fmean(one_try[2:]) - fmean(one_try[:2]), abs=0.05)
    tries = [100 * fmean(x > 0 for x in counts[key]) for key in counts]
    assert several == pytest.approx(fmean(tries[2:]) - fmean(tries[:2]), abs=0.05)
