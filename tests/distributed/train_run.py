"""`steer-trl train`, with FSDP allowed on CPU."""

import sys

from support.engines import let_fsdp_run_on_cpu

from steer_trl.cli.train import main

if __name__ == "__main__":
    let_fsdp_run_on_cpu()
    main(sys.argv[1:])
