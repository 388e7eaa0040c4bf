"""Gives the reference model and reward models the weights of the main process on every process.

With FSDP and `fsdp_cpu_ram_efficient_loading`, Transformers loads weights on the main process only, and leaves zeros
on the others. Accelerate then distributes the policy's weights. TRL does not distribute those of its other models. So
the KL penalty, and the rewards on all other processes, would come from weights that are partly zero.
"""

from collections.abc import Callable
from itertools import chain
from typing import Any

from accelerate import Accelerator
from accelerate.utils import broadcast
from torch import nn
from transformers.integrations import is_fsdp_enabled

from steer_trl.trainer.trl import GRPOTrainer


def shard_with_weights_of_main(shard: Callable[..., Any], model: nn.Module, accelerator: Accelerator) -> Any:
    """Shard a reference model with TRL's function `shard`, after every process has its weights. Collective."""
    copy_from_main(model, accelerator)
    return shard(model, accelerator)


def complete_reward_models(trainer: GRPOTrainer) -> None:
    """Give the reward models of a constructed trainer their weights on every process. Collective."""
    for reward in trainer.reward_funcs:
        if isinstance(reward, nn.Module):
            copy_from_main(reward, trainer.accelerator)


def copy_from_main(model: nn.Module, accelerator: Accelerator) -> None:
    """Copy the parameters and buffers of the main process to the other processes, if those have none. Collective."""
    # Transformers calls this FSDP, and means that only the main process has loaded the weights.
    if not is_fsdp_enabled():
        return
    for tensor in chain(model.parameters(), model.buffers()):
        # The processes of GPUs exchange only what is on a GPU.
        tensor.data.copy_(broadcast(tensor.data.to(accelerator.device)))
