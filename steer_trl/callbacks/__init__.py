"""Callbacks for any trainer that logs GRPO's keys, including `SteerGRPOTrainer`: the run's log and the alarms.

Nothing here imports TRL's trainers: the callbacks work with versions that `SteerGRPOTrainer` cannot work with.
"""
