"""Callbacks that work only with `SteerGRPOTrainer`. They print lines on the terminal and write model cards."""
