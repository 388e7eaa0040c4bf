"""Settings with which `hold_entropy` cannot work."""

from collections.abc import Mapping
from typing import Any

from steer_trl.options.base import ShapingConfig
from steer_trl.support.validation import check_interval


def hold_conflicts(methods: Mapping[str, Any], args: ShapingConfig) -> list[str]:
    """Return complaints if `hold_entropy` is set and cannot work with the `methods` or other settings.

    `methods` maps names to the classes of methods, which have a `control` as in `actuator.py`.
    """
    if args.hold_entropy is None:
        return []
    complaints = _path_conflicts(args)
    if args.hold_entropy_unit == "initial":
        why = "it is a multiple of the entropy that the run begins with, unless hold_entropy_unit='nats'"
        complaints += check_interval("hold_entropy", args.hold_entropy, "(0, 2]", why)
    able = [name for name, method in methods.items() if method.control is not None]
    if len(able) != 1:
        complaints.append(
            f"hold_entropy={args.hold_entropy!r} moves the strength of one method, and of those in "
            f"advantage_shaping={args.advantage_shaping!r} {len(able) or 'none'} can be moved. Name "
            "one of them in hold_entropy_by, and leave the others out."
        )
    return complaints


def _path_conflicts(args: ShapingConfig) -> list[str]:
    """Return complaints about a final target above the level, a release set twice, or a final target never used."""
    complaints = []
    final = args.hold_entropy_final
    if final is not None:
        why = "the target can only fall; to begin higher, raise hold_entropy"
        complaints += check_interval("hold_entropy_final", final, f"[0, {args.hold_entropy}]", why)
    if args.hold_entropy_until is not None and args.hold_entropy_decay_start is not None:
        complaints.append(
            f"hold_entropy_until={args.hold_entropy_until!r} cannot be combined with hold_entropy_decay_start="
            f"{args.hold_entropy_decay_start!r}: both set when the target begins to fall, the first as a share of the "
            "learning, the second as a share of the run. Leave one unset."
        )
    for name in ("hold_entropy_until", "hold_entropy_decay_start"):
        share = getattr(args, name)
        if final is not None and share == 1:
            complaints.append(
                f"hold_entropy_final={final!r} cannot be combined with {name}={share!r}: the target never falls, so "
                "it would be ignored. Leave one unset."
            )
    return complaints
