"""Compares the log-probabilities of a pass without padding with those of TRL's padded pass.

The check does not depend on what a rollout happens to hold. It takes some rows, gives every second row the prompt of
the row before it, and adds columns of padding itself. Then the model runs four times without gradients:

    padded             as TRL runs it
    moved              the same with more padding, so each token has another position
    shared, separate   without padding; prompts are computed once, or once for each completion

Two padded passes differ only by rounding if the model reads distances between tokens alone. The passes without padding
may differ from the padded one by a little more than that.
"""

import logging
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from steer_trl.support.randomness import keep_random_state
from steer_trl.trainer.inputs import ForwardPass, PassInputs, take_rows
from steer_trl.trainer.trl import GRPOTrainer

logger = logging.getLogger(__name__)

COLUMNS = 8
"""The number of columns of padding that the check adds."""
MEAN_FACTOR = 4
"""How many times the rounding of two padded passes a difference may be on average."""
LARGEST_FACTOR = 10
"""How many times the largest rounding of two padded passes the largest difference may be."""


def make_case(inputs: PassInputs, size: int) -> PassInputs:
    """Return at most `size` rows of a forward pass, but at least two.

    Every second row has the prompt of the row before it. The completions have
    different lengths, the longest among them.
    """
    width = inputs["logits_to_keep"]
    lengths = inputs["attention_mask"][:, -width:].sum(1)
    order = lengths.argsort(descending=True, stable=True)
    size = max(min(size, len(order)), 1)
    chosen = order[torch.linspace(0, len(order) - 1, size, device=order.device).long()]
    case = take_rows(inputs, chosen if size > 1 else chosen.repeat(2)) | {"batch_size": None}
    for name in ("input_ids", "attention_mask"):
        x = case[name].clone()
        pairs = x.size(0) // 2 * 2
        x[1:pairs:2, :-width] = x[0:pairs:2, :-width]
        case[name] = x
    return case


def move(case: PassInputs) -> PassInputs:
    """Return the same rows with more padding on the left."""
    added = {name: torch.nn.functional.pad(case[name], (COLUMNS, 0)) for name in ("input_ids", "attention_mask")}
    return case | added


@torch.no_grad()
def find_fault(
    trainer: GRPOTrainer,
    forward_pass: ForwardPass,
    inputs: PassInputs,
    passes: Sequence[Callable[[ForwardPass, Any, PassInputs], tuple[Any, ...]]],
) -> str | None:
    """Return why the `passes` without padding may not replace TRL's `forward_pass`, or `None` if they may. Collective.

    The result is an empty string if no rank has a completion, so that nothing could be compared.
    """
    model = trainer.model
    accelerator = trainer.accelerator
    case = make_case(inputs, trainer.args.per_device_train_batch_size)
    is_token = case["attention_mask"][:, -case["logits_to_keep"] :].bool()
    error: Exception | None = None
    others: list[Tensor] = []
    was_training = model.training
    # Dropout is off, because it would differ between the passes.
    model.eval()
    with keep_random_state(accelerator.device):
        padded = forward_pass(model, **case)[0].float()
        moved = forward_pass(model, **move(case))[0].float()
        try:
            others = [run(forward_pass, model, case)[0].float() for run in passes]
        except Exception as raised:
            error = raised
    model.train(was_training)

    numbers = [is_token.sum().float(), torch.where(is_token, padded, 0.0).abs().max()]
    numbers += _measure(padded, [moved], is_token) + _measure(padded, others, is_token)
    found = accelerator.gather(torch.stack([*numbers, torch.full_like(numbers[0], error is not None)])[None])
    # Each of these has one number for each rank.
    tokens, scale, total, largest, other_total, other_largest, failed = found.T.tolist()
    count = sum(tokens)
    if not count:
        return ""
    if any(failed):
        return f"without it the model cannot run ({error or 'on another process'})"
    # The comparisons are negated, so that NaN counts as a fault.
    noise = sum(total) / count
    if not noise <= math.sqrt(_precision(trainer)):
        return f"moved tokens change this model's log-probabilities by {noise:.2g} nats per token"
    least = 4 * torch.finfo(torch.float32).eps * (1 + max(scale))
    mean = sum(other_total) / count
    is_rounding = mean <= MEAN_FACTOR * noise + least
    is_rounding &= max(other_largest) <= LARGEST_FACTOR * (max(largest) + least)
    if not is_rounding:
        return (
            f"without it this model's log-probabilities differ by {mean:.2g} nats per token, which is more than "
            f"rounding ({noise:.2g})"
        )
    return None


def _measure(padded: Tensor, others: Sequence[Tensor], is_token: Tensor) -> list[Tensor]:
    """Return the largest sum over tokens and the largest value of the others' differences from `padded`."""
    differences = [torch.where(is_token, (padded - other), 0.0).abs() for other in others]
    if not differences:
        return [padded.new_zeros(()), padded.new_zeros(())]
    return [
        torch.stack([x.sum() for x in differences]).max(),
        torch.stack([x.max() for x in differences]).max(),
    ]


def _precision(trainer: GRPOTrainer) -> float:
    of_mixed = {"bf16": torch.bfloat16, "fp16": torch.float16}
    return torch.finfo(of_mixed.get(trainer.accelerator.mixed_precision, trainer.model.dtype)).eps
