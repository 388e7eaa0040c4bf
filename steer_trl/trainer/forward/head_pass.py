"""Computes each token's exact entropy sensitivity with one more pass of the LM head at half the temperature.

`entropy_sensitivity_without_logits` needs log-probabilities and entropies at two temperatures. TRL's head returns them
for the configured temperature. For half of that temperature, a hook keeps the backbone's hidden states, and TRL's head
runs on them once more, without gradient. Soft caps, scales, precision and sharded weights are then handled as in TRL.
The hooks are removed after each forward pass.
"""

import math
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from accelerate.utils import is_peft_model
from torch import Tensor
from torch.utils.hooks import RemovableHandle
from transformers.modeling_outputs import BaseModelOutput
from trl.trainer.utils import add_fused_lm_head

from steer_trl.shaping.sensitivity import entropy_sensitivity_without_logits
from steer_trl.trainer.inputs import ForwardPass
from steer_trl.trainer.log.guard import ignore_failure
from steer_trl.trainer.trl import GRPOTrainer


class HeadOnly:
    """A stand-in for the model that TRL's fused head expects.

    It is given hidden states and runs no backbone.
    """

    def __init__(self, model: Any, temperature: float, cast_lm_head_to_fp32: bool) -> None:
        self.config = model.config
        self.get_output_embeddings = model.get_output_embeddings
        add_fused_lm_head(self, temperature, cast_lm_head_to_fp32, outputs=("log_probs", "entropy"))  # type: ignore[arg-type]

    def base_model(self, hidden_states: torch.FloatTensor, **_: Any) -> BaseModelOutput:
        """Return the given hidden states as a backbone's output."""
        return BaseModelOutput(last_hidden_state=hidden_states)

    def forward(self, hidden_states: Tensor, **labels: Any) -> Any:
        """Return TRL's `FusedCausalLMOutput` with `fused_lm_head=True`.

        `add_fused_lm_head` replaces this method.
        """
        raise NotImplementedError


def add_sensitivities(trainer: GRPOTrainer, forward_pass: ForwardPass, is_needed: bool) -> ForwardPass:
    """Return a version of `forward_pass` whose last output is the tokens' entropy sensitivities `[B, T]`.

    If the head cannot be run again, the sensitivities are NaN and a warning is logged. With `is_needed`, an error is
    raised instead.
    """

    def guard_head() -> AbstractContextManager[None]:
        if is_needed:
            return nullcontext()
        return ignore_failure(trainer, "The exact entropy change cannot be predicted for this model")

    def run_with_sensitivities(*args: Any, **kwargs: Any) -> tuple[Tensor | None, ...]:
        found: list[Tensor] = []
        hooks: list[RemovableHandle] = []
        with guard_head():
            hooks = _add_hooks(trainer, found, guard_head)
        try:
            outputs = forward_pass(*args, **kwargs)
        finally:
            for hook in hooks:
                hook.remove()
        sensitivities = torch.full_like(outputs[0], math.nan)
        with guard_head():
            sensitivities = _join(found, outputs[0])
        return *outputs, sensitivities

    return run_with_sensitivities


def _join(found: list[Tensor], logps: Tensor) -> Tensor:
    """Return the sensitivities `[B, T]` of a batch, joined from the chunks in which the model processed it."""
    missing = len(logps) - sum(map(len, found))
    if missing:
        raise RuntimeError(f"{missing} of {len(logps)} sequences have passed the model without its hooks")
    return torch.cat([x[:, -logps.size(1) :] for x in found])


def _add_hooks(
    trainer: GRPOTrainer, found: list[Tensor], guard_head: Callable[[], AbstractContextManager[None]]
) -> list[RemovableHandle]:
    """Add hooks that append entropy sensitivities to `found` after each pass of the policy's fused head.

    The sensitivities of b sequences of S tokens have the shape `[b, S - 1]`.
    """
    policy = trainer.accelerator.unwrap_model(trainer.model, keep_torch_compile=False)
    policy = policy.get_base_model() if is_peft_model(policy) else policy
    head = HeadOnly(policy, trainer.temperature / 2, trainer.args.cast_lm_head_to_fp32)
    hidden_states: list[Tensor] = []

    def catch(_backbone: Any, _args: Any, output: Any) -> None:
        hidden_states[:] = [output.last_hidden_state.detach()]

    @torch.no_grad()
    def score_again(_policy: Any, _args: Any, kwargs: dict[str, Any], output: Any) -> None:
        with guard_head():
            (states,) = hidden_states
            # The head alone has no routers, so the auxiliary loss of a mixture of experts comes from the first pass.
            half = head.forward(states, labels=kwargs["labels"], fused_lm_head=True, output_router_logits=False)
            found.append(
                entropy_sensitivity_without_logits(output.log_probs, output.entropy, half.log_probs, half.entropy)
            )

    # This hook must run before the hooks of FSDP and DeepSpeed, which shard the weights again.
    again = policy.register_forward_hook(score_again, with_kwargs=True, prepend=True)
    return [policy.base_model.register_forward_hook(catch), again]
