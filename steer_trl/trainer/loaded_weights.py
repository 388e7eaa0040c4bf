"""Gives models on every process the weights that the main process has loaded.

With FSDP and `fsdp_cpu_ram_efficient_loading`, Transformers loads weights on the main process only, and leaves zeros
on the others. Accelerate distributes the policy's weights when a training begins. Nothing distributes those of TRL's
reference model and of reward models, nor the policy's for an evaluation before the training. So the KL penalty, and
the rewards and completions on all other processes, would come from weights that are partly zero.
"""

from collections.abc import Callable
from itertools import chain
from typing import Any

from accelerate import Accelerator
from accelerate.utils import broadcast
from torch import nn
from transformers.integrations import is_fsdp_enabled, is_fsdp_managed_module

from steer_trl.trainer.trl import GRPOTrainer


def shard_with_weights_of_main(shard: Callable[..., Any], model: nn.Module, accelerator: Accelerator) -> Any:
    """Shard a reference model with TRL's function `shard`, after every process has its weights. Collective."""
    copy_from_main(model, accelerator)
    return shard(model, accelerator)


def complete_frozen_models(trainer: GRPOTrainer) -> None:
    """Give the reward models and the reference model of a constructed trainer their weights. Collective."""
    for model in (trainer.ref_model, *trainer.reward_funcs):
        if isinstance(model, nn.Module):
            copy_from_main(model, trainer.accelerator)


def copy_from_main(model: nn.Module, accelerator: Accelerator) -> None:
    """Copy the parameters and buffers of the main process to the other processes, if those have none. Collective.

    A model that is sharded already has its weights.
    """
    # In Transformers, this function tells whether only the main process loads weights. Every process loads a quantized
    # model.
    if not is_fsdp_enabled() or is_fsdp_managed_module(model) or getattr(model, "is_quantized", False):
        return
    for tensor in chain(model.parameters(), model.buffers()):
        # NCCL exchanges contiguous tensors on a GPU only.
        tensor.data.copy_(broadcast(tensor.data.to(accelerator.device).contiguous()))
