"""What a run has left in its folder, and whether its model is saved."""

from pathlib import Path

from accelerate.utils import broadcast_object_list
from transformers.trainer import TRAINER_STATE_NAME

from steer_trl.runlog import LOGS
from steer_trl.trainer.resume import last_complete_checkpoint

MODELS = ("config.json", "adapter_config.json")
LEFT = (*MODELS, LOGS)


def model_is_saved(folder: Path) -> bool:
    """Whether the model of a finished run is in `folder`: one that was saved after its last checkpoint. Collective."""
    last = last_complete_checkpoint(str(folder))
    saved = [path.stat().st_mtime for name in MODELS if (path := folder / name).is_file()]
    is_saved = last is not None and any(time >= Path(last, TRAINER_STATE_NAME).stat().st_mtime for time in saved)
    return bool(broadcast_object_list([is_saved])[0])
