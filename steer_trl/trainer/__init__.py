"""The trainer: the only room that knows TRL's insides. `tests/trainer/test_contract.py` holds what it relies on."""

from steer_trl.trainer.trainer import SteerGRPOTrainer

__all__ = ["SteerGRPOTrainer"]
