"""How a process of a distributed run ends."""

import gc

from torch import distributed


def leave_group() -> None:
    """Leave the process group; the last thing a process does, when nobody needs its trainer any more.

    Torch's group has threads that may still hold tensors. One that lets go of its last while the interpreter ends
    aborts the process, about once in thirty runs on a busy machine (pytorch issue 190489). So all that holds the group
    is collected here, and its threads end with it.
    """
    gc.collect()
    if distributed.is_initialized():
        distributed.destroy_process_group()
    gc.collect()
