"""The trainer: the only package that uses TRL's internals.

`trl.py` wraps them, and `contract.py` checks for them.
"""

from steer_trl.trainer.contract import check_trl

# This comes before the other imports, so that a missing piece of TRL is reported by name.
check_trl()

from steer_trl.trainer.trainer import SteerGRPOTrainer  # noqa: E402

__all__ = ["SteerGRPOTrainer"]
