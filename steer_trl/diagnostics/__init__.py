"""Diagnostics of a run: statistics of each optimizer step's tokens, and the alarms that read the log.

Diagnostics never change the training. The registry (`keys/`) and the alarms (`watch.py` and the rules) need no torch.
"""
