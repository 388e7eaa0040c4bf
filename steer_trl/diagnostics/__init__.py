"""What a run shows of itself: statistics of the tokens of each optimizer step, and the alarms that read the log.

Nothing here changes what is trained. The registry (`keys/`) and the alarms (`rules.py`, `watch.py`) need no torch.
"""
