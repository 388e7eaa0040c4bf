"""Checks on import that TRL has the names that this package needs. This takes milliseconds.

The versions in `TESTED` are accepted, because tests check that they behave as needed
(`tests/trainer/test_contract.py`). With any other version, a missing name is reported here instead of by a traceback
hours later. If no name is missing, a warning is logged, because TRL may still behave differently. The first step of a
training run checks whether it does (`checks/tripwire.py`).
"""

import inspect
import logging
from importlib.metadata import version
from types import CodeType

from transformers import GenerationMixin, Trainer, modeling_utils
from transformers.cache_utils import DynamicCache, DynamicLayer, DynamicSlidingWindowLayer
from trl import GRPOTrainer
from trl.trainer import grpo_trainer

from steer_trl.support.exceptions import IncompatibleVersionError

logger = logging.getLogger(__name__)

TESTED = ("1.16",)
"""Versions of TRL with which all tests have passed."""
INSTALL = "pip install 'trl>=1.16,<1.17'"

METHODS = {
    **dict.fromkeys(("_calculate_rewards", "_init_training_state", "_finish_current_push"), ""),
    **dict.fromkeys(("_generate", "_tokenize_prompts"), "prompts"),
    "_generate_and_score_completions": "inputs",
    "_get_per_token_logps_and_entropies": "model input_ids attention_mask logits_to_keep batch_size compute_entropy",
    "_generate_single_turn": "prompt_ids images multimodal_fields num_generations",
    "compute_loss": "model inputs return_outputs num_items_in_batch",
    "_compute_loss": "model inputs",
    "save_model": "output_dir _internal_call",
    "evaluation_loop": "dataloader metric_key_prefix",
    "create_model_card": "model_name dataset_name tags",
}
"""Methods of `GRPOTrainer` that this package overrides or calls, and the arguments that it passes or receives."""

ATTRIBUTES = (
    *("_step", "_buffered_inputs", "_metrics", "_pending_metrics", "_pending_extra_logs", "_tokenizer", "_logs"),
    *("_entropy_window_stats", "_current_train_step_time", "_last_loaded_step"),
    *("num_generations", "num_iterations", "reward_weights"),
    *("reward_func_names", "epsilon_low", "epsilon_high", "loss_type", "importance_sampling_level"),
    "use_transformers_continuous_batching",
    *("temperature", "use_vllm", "vllm_generation", "generation_config", "generation_kwargs", "eos_token_ids"),
    *("mask_truncated_completions", "beta"),
    *("pad_to_multiple_of", "rollout_func", "entropy_coef", "_entropy_bonus_enabled"),
    *("aux_loss_enabled", "current_gradient_accumulation_steps", "ref_model", "reward_funcs"),
)
"""Attributes of TRL's trainer that this package reads or sets."""

FUNCTIONS = ("prepare_fsdp",)
"""Functions that TRL's constructor calls and that this package takes the place of."""

OF_SOME_SETTINGS = {"vllm_generation", "_last_loaded_step", "current_gradient_accumulation_steps"}
"""Attributes that TRL's trainer has only under some settings, or only during a training."""

GENERATION: dict[type, tuple[str, ...]] = {
    GenerationMixin: (
        *("generate", "prepare_inputs_for_generation"),
        *("_update_model_kwargs_for_generation", "_optimize_model_for_decode"),
    ),
    DynamicCache: ("batch_select_indices", "get_mask_sizes", "get_seq_length"),
    DynamicLayer: ("lazy_initialization", "update", "batch_select_indices", "get_mask_sizes", "get_seq_length"),
    DynamicSlidingWindowLayer: ("lazy_initialization", "update", "get_mask_sizes", "get_seq_length"),
}
"""Methods of Transformers that the decoding loop overrides, calls or takes the place of."""


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
    """Return the names for packed rows and for the decoding loop that the installed Transformers lacks."""
    of_generation = [(owner, name) for owner, methods in GENERATION.items() for name in methods]
    broken = [f"{owner.__name__}.{name}" for owner, name in of_generation if not hasattr(owner, name)]
    generate = getattr(GenerationMixin, "generate", broken_pieces_of_transformers)
    if "custom_generate" not in inspect.signature(generate).parameters:
        broken.append("argument custom_generate of GenerationMixin.generate")
    if not hasattr(modeling_utils, "AttentionInterface") or not hasattr(modeling_utils.AttentionInterface, "register"):
        return [*broken, "AttentionInterface.register"]
    attention = modeling_utils.AttentionInterface().get("sdpa")
    if attention is None:
        return [*broken, "attention 'sdpa'"]
    names = inspect.signature(attention).parameters
    return broken + [f"argument {name} of the attention 'sdpa'" for name in ARGUMENTS if name not in names]


def broken_pieces() -> list[str]:
    """Return the names that this package needs and that the installed TRL lacks."""
    broken = [f"GRPOTrainer.{name}" for name in ("_tag_names", *METHODS) if not hasattr(GRPOTrainer, name)]
    for name, arguments in METHODS.items():
        parameters = inspect.signature(getattr(GRPOTrainer, name, broken_pieces)).parameters
        takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
        if hasattr(GRPOTrainer, name) and not takes_any:
            missing = [argument for argument in arguments.split() if argument not in parameters]
            broken += [f"argument {argument!r} of GRPOTrainer.{name}" for argument in missing]
    names = find_names(GRPOTrainer)
    broken += [f"attribute GRPOTrainer().{name}" for name in ATTRIBUTES if name not in names]
    broken += [f"function {name}" for name in FUNCTIONS if not hasattr(grpo_trainer, name)]
    return broken


def find_names(trainer_class: type) -> set[str]:
    """Return every name in the code of a trainer's class and of its parents, up to Transformers' trainer.

    The compiled code is read, because the source text may not be there, and has names in its comments.
    """
    parents = [parent for parent in trainer_class.__mro__ if parent not in Trainer.__mro__]
    members = [member for parent in parents for member in vars(parent).values()]
    functions = [getattr(member, "fget", None) or getattr(member, "__func__", member) for member in members]
    functions = [inspect.unwrap(function) for function in functions if inspect.isfunction(function)]
    codes: list[CodeType] = [function.__code__ for function in functions]
    # The list grows by the functions that are defined inside each function.
    for code in codes:
        codes += [inner for inner in code.co_consts if isinstance(inner, CodeType)]
    return {name for code in codes for name in code.co_names}


def check_attributes(trainer: GRPOTrainer) -> None:
    """Raise `ImportError` if a constructed trainer of an untested TRL lacks an attribute that this package needs.

    A name in TRL's code does not show that its constructor sets the attribute.
    """
    installed = version("trl")
    if installed.startswith(tuple(f"{tested}." for tested in TESTED)):
        return
    missing = [name for name in ATTRIBUTES if name not in OF_SOME_SETTINGS and not hasattr(trainer, name)]
    if missing:
        raise IncompatibleVersionError(
            f"steer_trl cannot work with TRL {installed}, whose trainer has no attribute {', no '.join(missing)}. It "
            f"was tested with TRL {' and '.join(TESTED)}: {INSTALL}"
        )
