"""The check that the sampling policy is the scored one (`monitoring/sampled.py`), for trainers of another class.

A callback sees the model and not the rollout. So a hook on the model reads the passes of the first optimizer step,
whose tokens the same policy has sampled: TRL gives the model `labels` of the completions' tokens, and the model
returns their log-probabilities and entropies. Where a model returns none, nothing is measured. Nor is it if the pass
lacks sampled tokens (`mask_truncated_completions`) or has others (tools).
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from steer_trl.monitoring.alarms import call_safely
from steer_trl.monitoring.sampled import estimate_gap, sum_gaps


class FirstStep:
    """Reads the passes of a model's first optimizer step."""

    def __init__(self, model: nn.Module, args: Any) -> None:
        self._vocabulary_size = model.config.get_text_config().vocab_size  # type: ignore[union-attr, operator]
        self._sums: Tensor | None = None
        self._hook = None
        if not getattr(args, "mask_truncated_completions", False):
            self._hook = model.register_forward_hook(self._read, with_kwargs=True)

    def _read(self, *arguments: Any) -> None:
        call_safely(self._add, *arguments)

    def _add(self, model: nn.Module, args: Any, inputs: Mapping[str, Any], outputs: Any) -> None:
        logps = getattr(outputs, "log_probs", None)
        entropies = getattr(outputs, "entropy", None)
        labels = inputs.get("labels")
        # Only the passes of the loss have gradients. The others are of rollouts, and have the same tokens.
        if torch.is_grad_enabled() and logps is not None and entropies is not None and labels is not None:
            # The first token has no prediction.
            is_token = labels[:, -logps.size(1) :] != -100
            sums = sum_gaps(logps.detach(), entropies.detach(), is_token)
            self._sums = sums if self._sums is None else self._sums + sums

    def end(self) -> None:
        """Stop reading: the policy has been updated."""
        if self._hook is not None:
            self._hook.remove()
            self._hook = None

    def take(self, logs: Mapping[str, Any]) -> dict[str, float]:
        """Return the numbers for the first log entry of training, which is `logs`, and nothing later."""
        sums = self._sums
        self._sums = None
        if sums is None or any(key.startswith("tools/") for key in logs):
            return {}
        total, squares, count = sums.tolist()
        gap = estimate_gap(total, squares, count, self._vocabulary_size)
        return {} if gap is None else {"sampled_as_scored": gap.mean, "sampled_as_scored/error": gap.error}
