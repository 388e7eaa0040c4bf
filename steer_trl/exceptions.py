"""The errors that this package raises on purpose. Their text states what is wrong and what to do about it.

The command line prints such an error in one line (`cli/errors.py`). Any other error is a bug of ours or of a library,
and keeps its traceback. Each class is also a standard exception: `except ValueError` catches an `InvalidValueError`.
"""


class SteerError(Exception):
    """An error whose text is all that a user needs."""


class InvalidValueError(SteerError, ValueError):
    """An invalid value or combination of values."""


class InvalidTypeError(SteerError, TypeError):
    """A value of the wrong type."""


class NotThereError(SteerError, FileNotFoundError):
    """A file, a folder or a model that is not where it was expected."""


class CannotContinueError(SteerError, RuntimeError):
    """A failure outside of this package, after which it cannot continue."""


class IncompatibleVersionError(SteerError, ImportError):
    """An installed package whose version this package cannot work with."""
