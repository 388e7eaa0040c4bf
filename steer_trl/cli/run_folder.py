"""The files that a training run leaves in its folder."""

from pathlib import Path

from steer_trl.runlog import LOGS

MODELS = ("config.json", "adapter_config.json")
CHECKPOINT_STATE = "trainer_state.json"
"""The file of a checkpoint that Transformers writes last."""


def find_checkpoints(folder: Path) -> list[Path]:
    """Return the checkpoints in `folder`, the latest first."""
    steps = {}
    for path in folder.glob("checkpoint-*"):
        step = path.name.removeprefix("checkpoint-")
        if step.isdecimal():
            steps[int(step)] = path
    return [steps[step] for step in sorted(steps, reverse=True)]


def find_run_files(folder: Path) -> list[Path]:
    """Return the checkpoints in `folder`, the latest first, or if there are none its model and its log."""
    left = [folder / name for name in (*MODELS, LOGS)]
    return find_checkpoints(folder) or [path for path in left if path.exists()]
