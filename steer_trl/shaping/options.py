"""Where custom methods of version 0.1 import from: `steer_trl.options.base`."""

from steer_trl.options.base import ShapingConfig, choice, one_or_several, option  # noqa: F401
