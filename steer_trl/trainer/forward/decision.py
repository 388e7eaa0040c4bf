"""Decides whether the model runs without padding, and how.

*Packed*: one row without any padding (`packed.py`), if the attention is PyTorch's (`sdpa`). *Joined*: rows that are
moved to the left (`joined.py`), for flash and flex attention, because nobody has run the packed row with them. Models
that would compute something else keep TRL's padded pass, and one line of the log gives the reason.

The first pass of each training is compared with TRL's (`check.py`), also after a resume.
"""

import logging
from functools import cached_property, partial
from typing import Any

from torch import nn
from transformers import ProcessorMixin

from steer_trl.generation.adapters import reads_rows
from steer_trl.trainer.forward.attention import attend_in_blocks, wrap_attention
from steer_trl.trainer.forward.check import find_fault
from steer_trl.trainer.forward.cost import Cost
from steer_trl.trainer.forward.joined import run_joined
from steer_trl.trainer.forward.packed import run_packed
from steer_trl.trainer.inputs import ForwardPass, PassInputs
from steer_trl.trainer.trl import GRPOTrainer

logger = logging.getLogger(__name__)

PACKED = {"sdpa": attend_in_blocks}
"""The functions that compute packed rows, by the name of Transformers' attention implementation."""
ALWAYS = Cost(hidden_size=2**30)
"""The cost in a model so wide that each prompt is computed once."""
NEVER = Cost(hidden_size=0)
"""The cost in a model without layers, where sharing a prompt only adds to the attention."""


class Padding:
    """Runs forward passes. They have no padding if `is_skipped` is true."""

    def __init__(self, trainer: GRPOTrainer, is_wanted: bool, is_compiled: bool) -> None:
        self._trainer = trainer
        self._is_wanted = is_wanted
        self._is_compiled = is_compiled
        self.begin_training()

    def begin_training(self) -> None:
        """Forget the comparison with TRL's pass, so that the next pass is compared again."""
        self._is_checked = False
        self._is_wrong = False

    @property
    def is_skipped(self) -> bool:
        """Whether forward passes run without padding. The value is the same on every rank."""
        return self._is_wanted and self._is_possible and not self._is_wrong

    @property
    def is_packed(self) -> bool:
        """Whether a pass is one row, in which completions may share their prompt."""
        return self.is_skipped and self._is_packable

    @property
    def could_pack(self) -> bool:
        """Whether a pass could be one row, before a comparison with TRL's pass. Nothing is logged or changed."""
        return self._find_reason() is None and self._implementations <= PACKED.keys()

    @cached_property
    def cost(self) -> Cost:
        """The cost of a pass of the policy."""
        return Cost(self._trainer.model.config.get_text_config().hidden_size)

    @cached_property
    def _is_packable(self) -> bool:
        names = self._implementations
        if not names <= PACKED.keys():
            return False
        for name in names:
            wrap_attention(name, PACKED[name])
        return True

    @property
    def _implementations(self) -> set[str]:
        """The names of the attention of the policy and of the reference model."""
        models = [model for model in (self._trainer.model, self._trainer.ref_model) if model is not None]
        # DeepSpeed wraps the reference model, and the wrapper's `config` is DeepSpeed's.
        configs = [getattr(model, "module", model).config for model in models]
        return {config.get_text_config()._attn_implementation for config in configs}

    @cached_property
    def _is_possible(self) -> bool:
        """Whether padding can be skipped for this model and its inputs. If not, the reason is logged once."""
        reason = self._find_reason()
        if reason is not None:
            logger.warning("skip_padding: padding stays, since %s.", reason)
        return reason is None

    def _find_reason(self) -> str | None:
        """Return why padding must stay; `None` if it may be skipped."""
        trainer = self._trainer
        if self._is_compiled:
            return "a compiled model would be compiled anew for each length"
        if isinstance(trainer.processing_class, ProcessorMixin):
            return "images cannot be packed"
        if trainer.aux_loss_enabled:
            return "the auxiliary loss of a router reads the padded rows"
        if reads_rows(trainer.accelerator.unwrap_model(trainer.model)):
            return "an adapter other than LoRA may depend on where a row stands"
        if trainer.args.neftune_noise_alpha is not None:
            return "the noise of neftune_noise_alpha depends on the width of a pass"
        if "eager" in self._implementations:
            return "attn_implementation is eager, which cannot be told where rows begin"
        return _find_reason_of_model(trainer.model)

    def forward(self, forward_pass: ForwardPass, model: Any, inputs: PassInputs) -> tuple[Any, ...]:
        """Return the outputs of `forward_pass`.

        If padding is skipped, the outputs `[B, T]` are 0 for padding tokens.
        """
        if self.is_skipped and not self._is_checked:
            self._check(forward_pass, inputs)
        if self.is_skipped:
            return self._run(forward_pass, model, inputs, self.cost)
        return forward_pass(model, **inputs)

    def _run(self, forward_pass: ForwardPass, model: Any, inputs: PassInputs, cost: Cost) -> tuple[Any, ...]:
        multiple = self._trainer.pad_to_multiple_of
        if self.is_packed:
            return run_packed(forward_pass, model, inputs, cost, multiple)
        return run_joined(forward_pass, model, inputs, multiple)

    def _check(self, forward_pass: ForwardPass, inputs: PassInputs) -> None:
        """Compare log-probabilities computed without padding with those of TRL's padded pass. Collective."""
        passes = [partial(self._run, cost=cost) for cost in (ALWAYS, NEVER)]
        fault = find_fault(self._trainer, forward_pass, inputs, passes if self.is_packed else passes[:1])
        if fault == "":
            return
        self._is_checked = True
        self._is_wrong = fault is not None
        if self._is_wrong:
            logger.warning("skip_padding: padding stays, since %s.", fault)


def _find_reason_of_model(model: Any) -> str | None:
    """Return why the model depends on more than the distances between the tokens of a row; `None` if it does not."""
    text = model.config.get_text_config()
    kinds = {*(getattr(text, "layer_types", None) or []), *(getattr(text, "layers_block_type", None) or [])}
    others = kinds - {"full_attention", "sliding_attention"}
    if others:
        return f"this model has layers of the type {', '.join(sorted(others))}"
    if any(isinstance(module, nn.modules.conv._ConvNd) for module in model.modules()):
        return "this model has convolutions, which run across the rows"
    if getattr(text, "attention_chunk_size", None):
        return "this model's attention has chunks"
    rope = getattr(text, "rope_parameters", None)
    if not rope:
        return "this model has no rotary positions, so it depends on where its tokens are"
    # Some models have parameters for each kind of layer.
    rotations = [rotation for rotation in (rope, *rope.values()) if isinstance(rotation, dict)]
    for rotation in rotations:
        if rotation.get("rope_type") in ("dynamic", "longrope"):
            return f"the positions of this model ({rotation['rope_type']}) depend on the length of a pass"
        # Ministral 3 scales its queries by absolute position.
        if rotation.get("llama_4_scaling_beta"):
            return "this model's queries depend on where its tokens are"
    return None
