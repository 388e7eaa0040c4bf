"""Python imports this first in every process that has this folder on its path: all that tests start."""

import support.uncompiled  # noqa: F401
