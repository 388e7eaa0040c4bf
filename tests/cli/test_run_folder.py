"""A folder that holds a run is written to again only if somebody says how."""

import json
import shutil
from pathlib import Path

import pytest
from support import SMOKE
from support.runs import save_tiny_model

from steer_trl.cli.main import main

pytestmark = pytest.mark.filterwarnings("default")  # of Transformers, about a resume


@pytest.fixture(scope="module")
def line(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    rows = [{"problem": f"What is {i}+1?", "answer": str(i + 1)} for i in range(8)]
    (folder / "problems.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    words = ["train", "--config", str(SMOKE), "--model_name_or_path", str(save_tiny_model(folder / "tiny"))]
    words += ["--dataset_name", str(folder / "problems.jsonl"), "--output_dir", str(folder / "run")]
    main(words)
    return words


def changed(words, **settings):
    return [*words[:-2], *(str(word) for item in settings.items() for word in (f"--{item[0]}", item[1])), *words[-2:]]


def steps(words):
    return sorted(path.name for path in Path(words[-1]).glob("checkpoint-*"))


def test_resuming_goes_on_and_says_so(line, tmp_path, capsys):
    words = [*line[:-1], str(shutil.copytree(line[-1], tmp_path / "resumed"))]
    main(changed(words, resume_from_checkpoint="true", max_steps=3, save_steps=3, disable_tqdm="true"))
    said = capsys.readouterr().out
    assert "resuming at step 2 of 3\nstep 3/3  reward " in said and "step 1/3" not in said
    assert steps(words) == ["checkpoint-2", "checkpoint-3"]


def contents(folder):
    return {path: path.read_bytes() for path in sorted(Path(folder).rglob("*")) if path.is_file()}


def test_a_dry_run_writes_nothing(line, tmp_path, capsys):
    main(changed([*line[:-1], str(tmp_path / "new")], dry_run="true", log_completions="true"))
    assert not (tmp_path / "new").exists()
    assert "A dry run: " in capsys.readouterr().out


@pytest.mark.parametrize("value", ["true", "auto"])
def test_a_finished_run_is_left_as_it_is(line, capsys, value):
    before = contents(line[-1])
    main(changed(line, resume_from_checkpoint=value))
    said = capsys.readouterr().out
    assert "already at step 2 of 2" in said and "Saved to" not in said and contents(line[-1]) == before


def test_one_command_starts_and_resumes(line, tmp_path, capsys):
    words = [*line[:-1], str(tmp_path / "job")]
    main(changed(words, resume_from_checkpoint="auto", max_steps=1, save_steps=1))
    main(changed(words, resume_from_checkpoint="auto"))
    assert "resuming at step 1 of 2" in capsys.readouterr().out
    assert steps(words) == ["checkpoint-1", "checkpoint-2"]


@pytest.mark.parametrize("is_begun", [False, True])
def test_a_killed_runs_model_is_saved_later(line, tmp_path, capsys, is_begun):
    """Also if its save had begun, or a push of its checkpoint had copied a part of it."""
    folder = tmp_path / "killed"
    shutil.copytree(line[-1], folder)
    (folder / "_logs/saved").unlink()
    (folder / "model.safetensors").write_bytes(b"half of it")
    if not is_begun:
        for name in ("model.safetensors", "config.json"):
            (folder / name).unlink()
    main([*changed(line, resume_from_checkpoint="auto")[:-1], str(folder)])
    assert "Saved to" in capsys.readouterr().out
    assert (folder / "model.safetensors").read_bytes() == Path(line[-1], "model.safetensors").read_bytes()


def test_another_runs_checkpoint_is_not_mixed_in(line, tmp_path, capsys):
    other = tmp_path / "other"
    shutil.copytree(line[-1], other)
    before = contents(other)
    words = changed(line, resume_from_checkpoint=f"{line[-1]}/checkpoint-2", max_steps=3)
    with pytest.raises(SystemExit) as ended:
        main([*words[:-1], str(other)])
    said = capsys.readouterr().err
    assert ended.value.code == 2 and "holds a run (checkpoint-2)" in said and "is of another" in said
    assert contents(other) == before
