"""Checks before a training run and during its first steps: arguments, compiled models, TRL's loss, updates."""
