"""Decides whether Transformers' `generate` runs the decoding loop of this package (`generation/`) or its own.

TRL calls `generate` of the policy. During this call the policy has a method `generate` of its own, which passes the
loop on. Nothing stays on the policy afterwards. If the loop refuses, `generate` is called again as TRL did.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any

from accelerate.utils import is_peft_model
from transformers import ProcessorMixin
from transformers.integrations import is_deepspeed_zero3_enabled

from steer_trl.generation.adapters import reads_rows
from steer_trl.generation.faster import decode_or_generate, has_own_generate
from steer_trl.trainer.trl import GRPOTrainer, is_overridden

logger = logging.getLogger(__name__)

OWN_GENERATE = "the model has a method generate of its own"


class Generation:
    """Lets `generate` run the decoding loop of this package if `is_wanted` is true.

    Nothing is changed with vLLM, paged generation or a `rollout_func`, which do not call `generate`, or only for
    purposes of their own.
    """

    def __init__(self, trainer: GRPOTrainer, is_wanted: bool, is_compiled: bool) -> None:
        self._trainer = trainer
        self._is_wanted = is_wanted
        self._is_compiled = is_compiled
        self._reported: set[str] = set()

    @contextmanager
    def decode_faster(self) -> Iterator[None]:
        """Replace the loop of the policy's `generate` inside the `with` block.

        The completions are the same, except for rounding.
        """
        trainer = self._trainer
        has_engine = trainer.use_vllm or trainer.use_transformers_continuous_batching or trainer.rollout_func
        if has_engine or not self._is_wanted or not self._is_possible:
            yield
            return
        policy: Any = trainer.accelerator.unwrap_model(trainer.model_wrapped)
        # A user may put a method on the model at any time, and `del` below would remove it.
        if has_own_generate(policy):
            self._report(OWN_GENERATE)
            yield
            return
        generate = policy.generate

        def generate_faster(*args: Any, **kwargs: Any) -> Any:
            return decode_or_generate(generate, *args, report=self._report, **kwargs)

        policy.generate = generate_faster
        try:
            yield
        finally:
            del policy.generate

    @cached_property
    def _is_possible(self) -> bool:
        """Whether the loop can run for this trainer and its model. If not, the reason is reported once."""
        trainer = self._trainer
        policy: Any = trainer.accelerator.unwrap_model(trainer.model_wrapped)
        base = policy.get_base_model() if is_peft_model(policy) else policy
        if self._is_compiled:
            reason = "a compiled model would be compiled anew for each number of rows"
        elif is_deepspeed_zero3_enabled() or trainer.is_fsdp_enabled or getattr(base, "tp_size", None):
            reason = "all processes must compute equally many tokens if they share the model"
        elif isinstance(trainer.processing_class, ProcessorMixin):
            reason = "images belong to rows of a batch"
        elif is_overridden(trainer, "_generate_single_turn"):
            reason = "a subclass replaces _generate_single_turn"
        elif has_own_generate(policy):
            reason = OWN_GENERATE
        elif reads_rows(policy):
            reason = "an adapter other than LoRA may depend on where a row stands"
        elif trainer.args.neftune_noise_alpha is not None:
            reason = "neftune_noise_alpha adds noise of its own to each row"
        else:
            return True
        self._report(reason)
        return False

    def _report(self, reason: str) -> None:
        """Log once that `generate` runs its own loop, and why."""
        if reason not in self._reported and self._trainer.is_world_process_zero():
            logger.warning("skip_padding: Transformers generates with its own loop, since %s.", reason)
        self._reported.add(reason)
