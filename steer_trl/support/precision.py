"""Double precision where a device has it."""

from torch import Tensor


def to_double(x: Tensor) -> Tensor:
    """Return a tensor in float64. Apple's devices have no float64, so there it is moved to the host."""
    return (x.cpu() if x.device.type == "mps" else x).double()
