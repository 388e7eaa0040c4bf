"""The variants of STARE, and the operations that each consists of.

The settings, the method and the report read this table. This module imports nothing heavy.
"""

from collections.abc import Collection

from steer_trl.support.validation import as_tuple

STARE_OPERATIONS = (
    "amplify_high_positive",
    "attenuate_low_positive",
    "amplify_low_negative",
    "attenuate_high_negative",
)
STARE_VARIANTS = {
    "O1": STARE_OPERATIONS[:1],
    "O2": STARE_OPERATIONS[1:2],
    "O3": STARE_OPERATIONS[2:3],
    "O4": STARE_OPERATIONS[3:],
    "C1": (STARE_OPERATIONS[0], STARE_OPERATIONS[2]),
    "C2": (STARE_OPERATIONS[0], STARE_OPERATIONS[3]),
    "C3": (STARE_OPERATIONS[1], STARE_OPERATIONS[2]),
    "C4": (STARE_OPERATIONS[1], STARE_OPERATIONS[3]),
}
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
