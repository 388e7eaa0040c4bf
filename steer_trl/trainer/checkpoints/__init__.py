"""Checkpoints: the files that they have beside TRL's, and how a run resumes from them."""
