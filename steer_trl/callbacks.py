"""Callbacks for trainers other than `SteerGRPOTrainer`, for any trainer that logs GRPO's keys."""

from steer_trl.monitoring.any_trainer import AlarmsCallback

__all__ = ["AlarmsCallback"]
