"""`examples/train_countdown.py`, with FSDP allowed on CPU."""

import sys
from pathlib import Path

import torch.distributed as dist
from fixed_rollout import let_fsdp_run_on_cpu

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))

from train_countdown import main, parse

if __name__ == "__main__":
    let_fsdp_run_on_cpu()
    main(*parse())
    dist.barrier()
    dist.destroy_process_group()
