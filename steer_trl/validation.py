"""What each method's settings may be, said once: the configuration and the pure functions both ask here.

A complaint is one sentence with field, value, reason and remedy. They are collected, so that a user sees all of them
at once.
"""

from collections.abc import Callable, Collection, Mapping
from numbers import Real
from typing import Any, TypeGuard

STEER_FORMS = ("paper", "released")
STEER_MAPPINGS = ("exponential", "linear", "binary")
STARE_OPERATIONS = (
    "amplify_high_positive",
    "attenuate_low_positive",
    "amplify_low_negative",
    "attenuate_high_negative",
)
# Of O2 and O3, public sources disagree which is which.
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
STARE_LOW_SETS = ("complement", "bottom")


def refuse(complaints: list[str], subject: str) -> None:
    """Raise one `ValueError` that lists every complaint about `subject`; do nothing when there is none."""
    if complaints:
        raise ValueError("\n".join([f"{subject}: {len(complaints)} problem(s) found.", *complaints]))


def one_of(name: str, value: object, allowed: Collection[str]) -> list[str]:
    """Complain unless `value` is one of the `allowed` names."""
    if isinstance(value, str) and value in allowed:
        return []
    return [f"{name}={value!r} is unknown. Use one of {', '.join(map(repr, allowed))}."]


def is_number(value: object) -> TypeGuard[float]:
    """Whether `value` is a real number; `True` and `False` are not."""
    return isinstance(value, Real) and not isinstance(value, bool)


def is_within(value: object, interval: str) -> bool:
    """Whether `value` is a number in `interval`, written as in mathematics: `"(0, 1]"`, `"[1, inf)"`."""
    low, high = (float(end) for end in interval[1:-1].split(","))
    if not is_number(value):
        return False
    above = value > low if interval[0] == "(" else value >= low
    below = value < high if interval[-1] == ")" else value <= high
    return above and below


def in_interval(name: str, value: object, interval: str, why: str) -> list[str]:
    """Complain unless `value` is a number in `interval`, as [`is_within`] takes it."""
    if is_within(value, interval):
        return []
    return [f"{name}={value!r} is refused: {why}. Give a number in {interval}."]


def at_least(name: str, value: object, least: int) -> list[str]:
    """Complain unless `value` is a number that is `least` or more."""
    return [] if is_number(value) and value >= least else [f"{name} must be >= {least}, got {value!r}."]


def from_state(state: object, name: str, is_valid: Callable[[Any], bool], must_be: str) -> Any:
    """Return the field `name` of a state that was read from a file.

    Raises:
        `ValueError`: it is missing or not valid; the text says what it must be, and goes after the file's name.
    """
    if not isinstance(state, Mapping):
        raise ValueError(f"the state must be a mapping with the key {name!r}, got {state!r}")
    if name not in state:
        raise ValueError(f"{name} is missing and must be {must_be}")
    if not is_valid(state[name]):
        raise ValueError(f"{name} must be {must_be}, got {state[name]!r}")
    return state[name]


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


def listed(one_or_several: str | Collection[str]) -> tuple[str, ...]:
    """The names that a field holds which takes one or several."""
    return (one_or_several,) if isinstance(one_or_several, str) else tuple(one_or_several)


def stare_operations(variant: str | Collection[str]) -> tuple[str, ...]:
    """The operations that one or several names of the paper stand for, or that are listed themselves."""
    operations = [STARE_VARIANTS.get(name, (name,)) for name in listed(variant)]
    return tuple(dict.fromkeys(operation for several in operations for operation in several))


def stare_complaints(
    variant: str | Collection[str],
    top_fraction: float,
    amplify: float,
    attenuate: float,
    low_set: str = "complement",
    fixed_probability: float | None = None,
    prefix: str = "",
) -> list[str]:
    """Complaints about the settings of [`~steer_trl.functional.stare_weights`]; `prefix` goes before each name."""
    complaints = [
        *one_of(f"{prefix}low_set", low_set, STARE_LOW_SETS),
        *in_interval(f"{prefix}top_fraction", top_fraction, "[0, 1]", "it is a share of the tokens; 0 selects none"),
        *amplitude_complaints(amplify, attenuate, prefix),
    ]
    names = listed(variant) if isinstance(variant, Collection) and variant else (variant,)
    for name in names:
        complaints += one_of(f"{prefix}variant", name, (*STARE_VARIANTS, *STARE_OPERATIONS))
    if fixed_probability is not None:
        complaints += in_interval(
            f"{prefix}fixed_probability", fixed_probability, "(0, 1)", "a token below it is surprising"
        )
        if low_set == "bottom":
            complaints.append(
                f"{prefix}low_set='bottom' is refused with {prefix}fixed_probability: without quantiles there is no "
                f"bottom. Use {prefix}low_set='complement'."
            )
    return complaints


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
