"""The variants of STARE, and the operations that each consists of.

The settings, the method and the report read this table. This module imports nothing heavy.
"""

from collections.abc import Collection

from steer_trl.support.validation import as_tuple

STARE_VARIANTS = {
    "O1": ("amplify_high_positive",),
    "O2": ("attenuate_low_positive",),
    "O3": ("amplify_low_negative",),
    "O4": ("attenuate_high_negative",),
    "C1": ("amplify_high_positive", "amplify_low_negative"),
    "C2": ("amplify_high_positive", "attenuate_high_negative"),
    "C3": ("attenuate_low_positive", "amplify_low_negative"),
    "C4": ("attenuate_low_positive", "attenuate_high_negative"),
}
STARE_OPERATIONS = tuple(operation for name in ("O1", "O2", "O3", "O4") for operation in STARE_VARIANTS[name])
NAMES = (*STARE_VARIANTS, *STARE_OPERATIONS)


def stare_operations(variant: str | Collection[str]) -> tuple[str, ...]:
    """Return the operations of one or several variants. A variant is a name from the paper or an operation."""
    operations = [STARE_VARIANTS.get(name, (name,)) for name in as_tuple(variant)]
    return tuple(dict.fromkeys(operation for several in operations for operation in several))


def amplifies(variant: str | Collection[str]) -> bool:
    """Return whether an operation of one or several variants multiplies advantages by W."""
    return any(operation.startswith("amplify") for operation in stare_operations(variant))


def attenuates(variant: str | Collection[str]) -> bool:
    """Return whether an operation of one or several variants multiplies advantages by M."""
    return any(operation.startswith("attenuate") for operation in stare_operations(variant))


AMPLIFYING = tuple(filter(amplifies, NAMES))
ATTENUATING = tuple(filter(attenuates, NAMES))
