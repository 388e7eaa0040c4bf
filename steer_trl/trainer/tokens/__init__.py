"""The token log: an export of some groups of a rollout, token by token, every few optimizer steps."""
