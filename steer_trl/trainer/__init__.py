"""The trainer: the only room that knows TRL's insides. `trl.py` is the door, `contract.py` what must be behind it."""

from steer_trl.trainer.contract import check_trl

check_trl()

from steer_trl.trainer.trainer import SteerGRPOTrainer  # noqa: E402  # an error of its own comes first

__all__ = ["SteerGRPOTrainer"]
