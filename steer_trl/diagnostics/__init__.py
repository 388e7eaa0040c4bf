"""Diagnostics of a run: statistics of each optimizer step's tokens, and the alarms that read the log.

Diagnostics never change the training. The registry of the log's keys (`keys/`) and the alarms (`watch.py` and the
modules with rules) do not import torch.
"""
