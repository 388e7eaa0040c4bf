"""Callbacks for any trainer that logs GRPO's keys, `SteerGRPOTrainer` among them: the run's log and the alarms.

    run_log.py          writes what is logged to `<output_dir>/_logs`
    checkout.py         the commit and the changes of the code that it was started with
    alarms.py           compares it with the table of alarms, and warns
    remarks.py          truncated sampling and dropout, by which another policy is scored than the one that writes
    any_trainer.py      `AlarmsCallback`, both for a trainer that is not ours

Nothing here imports TRL's trainers: the callbacks work with versions that `SteerGRPOTrainer` cannot work with.
"""
