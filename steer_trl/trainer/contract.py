"""Checks on import that TRL has the names that this package needs. This takes milliseconds.

The versions in `TESTED` are accepted, because tests check that they behave as needed
(`tests/trainer/test_contract.py`). With any other version, a missing name is reported here instead of by a traceback
hours later. If no name is missing, a warning is logged, because TRL may still behave differently. The first step of a
training run checks whether it does (`checks/tripwire.py`).
"""

import inspect
import logging
import re
from importlib.metadata import version

from transformers import Trainer, modeling_utils
from trl import GRPOTrainer

from steer_trl.exceptions import IncompatibleVersionError

logger = logging.getLogger(__name__)

TESTED = ("1.16",)
"""Versions of TRL with which all tests have passed."""
INSTALL = "pip install 'trl>=1.16,<1.17'"

METHODS = (
    *("_calculate_rewards", "_init_training_state", "_finish_current_push", "_generate", "_tokenize_prompts"),
    *("_generate_and_score_completions", "_get_per_token_logps_and_entropies", "_generate_single_turn"),
    *("compute_loss", "save_model", "evaluation_loop", "create_model_card"),
)
"""Methods of `GRPOTrainer` that this package overrides or calls."""

ATTRIBUTES = (
    *("_step", "_buffered_inputs", "_metrics", "_pending_metrics", "_pending_extra_logs", "_tokenizer"),
    *("_entropy_window_stats", "_current_train_step_time", "num_generations", "num_iterations", "reward_weights"),
    *("reward_func_names", "epsilon_low", "epsilon_high", "loss_type", "importance_sampling_level"),
    *("temperature", "use_vllm", "vllm_generation", "generation_config", "generation_kwargs", "eos_token_ids"),
    "mask_truncated_completions",
    *("pad_to_multiple_of", "rollout_func", "entropy_coef", "_entropy_bonus_enabled"),
    *("aux_loss_enabled", "current_gradient_accumulation_steps", "ref_model"),
)
"""Attributes of TRL's trainer that this package reads or sets."""


ARGUMENTS = ("scaling", "dropout", "is_causal")
"""Arguments of Transformers' `sdpa` attention that the packed row passes to it."""


def check_trl(installed: str | None = None) -> None:
    """Check that the `installed` version of TRL has everything that this package needs, unless it was tested.

    Raises `ImportError` with the missing names. If there are none, a warning is logged.
    """
    if broken := broken_pieces_of_transformers():
        raise IncompatibleVersionError(
            f"steer_trl cannot work with Transformers {version('transformers')}, which has no {', no '.join(broken)}: "
            "pip install 'transformers>=5.17,<5.25'"
        )
    installed = version("trl") if installed is None else installed
    if installed.startswith(tuple(f"{tested}." for tested in TESTED)):
        return
    tested = " and ".join(TESTED)
    if broken := broken_pieces():
        raise IncompatibleVersionError(
            f"steer_trl cannot work with TRL {installed}, which has no {', no '.join(broken)}. It was tested with TRL "
            f"{tested}: {INSTALL}"
        )
    logger.warning(
        "steer_trl was tested with TRL %s, and %s is installed. What it overrides and reads of a trainer is there by "
        "name; the first step of a training checks that the token weights arrive. For a tested version: %s",
        *(tested, installed, INSTALL),
    )


def broken_pieces_of_transformers() -> list[str]:
    """Return the names for the attention of packed rows that the installed Transformers lacks."""
    if not hasattr(modeling_utils, "AttentionInterface") or not hasattr(modeling_utils.AttentionInterface, "register"):
        return ["AttentionInterface.register"]
    attention = modeling_utils.AttentionInterface().get("sdpa")
    if attention is None:
        return ["attention 'sdpa'"]
    names = inspect.signature(attention).parameters
    return [f"argument {name} of the attention 'sdpa'" for name in ARGUMENTS if name not in names]


def broken_pieces() -> list[str]:
    """Return the names that this package needs and that the installed TRL lacks."""
    broken = [f"GRPOTrainer.{name}" for name in ("_tag_names", *METHODS) if not hasattr(GRPOTrainer, name)]
    parents = [parent for parent in GRPOTrainer.__mro__ if parent not in Trainer.__mro__]
    names = set(re.findall(r"\w+", "".join(map(inspect.getsource, parents))))
    broken += [f"attribute GRPOTrainer().{name}" for name in ATTRIBUTES if name not in names]
    return broken
