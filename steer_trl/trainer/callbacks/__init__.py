"""Callbacks that work only with `SteerGRPOTrainer`: lines on the terminal, and model cards of saved folders."""
