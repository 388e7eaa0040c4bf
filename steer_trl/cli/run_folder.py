"""A run's folder: nothing is written over or mixed with another run unless somebody says so."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR, sort_checkpoints

from steer_trl import SteerGRPOConfig
from steer_trl.cli.arguments import MathArguments
from steer_trl.cli.parser import checkpoint_to_resume

MODELS = ("config.json", "adapter_config.json")
LEFT_BY_RUNS = (f"{PREFIX_CHECKPOINT_DIR}-*", "benchmarks", "completions", "_logs")


def folder_complaints(args: MathArguments, training: SteerGRPOConfig) -> list[str]:
    """Complain about an `output_dir` that cannot be written, or holds a run that is neither resumed nor given up."""
    folder = Path(training.output_dir)
    if folder.exists() and not folder.is_dir():
        return [f"output_dir={str(folder)!r} must be a folder, and is a file. Give another one."]
    nearest = next(parent for parent in (folder, *folder.absolute().parents) if parent.exists())
    if not os.access(nearest, os.W_OK | os.X_OK) or not _can_make(nearest):
        return [f"output_dir={str(folder)!r} cannot be written: {str(nearest)!r} does not let you. Give another one."]
    resume = checkpoint_to_resume(training.resume_from_checkpoint)
    if resume and args.overwrite_output_dir:
        return [
            "overwrite_output_dir=True cannot be combined with resume_from_checkpoint: it removes what is resumed."
        ]
    return _resume_complaints(resume, folder, training) if resume else _run_complaints(folder, args)


def _can_make(folder: Path) -> bool:
    """Some file systems, such as /proc, let nobody make a folder whatever their permissions say."""
    return not str(folder.resolve()).startswith(("/proc", "/sys", "/dev"))


def _run_complaints(folder: Path, args: MathArguments) -> list[str]:
    holds = what_a_run_left(folder)
    if not holds or args.overwrite_output_dir:
        return []
    return [
        f"output_dir={str(folder)!r} holds a run ({', '.join(path.name for path in holds[:3])}), and two would be "
        "mixed there. Continue it with --resume_from_checkpoint true, give another --output_dir, or begin anew with "
        "--overwrite_output_dir true, which removes its checkpoints, benchmarks and logs."
    ]


def _resume_complaints(resume: str | bool, folder: Path, training: SteerGRPOConfig) -> list[str]:
    found = sort_checkpoints(str(folder)) if folder.is_dir() else []
    if resume is True and not found:
        return [
            f"resume_from_checkpoint=True needs a checkpoint in output_dir={str(folder)!r}, which has none. Leave it "
            "unset to begin anew, or correct output_dir."
        ]
    checkpoint = Path(found[-1] if resume is True else str(resume))
    if not checkpoint.is_dir():
        return [
            f"resume_from_checkpoint={str(resume)!r} must be the folder of a checkpoint, and there is none. "
            f"Checkpoints of output_dir={str(folder)!r}: {', '.join(Path(path).name for path in found) or 'none'}."
        ]
    before = _settings_of(checkpoint).get("advantage_shaping")
    if before is None or before == list(training.shaping_names):
        return []
    return [
        f"advantage_shaping={list(training.shaping_names)!r} must be {before!r} to resume {str(checkpoint)!r}, which "
        "was trained with that. To go on with another method, begin a run from its weights: --model_name_or_path "
        f"{checkpoint}, with another --output_dir."
    ]


def _settings_of(checkpoint: Path) -> dict[str, Any]:
    """What `trainer/checkpoint.py` has written of the settings that a resume depends on."""
    try:
        return dict(json.loads((checkpoint / "shaping_state.json").read_text()).get("settings", {}))
    except (OSError, ValueError):  # TRL's own checkpoint, or torn: the trainer says so
        return {}


def what_a_run_left(folder: Path) -> list[Path]:
    """The checkpoints in `folder`, latest first, or the model or the log of a run without checkpoints."""
    if not folder.is_dir():
        return []
    checkpoints = [Path(path) for path in sort_checkpoints(str(folder))]
    return checkpoints[::-1] or [folder / name for name in (*MODELS, "_logs") if (folder / name).exists()]


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
