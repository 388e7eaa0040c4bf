"""Names of the folders of a demonstration."""

START, GRPO, HELD = "start", "grpo", "held"
"""The folders of the models. The names are also those of the models."""
TEST = "_test"
"""The folder of a model's evaluation, inside the model's folder."""
COLD = "t0.25"
"""The folder of the test at temperature 0.25, inside `TEST`."""
