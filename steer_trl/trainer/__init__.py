"""Defines the trainer. No other package uses TRL's internals.

`trl.py` wraps these internals, and `contract.py` checks that they exist.
"""

from steer_trl.trainer.contract import check_trl

# This check comes before the other imports, so that a missing piece of TRL is reported by name.
check_trl()

from steer_trl.trainer.trainer import SteerGRPOTrainer  # noqa: E402

__all__ = ["SteerGRPOTrainer"]
