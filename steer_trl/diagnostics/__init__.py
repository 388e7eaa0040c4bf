"""What a run shows of itself: statistics of the tokens of each optimizer step, and the alarms that read the log.

    keys/           the registry: a row for each key of the log, and the panels of the report
    estimators.py   how a number of the log is made of sums
    statistics.py   a number of the log, as sums that add up over micro-batches and ranks
    tokens.py       quadrants, entropy by position and by advantage, clipped tokens, the change of the entropy
    weights.py      what the methods did to the advantages
    alarms.yaml     the table of alarms: what is compared with which thresholds, and what to do about it
    rules.py        what its rows compare
    start.py        the initial entropy, as the log has it
    watch.py        when an alarm is raised, and when it is armed again

Nothing here changes what is trained. The registry and the alarms need no torch.
"""
