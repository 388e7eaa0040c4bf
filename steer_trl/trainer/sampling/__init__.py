"""Dynamic sampling: which groups of a rollout are trained on, and where other prompts come from."""
