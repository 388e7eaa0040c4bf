"""Faces for trainers other than `SteerGRPOTrainer`: the alarms in a run, and what one rollout shows before it."""

from steer_trl.monitoring.any_trainer import AlarmsCallback
from steer_trl.support.system import import_lazily

__all__ = ["AlarmsCallback", "dry_run"]

# A dry run needs the versions of TRL that `SteerGRPOTrainer` supports, and the alarms do not.
__getattr__ = import_lazily("steer_trl", **{"trainer.dry_run": ("dry_run",)})
