"""`python -m steer_trl.countdown.training`, with FSDP allowed on CPU."""

from support.engines import let_fsdp_run_on_cpu

from steer_trl.countdown.training import main

if __name__ == "__main__":
    let_fsdp_run_on_cpu()
    main()
