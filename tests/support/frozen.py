"""What was loaded before this module stays as long as the process does: garbage collection looks at it no more.

Accelerate collects garbage at the beginning of every training, and with all that TRL loads that took half the time of
a tiny one.
"""

import gc

gc.collect()
gc.freeze()
