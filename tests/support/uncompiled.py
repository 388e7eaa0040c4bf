"""On CPU DeepSpeed compiles a reduction of its own, two minutes of a processor in each new environment: not here.

Without it, gloo reduces.
"""

import sys

import deepspeed  # noqa: F401

sys.modules["deepspeed.comm.torch"].build_shm_op = lambda: None  # the package's attribute `torch` is PyTorch
