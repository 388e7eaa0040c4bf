"""A model that `torch.compile` has compiled passes by hooks that were not there when it was compiled.

The exact sensitivities are read by hooks (`head_pass.py`), which come and go. With a compiled model they are refused
to methods and left out of the diagnostics, which estimate instead: a look that ran the model uncompiled would round
otherwise than the training, and take more memory.
"""

import logging
import os
from collections.abc import Mapping
from typing import Any

from torch._dynamo.eval_frame import OptimizedModule

from steer_trl.config import SteerGRPOConfig
from steer_trl.options.diagnostics import EVERY
from steer_trl.shaping import Shaper, reads_sensitivities
from steer_trl.validation import refuse

BACKEND = "ACCELERATE_DYNAMO_BACKEND"
logger = logging.getLogger(__name__)


def check_compiled(args: SteerGRPOConfig, shapers: Mapping[str, Shaper], model: Any) -> bool:
    """Return whether the `model` is or will be compiled; report once which diagnostics are left out then.

    Raises:
        `ValueError`: a method or a setting asks for what a compiled model cannot give.
    """
    cause = _cause(args, model)
    if cause is None:
        return False
    why = "the exact entropy change, which is read by hooks that a compiled model passes by"
    complaints = [
        f"{cause} cannot be combined with {name!r} as it is set: it needs {why}. Leave the model uncompiled, or "
        "choose a method that estimates, such as 'steer' with steer_form='paper'."
        for name, shaper in shapers.items()
        if reads_sensitivities({name: shaper})
    ]
    if args.diagnostics and args.diagnostics_steps not in (0, EVERY):
        complaints.append(
            f"diagnostics_steps={args.diagnostics_steps!r} cannot be combined with {cause}: a close look needs {why}, "
            "so it would be ignored. Leave it unset."
        )
    refuse(complaints, "SteerGRPOTrainer")
    if args.diagnostics and args.diagnostics_steps:
        logger.warning(
            "%s: there are no close looks (diagnostics_steps), which need %s. The estimated change is in the log.",
            cause,
            why,
        )
    return True


def _cause(args: SteerGRPOConfig, model: Any) -> str | None:
    """What compiles the model, as a user has set it: the configuration, the launcher, or the user's own call."""
    if args.torch_compile:
        return "torch_compile=True"
    backend = os.environ.get(BACKEND, "no")  # `accelerate launch --dynamo_backend`
    if backend.lower() not in ("", "no"):
        return f"dynamo_backend={backend!r} of accelerate"
    if isinstance(model, OptimizedModule) or getattr(model, "_compiled_call_impl", None) is not None:
        return "a compiled model"
    return None
