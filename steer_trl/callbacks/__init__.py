"""Callbacks for any trainer that logs GRPO's keys, `SteerGRPOTrainer` among them: the run's log and the alarms.

Nothing here imports TRL's trainers: the callbacks work with versions that `SteerGRPOTrainer` cannot work with.
"""
