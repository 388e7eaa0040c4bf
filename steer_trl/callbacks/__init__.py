"""Callbacks that write a run's log and raise alarms, for any trainer that logs GRPO's keys.

They do not import TRL's trainers, so they also work with versions of TRL that `SteerGRPOTrainer` does not support.
"""
