"""STEER and STARE for TRL: token weights that keep the policy entropy alive in RL with verifiable rewards."""

from importlib.metadata import version

from steer_trl.config import SteerGRPOConfig
from steer_trl.controller import TargetEntropyController
from steer_trl.trainer import SteerGRPOTrainer

__all__ = ["SteerGRPOConfig", "SteerGRPOTrainer", "TargetEntropyController", "__version__"]

__version__ = version("steer_trl")
