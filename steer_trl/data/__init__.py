"""Loads math problems with checkable answers. Common data sets all get the same columns."""

from typing import TYPE_CHECKING

from steer_trl.data.sources import SOURCES, Source
from steer_trl.support.system import import_lazily

if TYPE_CHECKING:
    from steer_trl.data.loader import load_math_dataset

__all__ = ["SOURCES", "Source", "load_math_dataset"]

# Reading `SOURCES` does not import `datasets`.
__getattr__ = import_lazily(__name__, loader=("load_math_dataset",))
