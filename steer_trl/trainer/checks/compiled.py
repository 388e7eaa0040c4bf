"""A model that `torch.compile` has compiled passes by hooks that were not there when it was compiled.

The exact sensitivities are read by hooks (`head_pass.py`), which come and go: a method that reads them is refused, and
the token log estimates instead.
"""

import os
from collections.abc import Mapping
from typing import Any

from torch._dynamo.eval_frame import OptimizedModule

from steer_trl.config import SteerGRPOConfig
from steer_trl.shaping import Shaper, reads_sensitivities
from steer_trl.validation import refuse

BACKEND = "ACCELERATE_DYNAMO_BACKEND"


def check_compiled(args: SteerGRPOConfig, shapers: Mapping[str, Shaper], model: Any) -> bool:
    """Return whether the `model` is or will be compiled.

    Raises:
        `ValueError`: a method asks for what a compiled model cannot give.
    """
    cause = _cause(args, model)
    if cause is None:
        return False
    complaints = [
        f"{cause} cannot be combined with {name!r} as it is set: it needs the exact entropy change, which is "
        "read by hooks that a compiled model passes by. Leave the model uncompiled, or choose a method that "
        "estimates, such as 'steer' with steer_form='paper'."
        for name, shaper in shapers.items()
        if reads_sensitivities({name: shaper})
    ]
    refuse(complaints, "SteerGRPOTrainer")
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
