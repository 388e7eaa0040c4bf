"""`steer-trl train`, with FSDP allowed on CPU; says which engine it got."""

import sys

from accelerate import PartialState
from accelerate.state import AcceleratorState
from support.engines import let_fsdp_run_on_cpu

from steer_trl.cli.train import main

if __name__ == "__main__":
    let_fsdp_run_on_cpu()
    main(sys.argv[1:])
    state = AcceleratorState() if AcceleratorState._shared_state else PartialState()
    print(f"engine: {state.distributed_type} x {state.num_processes}")
