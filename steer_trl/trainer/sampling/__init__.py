"""Dynamic sampling, which selects the groups of a rollout that are trained on and replaces the others."""
