"""Errors that this package raises on purpose: their text states what is wrong and what to do about it.

The command line prints these in one line. Every other error is a mistake of ours, or a library's, and keeps its
traceback (`cli/errors.py`). Each is also the standard class that it would be without us, so that `except ValueError`
finds it.
"""


class SteerError(Exception):
    """An error whose text is all that a user needs."""


class InvalidValueError(SteerError, ValueError):
    """A value that cannot be, or not together with another."""


class InvalidTypeError(SteerError, TypeError):
    """A value of another kind than is asked for."""


class NotThereError(SteerError, FileNotFoundError):
    """A file, a folder or a model that is not where it was expected."""


class CannotContinueError(SteerError, RuntimeError):
    """Something outside of this package has gone wrong that it depends on."""


class IncompatibleVersionError(SteerError, ImportError):
    """An installed package that this one cannot work with."""
