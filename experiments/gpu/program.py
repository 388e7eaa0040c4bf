"""`steer-trl` in a process that ends with its parent, so that a killed experiment can begin again at once.

With vLLM's CPU build, layers are told to keep their weights as they are.
"""

import ctypes
import os
import signal
import sys

import torch

from experiments.lab.runs import ROOT
from steer_trl.cli.main import main
from steer_trl.evaluation.backends import has_vllm

PR_SET_PDEATHSIG = 1


def end_with_parent() -> None:
    """Let Linux kill this process when its parent ends."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


if __name__ == "__main__":
    end_with_parent()
    # An engine in a process of its own would keep the GPU's memory when this process is killed.
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
    if has_vllm() and not torch.cuda.is_available():
        os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")
        sys.path.insert(0, str(ROOT / "tests"))
        from support.vllm_on_cpu import keep_weights

        keep_weights()
    main()
