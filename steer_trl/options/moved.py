"""Former settings of single methods, which are options in `shaping_options` now. This module imports nothing heavy."""

from collections.abc import Iterable

MOVED = {
    "clip_cov_fraction": ("clip_cov", "fraction"),
    "clip_cov_lower": ("clip_cov", "lower"),
    "clip_cov_upper": ("clip_cov", "upper"),
    "dcpo_epsilon_high": ("dcpo", "epsilon_high"),
    "dcpo_epsilon_low": ("dcpo", "epsilon_low"),
    "entropy_advantage_alpha": ("entropy_advantage", "alpha"),
    "entropy_bonus_coef": ("entropy_bonus", "coef"),
    "entropy_change_strength": ("entropy_change", "strength"),
    "f_grpo_gamma": ("f_grpo", "gamma"),
    "fork_tokens_fraction": ("fork_tokens", "fraction"),
    "gtpo_entropy_weight": ("gtpo", "entropy_weight"),
    "kl_cov_coef": ("kl_cov", "coef"),
    "kl_cov_fraction": ("kl_cov", "fraction"),
    "position_gamma": ("position", "gamma"),
    "ppl_alpha": ("ppl", "alpha"),
    "repo_r_zeta": ("repo_r", "zeta"),
    "stare_amplify_max": ("stare", "amplify_max"),
    "stare_attenuate_min": ("stare", "attenuate_min"),
    "stare_step": ("stare", "step"),
    "steer_lambda_max": ("steer", "lambda_max"),
    "steer_quantile": ("steer", "quantile"),
    "steer_signed": ("steer", "signed"),
    "unlikelihood_beta": ("unlikelihood", "beta"),
    "w_reinforce_positive": ("w_reinforce", "positive"),
}
"""Maps each former setting to a method and the name of its option."""


def moved_complaints(names: Iterable[str]) -> list[str]:
    """Return a complaint about each former setting in `names`, with its new place."""
    complaints = []
    for name in sorted(set(names) & MOVED.keys()):
        method, option = MOVED[name]
        complaints.append(
            f"{name} is now an option of {method!r}: set shaping_options={{{method!r}: {{{option!r}: ...}}}}."
        )
    return complaints
