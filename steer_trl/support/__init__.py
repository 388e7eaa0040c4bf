"""Shared helpers: checks of values, errors, files and processes, secrets, random numbers."""
