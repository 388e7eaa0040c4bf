"""Checkpoints: what they hold beside TRL's files, and how a run goes on from them."""
