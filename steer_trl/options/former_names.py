"""The former names of settings: a table of their successors, and how a configuration applies it.

This module imports nothing heavy, because the command line reads the table before it imports TRL.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

from steer_trl.support.validation import refuse


class Successor(NamedTuple):
    """The `setting` that replaced a former one.

    If the value is an option of a method in that setting, `option` is the method and the name of the option, and the
    former name is refused. Otherwise its value is taken, with a note. If `has_other_unit` is true, the former name is
    still a setting of its own, because its value means something else.
    """

    setting: str
    option: tuple[str, str] | None = None
    has_other_unit: bool = False


FORMER_NAMES = {
    "clip_cov_fraction": Successor("shaping_options", ("clip_cov", "fraction")),
    "clip_cov_lower": Successor("shaping_options", ("clip_cov", "lower")),
    "clip_cov_upper": Successor("shaping_options", ("clip_cov", "upper")),
    "dcpo_epsilon_high": Successor("shaping_options", ("dcpo", "epsilon_high")),
    "dcpo_epsilon_low": Successor("shaping_options", ("dcpo", "epsilon_low")),
    "dynamic_sampling_reward": Successor("correct_reward"),
    "entropy_advantage_alpha": Successor("shaping_options", ("entropy_advantage", "alpha")),
    "entropy_bonus_coef": Successor("shaping_options", ("entropy_bonus", "coef")),
    "entropy_change_strength": Successor("shaping_options", ("entropy_change", "strength")),
    "f_grpo_gamma": Successor("shaping_options", ("f_grpo", "gamma")),
    "fork_tokens_fraction": Successor("shaping_options", ("fork_tokens", "fraction")),
    "gtpo_entropy_weight": Successor("shaping_options", ("gtpo", "entropy_weight")),
    "hold_entropy_decay_start": Successor("hold_entropy_until", has_other_unit=True),
    "kl_cov_coef": Successor("shaping_options", ("kl_cov", "coef")),
    "kl_cov_fraction": Successor("shaping_options", ("kl_cov", "fraction")),
    "position_gamma": Successor("shaping_options", ("position", "gamma")),
    "ppl_alpha": Successor("shaping_options", ("ppl", "alpha")),
    "repo_r_zeta": Successor("shaping_options", ("repo_r", "zeta")),
    "stare_amplify_max": Successor("shaping_options", ("stare", "amplify_max")),
    "stare_attenuate_min": Successor("shaping_options", ("stare", "attenuate_min")),
    "stare_step": Successor("shaping_options", ("stare", "step")),
    "steer_lambda_max": Successor("shaping_options", ("steer", "lambda_max")),
    "steer_quantile": Successor("shaping_options", ("steer", "quantile")),
    "steer_signed": Successor("shaping_options", ("steer", "signed")),
    "unlikelihood_beta": Successor("shaping_options", ("unlikelihood", "beta")),
    "w_reinforce_positive": Successor("shaping_options", ("w_reinforce", "positive")),
}
"""Maps each former name of a setting to what replaced it."""


def find_present_name(name: str) -> str:
    """Return the present name of a setting whose value is taken under its former name, and otherwise `name`."""
    successor = FORMER_NAMES.get(name)
    if successor is None or successor.option is not None or successor.has_other_unit:
        return name
    return successor.setting


def former_complaints(names: Iterable[str]) -> list[str]:
    """Return a complaint about each former setting in `names` that is refused, with the new place of its value."""
    complaints = []
    for name in sorted(set(names) & FORMER_NAMES.keys()):
        successor = FORMER_NAMES[name]
        if successor.option is not None:
            method, option = successor.option
            complaints.append(
                f"{name} is now an option of {method!r}: set {successor.setting}={{{method!r}: {{{option!r}: ...}}}}."
            )
    return complaints


def take_former_values(config: Any) -> list[str]:
    """Give each setting of a configuration the value under its former name. Return a note about each.

    Raises `ValueError` if a setting has different values under its two names.
    """
    notes = []
    complaints = []
    for name in FORMER_NAMES:
        new = find_present_name(name)
        value = None if new == name else getattr(config, name)
        if value is None:
            continue
        if getattr(config, new) not in (None, value):
            complaints.append(f"{name}={value!r} is the former name of {new}={getattr(config, new)!r}. Leave it out.")
        notes.append(f"{name} is now called {new}: write {new}={value!r}.")
        setattr(config, new, value)
        setattr(config, name, None)
    refuse(complaints, "SteerGRPOConfig")
    return notes
