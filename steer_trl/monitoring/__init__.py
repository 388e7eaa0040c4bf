"""The log of a run, for any trainer that logs GRPO's keys: keys, statistics, files, and the alarms that read it.

Nothing here changes the training or imports TRL's trainers, so it also works with versions of TRL that
`SteerGRPOTrainer` does not support. The keys (`keys.py`) and the alarms (`watch.py` and the modules with rules) do not
import torch.
"""
