"""The command line: `steer-trl train` and `steer-trl eval`."""
