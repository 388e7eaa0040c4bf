"""A file of a run with one odd value is read, or refused with the file's name. It never ends in a Python error."""

import copy
import json
import shutil

import pytest
from support.evaluations import SETTINGS, write_evaluation
from support.run_folders import alarm, write_run, write_state

from steer_trl import SteerGRPOTrainer
from steer_trl.evaluation.folders import compare_samplings, read_evaluations
from steer_trl.evaluation.records import COMPLETIONS, Records
from steer_trl.evaluation.summary import summarize
from steer_trl.evaluation.sweeps import read_sides
from steer_trl.monitoring import run_files
from steer_trl.report.data import page_data
from steer_trl.report.read import find_runs
from steer_trl.support.exceptions import SteerError
from steer_trl.trainer.checkpoints.where_to_resume import is_complete

ODD = [None, True, -1, 10**400, float("nan"), "x", [], [[]], {"a": 1}]


def places(value, path=()):
    """Yield the path of a JSON value and of all values in it; of a long list, those of its ends."""
    yield path
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, list):
        items = {number: value[number] for number in {0, len(value) - 1} if value}.items()
    else:
        return
    for key, inner in items:
        yield from places(inner, (*path, key))


def variants(value):
    """Yield copies of a JSON value in which one value at a time is odd, or missing."""
    for path in places(value):
        if path and isinstance(path[-1], str):
            less = copy.deepcopy(value)
            inner = less
            for key in path[:-1]:
                inner = inner[key]
            del inner[path[-1]]
            yield less
        for odd in ODD:
            changed = {"": copy.deepcopy(value)}
            inner = changed
            for key in ("", *path)[:-1]:
                inner = inner[key]
            inner[("", *path)[-1]] = odd
            yield changed[""]


def damaged(path):
    """Write every variant of a file in turn; of a file of lines, of its first line. At last, restore the file."""
    text = path.read_text()
    is_lines = path.suffix == ".jsonl"
    first, *others = text.splitlines(keepends=True) if is_lines else [text]
    try:
        for variant in variants(json.loads(first)):
            path.write_text(json.dumps(variant) + "\n" * is_lines + "".join(others))
            yield variant
        for torn in ("", "[[[", "\x00", text[: len(text) // 2]):
            path.write_text(torn)
            yield torn
    finally:
        path.write_text(text)


def never_fails(read, path):
    """Check that reading works with every variant of a file, or is refused by its name; return how often it works."""
    worked = refused = 0
    for variant in damaged(path):
        try:
            read()
            worked += 1
        except SteerError as error:
            refused += 1
            assert any(place.name in str(error) for place in (path, *path.parents[:2])), (variant, error)
        except Exception as error:
            raise AssertionError(f"{path.name} with {variant!r:.300}") from error
    read()
    return worked, refused


@pytest.fixture
def run(tmp_path):
    folder = write_run(tmp_path / "run", steps=3, token_steps=(1,), hold_entropy=0.5, max_steps=3)
    run_files.begin(folder, 2, {"methods": ["stare"], "max_steps": 3, "defaults": {"num_train_epochs": 1}, "code": {}})
    run_files.append(folder, {"step": 3, "reward": 0.5, "entropy": 0.2, "eval_a_avg@4": 0.5})
    alarm(folder, step=2)
    write_state(folder / "checkpoint-3", 3)
    write_evaluation(folder / "after", [0.5, 0.8])
    write_evaluation(folder / "benchmarks/step-3", [0.5, 0.8])
    return folder


FILES = [
    *("_logs/run.json", "_logs/metrics.jsonl", "_logs/alarms.jsonl", "_logs/tokens/step-00000001.jsonl"),
    *("checkpoint-3/trainer_state.json", "after/settings.json", "after/completions.jsonl", "after/summary.json"),
    *("benchmarks/step-3/summary.json", "benchmarks/step-3/settings.json"),
]


@pytest.mark.parametrize("name", FILES)
def test_the_page_is_made_from_any_file(run, tmp_path, name):
    other = write_run(tmp_path / "other", steps=3, token_steps=())
    write_evaluation(other / "after", [0.5, 0.8])
    if name.startswith("checkpoint"):
        (run / "_logs/metrics.jsonl").unlink()

    def read():
        json.dumps(page_data(find_runs([run, other])), allow_nan=False)

    worked, _ = never_fails(read, run / name)
    assert worked


@pytest.mark.parametrize("name", ["settings.json", "completions.jsonl", "summary.json"])
def test_evaluations_are_compared_or_refused_by_the_files_name(tmp_path, name):
    a, b = (write_evaluation(tmp_path / letter, [0.5, 0.8], model=letter) for letter in "ab")

    def read():
        json.dumps(
            {key: str(value) for key, value in compare_samplings([read_evaluations(a)], [read_evaluations(b)]).items()}
        )

    def sweep():
        read_sides([str(a), str(again)], [str(b), str(later)])

    assert all(never_fails_or_differs(read, b / name))
    warm = SETTINGS | {"sampling": SETTINGS["sampling"] | {"temperature": 0.5}}
    again, later = (write_evaluation(tmp_path / f"{x}2", [0.5, 0.8], settings=warm, model=x) for x in "ab")
    never_fails_or_differs(sweep, b / name)


def never_fails_or_differs(read, path):
    """As `never_fails`; an evaluation whose settings differ is refused by its folder's name."""
    worked = refused = 0
    for variant in damaged(path):
        try:
            read()
            worked += 1
        except SteerError as error:
            refused += 1
            assert path.parent.name in str(error) or "temperature" in str(error), (variant, error)
        except Exception as error:
            raise AssertionError(f"{path.name} with {variant!r:.300}") from error
    return worked, refused


@pytest.mark.parametrize("name", ["settings.json", "completions.jsonl"])
def test_an_evaluation_is_resumed_or_refused(tmp_path, name):
    folder = write_evaluation(tmp_path / "a", [0.5, 0.8])
    settings = json.loads((folder / "settings.json").read_text())

    def resume():
        copied = shutil.copytree(folder, tmp_path / "copy", dirs_exist_ok=True)
        batches = Records(copied, settings).load([4, 4])
        assert all(len(batch) == 4 for batch in batches.values())
        summarize([one for batch in batches.values() for one in batch]) if batches else None

    worked, refused = never_fails(resume, folder / name)
    assert worked and (refused or name == COMPLETIONS)


STATES = {
    "held": {"advantage_shaping": "stare", "stare_gate": "none", "hold_entropy": 4.0, "hold_entropy_unit": "nats"},
    "adaptive": {"advantage_shaping": "stare", "stare_adaptive": True},
    "memory": {"advantage_shaping": "dcpo"},
}


@pytest.mark.parametrize("name", STATES)
def test_a_checkpoint_is_loaded_or_refused(make_trainer, tmp_path, name):
    trainer = make_trainer(SteerGRPOTrainer, **STATES[name], max_steps=2, save_strategy="steps", save_steps=2)
    trainer.train()
    folder = tmp_path / "run/checkpoint-2"

    def load():
        # In the order of a resume.
        trainer.parts.generated.begin(str(folder))
        trainer.parts.checkpoints._load(folder)

    worked, refused = never_fails(load, folder / "shaping_state.json")
    assert worked and refused


def test_a_file_that_ends_in_the_middle_is_named_or_its_checkpoint_is_skipped(make_trainer, tmp_path):
    """Whichever library wrote it, and although the error of the library that reads it names no file."""
    settings = {"max_steps": 2, "save_strategy": "steps", "save_steps": 1, "dynamic_sampling": "resample"}
    trainer = make_trainer(SteerGRPOTrainer, **settings, steps_per_generation=4)
    trainer.train()
    folder = tmp_path / "run/checkpoint-1"
    paths = sorted(path for path in folder.iterdir() if path.suffix in (".pt", ".pth", ".json", ".safetensors"))
    names = {"optimizer.pt", "scheduler.pt", "rng_state.pth", "rollout_0_of_1.pt", "dynamic_sampling.pt"}
    names |= {"trainer_state.json", "shaping_state.json", "config.json", "model.safetensors"}
    assert names <= {path.name for path in paths}
    for path in paths:
        whole = path.read_bytes()
        path.write_bytes(whole[: len(whole) // 2])
        if path.name in names:
            assert not is_complete(folder), path.name
            with pytest.raises(SteerError, match=path.name):
                trainer.train(resume_from_checkpoint=str(folder))
        path.write_bytes(whole)
    assert is_complete(folder)


def test_a_checkpoint_with_a_damaged_trainer_state_is_skipped(make_trainer, tmp_path):
    make_trainer(SteerGRPOTrainer, max_steps=1, save_strategy="steps", save_steps=1).train()
    folder = tmp_path / "run/checkpoint-1"
    for text in ("[1]", "{}", '{"global_step": "x"}', "1", '"x"', "[" * 100_000):
        (folder / "trainer_state.json").write_text(text)
        assert not is_complete(folder), text
