"""Every few optimizer steps, some groups of a rollout token by token."""
