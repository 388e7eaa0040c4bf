"""Checks the trainer's arguments and model before training, and TRL's loss and updates during the first steps."""
