"""Names of the folders of a demonstration."""

START, GRPO, HELD = "start", "grpo", "held"
"""The names of the three models. Each model is saved in a folder of the same name."""
TEST = "_test"
"""The folder of a model's evaluation, inside the model's folder."""
LOW_TEMPERATURE = "t0.25"
"""The folder of the test at temperature 0.25, inside `TEST`."""
