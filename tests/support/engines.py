"""Engines as they are on GPUs, for CPU processes and tiny models."""

from accelerate.state import AcceleratorState, PartialState
from accelerate.utils import DeepSpeedPlugin, DistributedType


def let_fsdp_run_on_cpu():
    """Accelerate takes FSDP for granted on GPUs only, and would train on CPU with plain DDP without a word."""
    initialize = AcceleratorState.__init__

    def with_fsdp(self, *args, fsdp_plugin=None, **kwargs):
        initialize(self, *args, fsdp_plugin=fsdp_plugin, **kwargs)
        if fsdp_plugin is not None and self.distributed_type == DistributedType.MULTI_CPU:
            self.distributed_type = PartialState._shared_state["distributed_type"] = DistributedType.FSDP
            self.fsdp_plugin = fsdp_plugin

    AcceleratorState.__init__ = with_fsdp


def let_zero3_shard_small_parameters():
    """DeepSpeed leaves a parameter of fewer than 100,000 numbers whole on every rank: all of a tiny model's."""
    prepare = DeepSpeedPlugin.__post_init__

    def with_sharding(self):
        prepare(self)
        self.hf_ds_config.config["zero_optimization"]["stage3_param_persistence_threshold"] = 0

    DeepSpeedPlugin.__post_init__ = with_sharding
