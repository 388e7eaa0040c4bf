"""Checks the trainer's arguments and model before training, and TRL's loss and updates in the first steps."""
