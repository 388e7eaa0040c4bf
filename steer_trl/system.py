"""The machine: files that a killed run leaves whole or not at all, installed versions, the process, late imports."""

import gc
import os
import sys
from collections.abc import Callable, Iterable
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any


def write_whole(path: Path, save: Callable[[Path], Any]) -> None:
    """Let `save` write a file beside `path`, then put it in its place; what fails leaves nothing behind."""
    partial = path.with_name(f"_{path.name}.partial")  # Transformers leaves what begins with _ out of a push
    try:
        save(partial)
        os.replace(partial, path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def installed(packages: Iterable[str]) -> dict[str, str]:
    """Return the version of each of the `packages` that is installed."""
    found = {}
    for package in packages:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def lazily(package: str, **homes: Iterable[str]) -> Callable[[str], Any]:
    """Return the `__getattr__` of a `package` that imports each name, from the module that is its home, when asked."""
    home_of = {name: home for home, names in homes.items() for name in names}

    def get(name: str) -> Any:
        if name in home_of:
            return getattr(import_module(f"{package}.{home_of[name]}"), name)
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return get


def leave_group() -> None:
    """Leave the process group; the last thing a process does, when nobody needs its trainer any more.

    Torch's group has threads that may still hold tensors. One that lets go of its last while the interpreter ends
    aborts the process, about once in thirty runs on a busy machine (pytorch issue 190489). So all that holds the group
    is collected here, and its threads end with it.
    """
    from torch import distributed  # not needed to read or write a file

    gc.collect()
    if (vllm := sys.modules.get("vllm.distributed.parallel_state")) is not None:
        vllm.destroy_model_parallel()  # else it looks for its own groups when the interpreter ends, in vain
        vllm.destroy_distributed_environment()
    if distributed.is_initialized():
        distributed.destroy_process_group()
    gc.collect()
