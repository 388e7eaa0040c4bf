"""STEER and STARE for TRL: token weights that keep the policy entropy alive in RL with verifiable rewards."""

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from steer_trl.callbacks.any_trainer import AlarmsCallback
    from steer_trl.config import SteerGRPOConfig
    from steer_trl.functional.stare_controller import TargetEntropyController
    from steer_trl.trainer import SteerGRPOTrainer

__all__ = ["AlarmsCallback", "SteerGRPOConfig", "SteerGRPOTrainer", "TargetEntropyController", "__version__"]

__version__ = version("steer_trl")

_HOMES = {
    "AlarmsCallback": "callbacks.any_trainer",
    "SteerGRPOConfig": "config",
    "SteerGRPOTrainer": "trainer",
    "TargetEntropyController": "functional",
}


def __getattr__(name: str) -> Any:
    """Import the trainer when it is asked for: the processes that score answers need neither torch nor TRL."""
    if name in _HOMES:
        return getattr(import_module(f"steer_trl.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
