"""The token log: every few optimizer steps, some groups of a rollout token by token."""
