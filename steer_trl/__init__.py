"""GRPO for TRL with token weights that hold the policy entropy at a target, and STEER, STARE and other methods."""

from importlib.metadata import version
from typing import TYPE_CHECKING

from steer_trl.support.system import import_lazily

if TYPE_CHECKING:
    from steer_trl.config import SteerGRPOConfig
    from steer_trl.monitoring.any_trainer import AlarmsCallback
    from steer_trl.shaping.stare_controller import TargetEntropyController
    from steer_trl.trainer import SteerGRPOTrainer

__all__ = ["AlarmsCallback", "SteerGRPOConfig", "SteerGRPOTrainer", "TargetEntropyController", "__version__"]

__version__ = version("steer_trl")

# These names are imported on first use, because the processes that score answers need neither torch nor TRL.
__getattr__ = import_lazily(
    __name__,
    **{"monitoring.any_trainer": ("AlarmsCallback",), "shaping.stare_controller": ("TargetEntropyController",)},
    config=("SteerGRPOConfig",),
    trainer=("SteerGRPOTrainer",),
)
