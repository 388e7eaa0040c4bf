"""The errors that this package raises on purpose. Their text states what is wrong and what to do about it.

The command line prints such an error without its traceback (`cli/errors.py`). Each class is also a subclass of a
standard exception, so `except ValueError` catches an `InvalidValueError`.
"""


class SteerError(Exception):
    """Base class of errors whose text tells a user what is wrong and what to do."""


class InvalidValueError(SteerError, ValueError):
    """An invalid value or combination of values."""


class InvalidTypeError(SteerError, TypeError):
    """A value of the wrong type."""


class NotThereError(SteerError, FileNotFoundError):
    """A missing file, folder or model."""


class CannotContinueError(SteerError, RuntimeError):
    """A failure outside this package, such as a full disk, after which the run cannot continue."""


class IncompatibleVersionError(SteerError, ImportError):
    """An installed package whose version this package cannot work with."""
