"""`steer-trl demo`: what it leaves and prints at toy size, and the start that is in the package."""

import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from filelock import FileLock, Timeout
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file
from support.processes import run

from steer_trl.cli.recipe_files import load_recipe
from steer_trl.curves import series
from steer_trl.demo import runs
from steer_trl.demo.puzzle import problems
from steer_trl.demo.result import CAUTION, OF_LOGS, QUESTIONS, LateMeans, Result, cells
from steer_trl.demo.runs import SHIPPED, Demo
from steer_trl.evaluation.comparison import Difference, compare_values
from steer_trl.monitoring import key_names, run_files
from steer_trl.support.exceptions import CannotContinueError

SMALL = ("--tokens", "60000", "--problems", "8")
# Of the shipped weights, which are those of `experiments/starts/73.safetensors` in half precision.
OF_START = "fab4f7fe54011922414060104177222397c49667f48d342bbc918da621416508"


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo")
    done = run("-m", "steer_trl.cli", "demo", "--output_dir", "out", *SMALL, folder=folder)
    return folder, done


def test_both_runs_start_and_spend_alike(demo):
    logs = Result(demo[0] / "out").logs
    totals = {name: [value for _, value in series(log, "generated_tokens")] for name, log in logs.items()}
    assert totals.keys() == {"grpo", "held"}
    assert all(total[-1] >= 60000 > max(total[:-1], default=0) for total in totals.values())
    assert series(logs["grpo"], "entropy")[0] == series(logs["held"], "entropy")[0]


def test_the_printed_numbers_are_those_of_the_files(demo):
    folder, done = demo
    result = Result(folder / "out")
    for part in (result.table(), CAUTION, result.sentence(), result.answers()):
        assert part in done.stdout
    assert json.loads((folder / "out/result.json").read_text()).keys() == {"seed", *OF_LOGS, *QUESTIONS}
    assert (folder / "out/demo.png").read_bytes().startswith(b"\x89PNG")
    commands = [line.split("    ")[0].split() for line in done.stdout.splitlines() if line.startswith("  steer-trl")]
    assert [command[1] for command in commands] == ["report", "compare", "recipes"]
    for command in commands[1:]:
        run("-m", "steer_trl.cli", *command[1:], folder=folder)


def test_the_answers_of_a_problem_are_sixteen_each(demo):
    lines = Result(demo[0] / "out").answers().splitlines()[2:]
    counts = [[int(half.split(" x ")[0]) for half in (line[:36], line[36:]) if " x " in half] for line in lines]
    assert sum(map(sum, counts)) == 32


def test_the_start_is_tested_on_the_same_problems(demo):
    lines = (demo[0] / "out/start/_test/t1/completions.jsonl").read_text().splitlines()
    assert len({json.loads(line)["id"] for line in lines}) == 8


def test_the_same_command_again_trains_nothing(demo):
    folder, done = demo
    logs = [folder / f"out/{name}/_logs/metrics.jsonl" for name in ("grpo", "held")]
    before = [log.stat().st_mtime_ns for log in logs]
    again = run("-m", "steer_trl.cli", "demo", "--output_dir", "out", *SMALL, folder=folder)
    assert [log.stat().st_mtime_ns for log in logs] == before
    assert again.stdout == done.stdout


def test_a_second_demonstration_in_a_folder_is_refused(tmp_path):
    with FileLock(tmp_path / "demo.lock"), pytest.raises(CannotContinueError, match="another demonstration"):
        Demo().run(tmp_path)


PARENT = """
import signal, sys
from pathlib import Path
from steer_trl.demo.runs import PYTHON, start

# Tests that are started with nohup would ignore it.
signal.signal(signal.SIGHUP, signal.SIG_DFL)
process = start(Path(sys.argv[1]), "grpo", [[*PYTHON, "at_work"]])
print(process.pid, flush=True)
process.wait()
"""
AT_WORK = "import time; print('at work', flush=True); time.sleep(3600)"


@pytest.mark.parametrize(
    ("number", "is_of_child"),
    [(signal.SIGTERM, False), (signal.SIGHUP, False), (signal.SIGKILL, False), (signal.SIGTERM, True)],
)
def test_processes_end_with_the_command(tmp_path, number, is_of_child):
    script = tmp_path / "parent.py"
    script.write_text(PARENT)
    (tmp_path / "at_work.py").write_text(AT_WORK)
    parent = subprocess.Popen([sys.executable, script, tmp_path], stdout=subprocess.PIPE)
    child = int(parent.stdout.readline())
    output = tmp_path / "grpo.txt"
    while not (output.exists() and output.read_text()):
        assert parent.poll() is None
        time.sleep(0.1)
    lock = FileLock(tmp_path / "grpo.lock")
    with pytest.raises(Timeout):
        lock.acquire(timeout=0)
    if is_of_child:
        os.kill(child, number)
    else:
        parent.send_signal(number)
    parent.communicate()
    # The child and its command hold it until their end.
    lock.acquire(timeout=300)


def test_an_import_error_of_a_run_is_shown(tmp_path):
    (tmp_path / "trl.py").write_text("raise ImportError('a broken installation')\n")
    script = tmp_path / "script.py"
    script.write_text(
        "from pathlib import Path\nfrom steer_trl.demo.runs import PYTHON, run_all\n"
        "run_all(Path.cwd(), {'grpo': [[*PYTHON, 'steer_trl.demo.start_model']]}, 'step', 1)\n"
    )
    environment = os.environ | {"PYTHONPATH": f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}"}
    done = subprocess.run([sys.executable, script], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert "a broken installation" in done.stderr.partition("CannotContinueError")[2]


def test_an_error_ends_the_processes(tmp_path, monkeypatch):
    """As Ctrl-C does, which does not reach the processes because they have a session of their own."""

    def interrupt(bar, folder, counted):
        if (tmp_path / "grpo.txt").read_text():
            raise KeyboardInterrupt

    (tmp_path / "at_work.py").write_text(AT_WORK)
    monkeypatch.setattr(runs, "show", interrupt)
    with pytest.raises(KeyboardInterrupt):
        runs.run_all(tmp_path, {"grpo": [[*runs.PYTHON, "at_work"]]}, "step", 1)
    # The command is killed with its parent, and may end a little later.
    FileLock(tmp_path / "grpo.lock").acquire(timeout=60)


def test_the_second_command_of_a_model_waits_for_the_success_of_the_first(tmp_path):
    write = "import sys; open('order', 'a').write(sys.argv[1]); sys.exit(int(sys.argv[2]))"
    commands = [[sys.executable, "-c", write, *words] for words in (("a", "0"), ("b", "3"), ("c", "0"))]
    with pytest.raises(CannotContinueError, match="exit code 3"):
        runs.run_all(tmp_path, {"grpo": commands}, "step", 1)
    assert (tmp_path / "order").read_text() == "ab"


def test_a_start_whose_test_was_interrupted_is_not_trained_again(tmp_path, monkeypatch):
    monkeypatch.setattr(runs, "START_STEPS", 2)
    (tmp_path / "test.jsonl").write_text("".join(json.dumps(row) + "\n" for row in problems("test")[:4]))
    demo = Demo(seed=1, problems=4)
    demo.prepare_start(tmp_path)
    weights = tmp_path / "start/model.safetensors"
    summary = tmp_path / "start/_test/t1/summary.json"
    trained = weights.stat().st_mtime_ns
    first = summary.read_text()
    summary.unlink()
    demo.prepare_start(tmp_path)
    assert weights.stat().st_mtime_ns == trained and summary.read_text() == first
    assert {value.dtype for value in load_file(weights).values()} == {torch.float16}


@given(st.integers(1, 10**6), st.floats(0, 1), st.floats(0, 0.5), st.floats(0.1, 1e4))
def test_the_seconds_of_a_run_are_estimated_from_a_tenth_on(total, share, resumed, elapsed):
    initial = int(resumed * total)
    bar = SimpleNamespace(total=total, initial=initial, n=initial + int(share * (total - initial)))
    bar.format_dict = {"elapsed": elapsed}
    done = bar.n - initial
    assert runs.estimate_seconds(bar) == (pytest.approx(elapsed / done * total) if 10 * done >= total else 0)


def test_a_slow_training_is_reported_once(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(runs, "estimate_seconds", lambda bar: 1500.0)
    monkeypatch.setattr(runs, "SECONDS", 0.01)
    wait = [sys.executable, "-c", "import time; time.sleep(0.2)"]
    for counted in ("step", "generated_tokens"):
        runs.run_all(tmp_path, {"grpo": [wait], "held": [wait]}, counted, 1)
        reported = capsys.readouterr()
        text = reported.out + reported.err
        assert text.count("25 minutes") == text.count("--tokens") == (counted == "generated_tokens")


def test_a_log_of_two_runs_has_no_result(tmp_path):
    for name in ("grpo", "held"):
        (tmp_path / name / "_logs").mkdir(parents=True)
        lines = [json.dumps({"step": step, "entropy": 1.0}) for step in (1, 2, 1, 3)]
        (tmp_path / name / "_logs/metrics.jsonl").write_text("\n".join(lines) + "\n")
    with pytest.raises(CannotContinueError, match="several runs"):
        Result(tmp_path).logs  # noqa: B018


def test_a_folder_of_other_settings_is_refused(tmp_path):
    (tmp_path / "settings.json").write_text(json.dumps({"seed": 3}))
    with pytest.raises(CannotContinueError, match="--output_dir"):
        Demo().run(tmp_path)


def test_the_held_run_differs_in_the_recommended_setting_and_its_rate():
    held, plain = load_recipe("demo_held"), load_recipe("demo_grpo")
    recommended = load_recipe("recommended_qwen2.5_math_7b")
    differs = {name for name in held if held[name] != plain.get(name)} - {"output_dir"}
    assert differs == {"advantage_shaping", "hold_entropy", "learning_rate"}
    same = ["advantage_shaping", "hold_entropy", "dynamic_sampling", "epsilon_high", "num_generations"]
    assert [held[name] for name in same] == [recommended[name] for name in same]
    assert plain["max_generated_tokens"] == Demo.tokens
    assert load_recipe("evaluate_demo")["limit"] == Demo.problems


SHARES = st.lists(st.floats(0, 1), min_size=3, max_size=20)


@given(SHARES, st.data())
def test_a_row_shows_the_numbers_and_the_interval(grpo, data):
    held = data.draw(st.lists(st.floats(0, 1), min_size=len(grpo), max_size=len(grpo)))
    found = compare_values([grpo], [held])
    a, b, change = cells("solved in one try", found)
    difference, half = map(float, change.split(" ± "))
    assert (float(a), float(b)) == pytest.approx((100 * found.a, 100 * found.b), abs=0.051)
    assert difference == pytest.approx(100 * found.difference, abs=0.051)
    assert difference + half == pytest.approx(100 * found.high, abs=0.11)


# The rollouts of a run depend on each other, so a mean over them has no interval.
@given(st.floats(0, 5), st.floats(0, 5))
def test_a_mean_over_rollouts_is_shown_without_an_interval(grpo, held):
    for row in OF_LOGS:
        shown = [float(text) for text in cells(row, LateMeans(grpo, held))]
        assert shown == pytest.approx([grpo, held, held - grpo], abs=0.0051)


@given(st.lists(st.floats(0, 5), min_size=1, max_size=40), st.lists(st.floats(0, 5), min_size=1, max_size=40))
def test_a_row_of_the_logs_has_the_means_of_the_last_fifths(grpo, held):
    start = {key_names.START_ENTROPY: 0.5}
    result = Result(Path())
    result.logs = {
        name: [{"step": step} | dict.fromkeys(OF_LOGS.values(), value) | start for step, value in enumerate(values)]
        for name, values in (("grpo", grpo), ("held", held))
    }
    late = [np.array(values)[-max(1, round(len(values) / 5)) :].mean() for values in (grpo, held)]
    entropy, tokens = (result.logged[row] for row in OF_LOGS)
    assert (entropy.a * 0.5, entropy.b * 0.5) == pytest.approx(late)
    assert (tokens.a, tokens.b) == pytest.approx(late)


@given(st.tuples(*[st.tuples(SHARES, SHARES) for _ in QUESTIONS]))
def test_the_sentence_follows_from_the_numbers(sides):
    result = Result(Path())
    trimmed = [(grpo[: len(held)], held[: len(grpo)]) for grpo, held in sides]
    result.solved = {row: compare_values([a], [b]) for row, (a, b) in zip(QUESTIONS, trimmed, strict=True)}
    parts = result.sentence().split(";")
    solved = [row for row in QUESTIONS if row.startswith("solved")]
    for row, part in zip(solved, parts, strict=True):
        held, grpo, difference, _ = (float(text) for text in re.findall(r"[+-]?\d+\.\d", part))
        found = result.solved[row]
        assert (grpo, held, difference) == pytest.approx(
            (100 * found.a, 100 * found.b, 100 * found.difference), abs=0.051
        )
        words = [word for word in ("higher", "lower", "not decided") if word in part]
        assert words == [found.verdict]


def test_the_start_model_is_the_one_that_the_command_made():
    weights = SHIPPED / "model.safetensors"
    assert hashlib.sha256(weights.read_bytes()).hexdigest() == OF_START
    assert {value.dtype for value in load_file(weights).values()} == {torch.float16}


def test_published_pairs_are_whole_and_their_verdicts_follow_from_their_numbers():
    pairs = [*run_files.lines(SHIPPED.parent / "pairs.jsonl")]
    names = {field.name for field in fields(Difference)}
    assert [pair["seed"] for pair in pairs] == [*range(1, len(pairs) + 1)]
    for pair in pairs:
        assert pair.keys() == {"seed", *OF_LOGS, *QUESTIONS}
        for row in QUESTIONS:
            entry = pair[row]
            assert Difference(**{name: entry[name] for name in names & entry.keys()}).verdict == entry["verdict"]
        for row in OF_LOGS:
            assert LateMeans(pair[row]["a"], pair[row]["b"]).to_entry() == pair[row]


def test_the_last_column_has_mean_and_range_of_the_published_pairs(demo):
    pairs = [*run_files.lines(SHIPPED.parent / "pairs.jsonl")]
    lines = Result(demo[0] / "out").table().splitlines()
    assert len(lines) <= 6
    for row, line in zip([*QUESTIONS, *OF_LOGS], lines[1:], strict=True):
        unit = 100 if row.startswith("solved") else 1
        values = [unit * pair[row]["difference"] for pair in pairs]
        shown = [float(text) for text in re.findall(r"[+-][\d.]+", line)][-3:]
        assert line.startswith(row)
        assert shown == pytest.approx([sum(values) / len(values), min(values), max(values)], abs=0.051)
