"""Diagnostics of a run: statistics of each optimizer step's tokens, and the alarms that read the log.

Nothing here changes what is trained. The registry (`keys/`) and the alarms (`watch.py` and the rules) need no torch.
"""
