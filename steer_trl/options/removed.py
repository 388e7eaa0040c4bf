"""Settings and methods that are gone, and what to use instead: the sentence that refuses each by name."""

from collections.abc import Collection

from steer_trl.validation import did_you_mean

_CONSTANTS = {
    **{"dcpo_dual_clip": 10, "entropy_advantage_kappa": 2, "entropy_change_quantile": 0.9, "grpo_s_epsilon_low": 0.2},
    **{"grpo_s_epsilon_high": 0.28, "gtpo_reward_weight": 1, "position_slope": 1, "repo_r_max_weight": 3},
}
_GAINS = ("hold_entropy_deadband", "hold_entropy_integral_gain", "hold_entropy_proportional_gain")
REMOVED = {
    **{name: f"It is {value}, which nobody has varied: leave it out." for name, value in _CONSTANTS.items()},
    **dict.fromkeys(_GAINS, "The loop's constants suit every level and method that was measured: leave it out."),
    "dcpo_smooth": "DCPO is its clipping here, with TRL's advantages: leave it out.",
    "edge_grpo_clamp": "Relative entropies have no bounds, as in the authors' code: leave it out.",
    "gtpo_normalize": "z-scores are over all tokens of a group: leave it out.",
    "gtpo_version": "It is the paper's second: leave it out.",
    "ppl_scope": "Completions are compared with those of their prompt: leave it out.",
    "stare_fixed_probability": "The paper's ablation is the method in experiments/claims/fixed_probability.py.",
    "stare_low_set": "The expected tokens are all that are not surprising: leave it out.",
    "steer_floor": "It is 0, or with steer_form='released' and the exponential mapping 0.02: leave it out.",
    "steer_scale_quantile": "The scale is the largest |Omega|, as in the paper; entropy_change has a quantile of it.",
    "overwrite_output_dir": "Remove the folder, or give another output_dir.",
    "write_card": "Metadata of a card are written by huggingface_hub's metadata_eval_result and metadata_update.",
    "diagnostics_steps": "The exact change of single tokens is in log_tokens; of an update, in experiments/claims.",
    "log_tokens_groups": "Two whole groups are written each time: leave it out.",
    "log_tokens_length": "The first 1024 tokens of a completion are written: leave it out.",
    "hold_entropy_tokens": "What is held is the mean entropy of all tokens: leave it out.",
    "hold_entropy_spends": "An entropy above the level falls by itself; hold_entropy_final lets the level fall.",
    "dynamic_sampling_exhausted": "A rollout that stays short is trained on; watch dynamic_sampling/uninformative.",
    "dynamic_sampling_solved_pass_rate": "Take solved prompts out of train_dataset instead.",
    "dynamic_sampling_variance_share": "Every group whose completions differ in correctness is trained on.",
    **dict.fromkeys(("eval_temperature", "eval_top_p"), "Use eval_samplings: papers (the default), greedy, t1, t0.5."),
}

EXAMPLES = {"rsi": "Rsi", "ucpo": "Ucpo", "entropic": "Entropic", "clip_bounds": "ClipBounds", "quadrant": "Quadrant"}
"""Methods that are files in `examples/methods/` now, and their classes."""


def of_example(name: str) -> str:
    """Return how one of the `EXAMPLES` is used."""
    return (
        f"{name!r} is now examples/methods/{name}.py: use advantage_shaping='{name}.{EXAMPLES[name]}', with its "
        "settings in shaping_options and PYTHONPATH=examples/methods (or where you copy it to) before the command."
    )


def hint(name: str, known: Collection[str]) -> str:
    """Return what to use in the place of a setting that is gone, or else which of the `known` ones it resembles."""
    if name in REMOVED:
        return f" It is gone. {REMOVED[name]}"
    example = next((method for method in EXAMPLES if name == method or name.startswith(f"{method}_")), None)
    return f" {of_example(example)}" if example else did_you_mean(name, known)
