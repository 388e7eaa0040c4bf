"""The command line: `steer-trl train`, `eval`, `compare`, `report`, `recipes` and `demo`."""
