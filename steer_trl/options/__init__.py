"""The settings of a run, with their ranges and the combinations that are not allowed."""
