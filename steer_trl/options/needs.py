"""Declares the values of other settings that a setting or a method needs.

A setting of this package declares the other settings without which it has no effect, for example with
`Setting(..., needs={"stare_adaptive": True})`. A method declares the values of TRL's settings with which it can work,
for example with `needs = TOKEN_RATIOS`.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from steer_trl.options.trl import LOSSES
from steer_trl.support.validation import is_within

UNCLIPPED = {"epsilon": 1.0, "epsilon_high": 1e9, "delta": None}
"""Settings that switch TRL's clipping off, because they allow importance ratios between 0 and a billion."""


class Need(NamedTuple):
    """The `values` of a setting that a method needs, and the reason `why`.

    With `refused`, these are instead the values that the method cannot work with.
    """

    values: tuple[Any, ...]
    why: str
    refused: bool = False


OWN_ADVANTAGES = {
    "scale_rewards": Need(("group", True), "it makes the advantages itself, so it would be ignored"),
    "multi_objective_aggregation": Need(("sum_then_normalize",), "it reads the weighted sum of the rewards"),
}
OWN_OR_UNSCALED_ADVANTAGES = OWN_ADVANTAGES | {
    "scale_rewards": OWN_ADVANTAGES["scale_rewards"]._replace(values=("group", True, "none", False))
}
TOKEN_RATIOS = {"importance_sampling_level": Need(("token",), "the tokens of a completion would share one gradient")}
SIGNS = {
    "off_policy_mask_threshold": Need((None,), "it turns the sign of single tokens, and this drops completions by it"),
    "loss_type": Need(("sapo", "vespo"), "it turns the sign of single tokens, and this loss goes by it", refused=True),
}
ALL_TOKENS = {"top_entropy_quantile": Need((1.0,), "its penalty would act on the tokens of the highest entropy only")}
OWN_LOSS = TOKEN_RATIOS | {
    "loss_type": Need(
        tuple(name for name, loss in LOSSES.items() if not loss.clips),
        "it brings a loss of its own instead of clipping",
        refused=True,
    )
}
OWN_BONUS = {
    "entropy_coef": Need((0.0,), "it sets the coefficient itself"),
    "use_adaptive_entropy": Need((False,), "it sets the coefficient itself"),
}


OWN_KL = {
    "beta": Need((0.0,), "it sets the coefficient itself"),
    "sync_ref_model": Need((False,), "the reference would not stay the initial model"),
}


def is_met(need: Any, value: Any) -> bool:
    """Return whether `value` matches `need`, which is a value, a tuple of allowed values, or an interval.

    If `value` is a list, one allowed item is enough.
    """
    if isinstance(need, str) and need[0] in "[(":
        return is_within(value, need)
    allowed = need if isinstance(need, tuple) else (need,)
    return any(item in allowed for item in (value if isinstance(value, (list, tuple)) else (value,)))


def describe_needs(needs: Mapping[str, Any]) -> str:
    """Describe all `needs` of a setting in words, such as `"stare_gate='batch'/'sample' and log_tokens"`."""
    return " and ".join(f"{name}{_describe(need)}" for name, need in needs.items())


def _describe(need: Any) -> str:
    if isinstance(need, str) and need[0] in "[(":
        return ""
    return " unset" if need is None else f"={'/'.join(map(repr, need if isinstance(need, tuple) else [need]))}"


def find_unmet(method: str, needs: Mapping[str, Need], settings: Any) -> list[str]:
    """Return a complaint about each of the `settings` that the method named `method` cannot work with."""
    return [
        f"{name}={value!r} cannot be combined with {method}: {need.why}. Leave it unset."
        for name, need in needs.items()
        if ((value := getattr(settings, name)) in need.values) is need.refused
    ]
