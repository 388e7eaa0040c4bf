"""A run's folder: nothing is written over or mixed with another run unless it was asked for."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

from accelerate.utils import broadcast_object_list
from transformers.trainer import TRAINER_STATE_NAME
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR

from steer_trl import SteerGRPOConfig
from steer_trl.cli.arguments import MathArguments
from steer_trl.cli.parser import checkpoint_to_resume
from steer_trl.runlog import LOGS
from steer_trl.trainer.resume import (
    AUTO,
    another_runs_checkpoint,
    complete_checkpoints,
    is_of_folder,
    last_complete_checkpoint,
    named,
    what_a_run_left,
)

MODELS = ("config.json", "adapter_config.json")
LEFT = (*MODELS, LOGS)
LEFT_BY_RUNS = (f"{PREFIX_CHECKPOINT_DIR}-*", "benchmarks", "completions", "_logs")


def folder_complaints(args: MathArguments, training: SteerGRPOConfig) -> list[str]:
    """Complain about an `output_dir` that cannot be written, or holds a run that is neither resumed nor given up."""
    if not training.output_dir.strip():
        return [f"output_dir must be the name of a folder, got {training.output_dir!r}. Give one."]
    folder = Path(training.output_dir)
    if folder.exists() and not folder.is_dir():
        return [f"output_dir={str(folder)!r} must be a folder, and is a file. Give another one."]
    nearest = next(parent for parent in (folder, *folder.absolute().parents) if parent.exists())
    if not os.access(nearest, os.W_OK | os.X_OK):
        return [f"output_dir={str(folder)!r} cannot be written: {str(nearest)!r} does not let you. Give another one."]
    resume = checkpoint_to_resume(training.resume_from_checkpoint)
    if resume and args.overwrite_output_dir:
        return [
            "overwrite_output_dir=True cannot be combined with resume_from_checkpoint: it removes what is resumed."
        ]
    if resume == AUTO and not complete_checkpoints(str(folder)):
        return _model_complaints(folder)
    return _resume_complaints(resume, folder, training) if resume else _run_complaints(folder, args)


def _run_complaints(folder: Path, args: MathArguments) -> list[str]:
    holds = what_a_run_left(folder, LEFT)
    if not holds or args.overwrite_output_dir:
        return []
    return [
        f"output_dir={str(folder)!r} holds a run ({named(holds)}), and two would be mixed there. Continue it with "
        "--resume_from_checkpoint true, give another --output_dir, or begin from the start with "
        "--overwrite_output_dir true, which removes its checkpoints, benchmarks and logs."
    ]


def _model_complaints(folder: Path) -> list[str]:
    """Complain about the model of a run without checkpoints: `auto` would train another over it."""
    models = [folder / name for name in MODELS if (folder / name).exists()]
    if not models:
        return []
    return [
        f"output_dir={str(folder)!r} holds a run ({named(models)}) and no complete checkpoint: "
        "resume_from_checkpoint='auto' would train another over its model. Give another --output_dir, or begin from "
        "the start with --resume_from_checkpoint false --overwrite_output_dir true."
    ]


def _resume_complaints(resume: str | bool, folder: Path, training: SteerGRPOConfig) -> list[str]:
    found = what_a_run_left(folder, names=())
    if resume is True and not found:
        return [
            f"resume_from_checkpoint=True needs a checkpoint in output_dir={str(folder)!r}, which has none. Leave it "
            "unset to begin at step 0, correct output_dir, or set it to auto, which resumes only where there is one."
        ]
    searches = resume is True or resume == AUTO
    checkpoint = Path((complete_checkpoints(str(folder)) or [str(found[0])])[-1] if searches else str(resume))
    if not checkpoint.is_dir():
        return [
            f"resume_from_checkpoint={str(resume)!r} must be true, auto or the folder of a checkpoint, and there is "
            f"none. Checkpoints of output_dir={str(folder)!r}: {named(found, len(found)) or 'none'}."
        ]
    holds = what_a_run_left(folder, LEFT)
    if holds and not is_of_folder(checkpoint, folder):
        return [another_runs_checkpoint(checkpoint, folder, holds)]
    before = _settings_of(checkpoint).get("advantage_shaping")
    if before is None or before == list(training.shaping_names):
        return []
    return [
        f"advantage_shaping={list(training.shaping_names)!r} must be {before!r} to resume {str(checkpoint)!r}, which "
        "was trained with that. To continue with another method, begin a run from its weights: --model_name_or_path "
        f"{checkpoint}, with another --output_dir."
    ]


def _settings_of(checkpoint: Path) -> dict[str, Any]:
    """What `trainer/checkpoint.py` has written of the settings that a resume depends on."""
    try:
        return dict(json.loads((checkpoint / "shaping_state.json").read_text()).get("settings", {}))
    except (OSError, ValueError):  # TRL's own checkpoint, or torn: the trainer says so
        return {}


def model_is_saved(folder: Path) -> bool:
    """Whether the model of a finished run is in `folder`: one that was saved after its last checkpoint. Collective."""
    last = last_complete_checkpoint(str(folder))
    saved = [path.stat().st_mtime for name in MODELS if (path := folder / name).is_file()]
    is_saved = last is not None and any(time >= Path(last, TRAINER_STATE_NAME).stat().st_mtime for time in saved)
    return bool(broadcast_object_list([is_saved])[0])


def remove_run(folder: Path) -> None:
    """Remove the checkpoints of a run, its benchmarks and its logs; the model beside them will be written over."""
    for pattern in LEFT_BY_RUNS:
        for path in folder.glob(pattern):
            shutil.rmtree(path, ignore_errors=True)


def model_above(folder: Path) -> Path | None:
    """The folder of a saved model that `folder` is, or lies in, where it would be pushed with it; `None` outside.

    Names that begin with an underscore are never pushed.
    """
    path = folder.absolute()
    for parent in (path, *path.parents):
        inside = path.relative_to(parent).parts
        if any((parent / name).is_file() for name in MODELS) and not (inside and inside[0].startswith("_")):
            return parent
    return None
