"""The smallest learning rate that half of a model's weights can register, as they are rounded: below it nothing moves.

A weight changes when it moves by half the distance to its neighbour, and Adam moves each by about the learning rate. A
weight that is trained itself is rounded after every step. An adapter trains two factors, which add up their steps from
a product of 0 on; what acts is the weight that the product is added to (as TRL merges them for vLLM), in the precision
of that weight. So it has all steps of the run to move it by.
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

TENSORS, ENTRIES = 16, 4096  # of the weights that are looked at


def smallest_step(model: nn.Module | None, args: Any, steps: int) -> float | None:
    """Return the largest learning rate that changes less than half of some weights that are trained.

    `None` where this is not known: other optimizers than Adam's, DeepSpeed, which keeps float32 copies of its own, and
    adapters of quantized weights alone.

    Args:
        model (`torch.nn.Module`, *optional*): the model at the beginning of the training, sharded or not.
        args: the arguments of its trainer.
        steps (`int`): optimizer steps of the run.
    """
    has_deepspeed = getattr(args, "deepspeed", None) or getattr(args, "deepspeed_plugin", None)
    if model is None or has_deepspeed or "adam" not in str(args.optim).lower():
        return None
    adapters = list(trained_adapters(model))
    factors = {id(factor) for _, *pair, _ in adapters for factor in pair}
    moved = [(weight, reach_of_step(a, b, scaling) * steps) for weight, a, b, scaling in adapters]
    moved += [(weight, 1.0) for weight in model.parameters() if weight.requires_grad and id(weight) not in factors]
    moved = [(weight, reach) for weight, reach in moved if weight.is_floating_point() and reach > 0]
    some = moved[:: max(1, len(moved) // TENSORS)]
    needed = [half_distance(local(weight).flatten()[:ENTRIES]).cpu() / reach for weight, reach in some]
    together = torch.cat(needed) if needed else torch.empty(0)
    return together.median().item() if len(together) else None


def trained_adapters(model: nn.Module) -> Iterator[tuple[Tensor, Tensor, Tensor, float]]:
    """Yield the weight, `A`, `B` and the scaling of each layer of PEFT's LoRA whose factors are trained."""
    layer: Any
    for layer in model.modules():
        for name, factor in getattr(layer, "lora_A", {}).items():
            a, b, weight = factor.weight, layer.lora_B[name].weight, getattr(layer.get_base_layer(), "weight", None)
            if weight is not None and (a.requires_grad or b.requires_grad):
                yield weight, a, b, layer.scaling[name]


def reach_of_step(a: Tensor, b: Tensor, scaling: float) -> float:
    """Return how far the product moves an entry of its weight if all entries of the factors move by 1, at most.

    It is the triangle inequality for the change of `scaling * B @ A`, in the mean over the entries.
    """
    return abs(scaling) * a.shape[0] * (local(a).abs().mean() + local(b).abs().mean()).item()


def half_distance(weights: Tensor) -> Tensor:
    """Return half the distance of each weight to its neighbour, float32: 0 for a weight that is 0."""
    return weights.abs().float() * torch.finfo(weights.dtype).eps / 2


def local(weight: Tensor) -> Tensor:
    """Return the weight, or of FSDP's shards this rank's, detached."""
    shard: Tensor = weight.to_local() if hasattr(weight, "to_local") else weight
    return shard.detach()
