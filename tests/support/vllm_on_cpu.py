"""vLLM's CPU build packs a layer's weights and drops them, and TRL could not put the trained ones in their place."""

from vllm import _custom_ops
from vllm.model_executor.layers import utils


def keep_weights():
    """Let layers multiply by their weights as they are, whatever this processor could do faster."""
    _custom_ops._supports_onednn = False
    utils.check_cpu_sgl_kernel = lambda *_: False  # Intel's AMX
