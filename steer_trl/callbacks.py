"""Faces for trainers other than `SteerGRPOTrainer`: the alarms in a run, and what one rollout shows before it."""

from typing import TYPE_CHECKING

from steer_trl.monitoring.any_trainer import AlarmsCallback
from steer_trl.support.system import import_lazily

if TYPE_CHECKING:
    from steer_trl.trainer.dry_run import dry_run

__all__ = ["AlarmsCallback", "dry_run"]

# A dry run needs the versions of TRL that `SteerGRPOTrainer` supports, and the alarms do not.
__getattr__ = import_lazily("steer_trl", **{"trainer.dry_run": ("dry_run",)})
