"""What each method's settings may be, said once: the configuration and the pure functions both ask here.

A complaint is one sentence with field, value, reason and remedy. They are collected, so that a user sees all of them
at once.
"""

from collections.abc import Collection
from numbers import Real
from typing import TypeGuard

STEER_FORMS = ("paper", "released")
STEER_MAPPINGS = ("exponential", "linear", "binary")
STARE_VARIANTS = ("O1", "C2")


def refuse(complaints: list[str], subject: str) -> None:
    """Raise one `ValueError` that lists every complaint about `subject`; do nothing when there is none."""
    if complaints:
        raise ValueError("\n".join([f"{subject}: {len(complaints)} problem(s) found.", *complaints]))


def one_of(name: str, value: object, allowed: Collection[str]) -> list[str]:
    """Complain unless `value` is one of the `allowed` names."""
    if value in allowed:
        return []
    return [f"{name}={value!r} is unknown. Use one of {', '.join(map(repr, allowed))}."]


def is_number(value: object) -> TypeGuard[float]:
    """Whether `value` is a real number; `True` and `False` are not."""
    return isinstance(value, Real) and not isinstance(value, bool)


def in_interval(name: str, value: object, interval: str, why: str) -> list[str]:
    """Complain unless `value` is a number in `interval`, written as in mathematics: `"(0, 1]"`, `"[1, inf)"`."""
    low, high = (float(end) for end in interval[1:-1].split(","))
    if is_number(value):
        above = value > low if interval[0] == "(" else value >= low
        below = value < high if interval[-1] == ")" else value <= high
        if above and below:
            return []
    return [f"{name}={value!r} is refused: {why}. Give a number in {interval}."]


def steer_complaints(
    lambda_min: float,
    mapping: str,
    lambda_max: float,
    quantile: float,
    signed: bool,
    floor: float,
    prefix: str = "",
) -> list[str]:
    """Complaints about the settings of [`~steer_trl.functional.steer_weights`]; `prefix` goes before each name."""
    complaints = [
        *one_of(f"{prefix}mapping", mapping, STEER_MAPPINGS),
        *in_interval(
            f"{prefix}lambda_min",
            lambda_min,
            "(0, 1]",
            "it is the weight of the token with the largest entropy change; 1 is exactly GRPO, and 0 or less would "
            "erase the token or flip its advantage",
        ),
        *in_interval(f"{prefix}quantile", quantile, "[0, 1]", "it is a share of the tokens"),
        *in_interval(f"{prefix}floor", floor, "[0, inf)", "it is a lower bound on the largest |Omega|"),
    ]
    if mapping == "linear" and is_number(lambda_min):
        complaints += in_interval(
            f"{prefix}lambda_max",
            lambda_max,
            f"[{lambda_min}, inf)",
            f"the linear mapping falls from {prefix}lambda_max to {prefix}lambda_min",
        )
    if mapping == "exponential" and signed:
        complaints.append(
            f"{prefix}signed=True is refused with {prefix}mapping='exponential': Eq. 10 is a function of |Omega|, "
            f"so the sign would be ignored. Use {prefix}mapping='linear' or 'binary', or {prefix}signed=False."
        )
    if mapping != "exponential" and floor:
        complaints.append(
            f"{prefix}floor={floor!r} is refused with {prefix}mapping={mapping!r}: only the exponential mapping "
            f"divides by the largest |Omega|, so the floor would be ignored. Leave {prefix}floor unset."
        )
    return complaints


def stare_complaints(
    variant: str, top_fraction: float, amplify: float, attenuate: float, prefix: str = ""
) -> list[str]:
    """Complaints about the settings of [`~steer_trl.functional.stare_weights`]; `prefix` goes before each name."""
    return [
        *one_of(f"{prefix}variant", variant, STARE_VARIANTS),
        *in_interval(f"{prefix}top_fraction", top_fraction, "[0, 1]", "it is a share of the tokens; 0 selects none"),
        *amplitude_complaints(amplify, attenuate, prefix),
    ]


def amplitude_complaints(amplify: float, attenuate: float, prefix: str = "") -> list[str]:
    """Complaints about STARE's two factors W (`amplify`) and M (`attenuate`)."""
    return [
        *in_interval(f"{prefix}amplify", amplify, "[1, inf)", "W amplifies; 1 changes nothing"),
        *in_interval(
            f"{prefix}attenuate",
            attenuate,
            "(0, 1]",
            "M attenuates; 1 changes nothing, and 0 or less would erase the token or flip its advantage",
        ),
    ]


def controller_complaints(
    target_entropy: float,
    amplify: float,
    attenuate: float,
    adaptive: bool,
    step: float,
    amplify_max: float,
    attenuate_min: float,
    prefix: str = "",
) -> list[str]:
    """Complaints about the settings of [`~steer_trl.TargetEntropyController`]; `prefix` goes before each name."""
    complaints = in_interval(
        f"{prefix}target_entropy",
        target_entropy,
        "(0, inf)",
        "the gate opens when the policy entropy falls below this target, and an entropy is never negative",
    )
    if adaptive and is_number(amplify) and is_number(attenuate):
        complaints += [
            *in_interval(f"{prefix}step", step, "[0, inf)", "W and M move by this much at each rollout"),
            *in_interval(f"{prefix}amplify_max", amplify_max, f"[{amplify}, inf)", "W starts below its upper bound"),
            *in_interval(
                f"{prefix}attenuate_min", attenuate_min, f"(0, {attenuate}]", "M starts above its lower bound"
            ),
        ]
    return complaints
