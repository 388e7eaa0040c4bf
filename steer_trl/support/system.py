"""Helpers that write complete files, find installed versions, import lazily and leave process groups."""

import gc
import os
import sys
from collections.abc import Callable, Iterable
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any


def write_whole(path: Path, save: Callable[[Path], Any]) -> None:
    """Write a file with `save`, so that `path` never holds an incomplete file, even after a loss of power.

    `save` writes a temporary file in the same folder. It is flushed to the disk and then renamed to `path`. If this
    fails, the temporary file is removed.
    """
    # Transformers leaves files whose names begin with _ out of a push.
    partial = path.with_name(f"_{path.name}.partial")
    try:
        save(partial)
        _flush(partial)
        os.replace(partial, path)
        _flush(path.parent)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def _flush(path: Path) -> None:
    """Flush a file, or the names in a folder, to the disk. Some file systems cannot flush folders."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError:
        if not path.is_dir():
            raise
    finally:
        os.close(descriptor)


def write_text_whole(path: Path, text: str) -> None:
    """Write a text file, so that `path` never holds an incomplete file."""
    write_whole(path, lambda partial: partial.write_text(text, encoding="utf-8"))


def find_versions(packages: Iterable[str]) -> dict[str, str]:
    """Return the version of each of the `packages` that is installed."""
    versions = {}
    for package in packages:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    return versions


def import_lazily(package: str, **homes: Iterable[str]) -> Callable[[str], Any]:
    """Return a `__getattr__` for `package` that imports a name only when it is first used.

    `homes` maps each module of the package to the names that this module defines.
    """
    home_of = {name: home for home, names in homes.items() for name in names}

    def get(name: str) -> Any:
        if name in home_of:
            return getattr(import_module(f"{package}.{home_of[name]}"), name)
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return get


def leave_group() -> None:
    """Leave torch's process group. Call it at the end of a process, when its trainer is no longer needed.

    Torch's group has threads that may still hold tensors. A thread that releases its last tensor while the interpreter
    exits aborts the process, about once in thirty runs on a busy machine (pytorch issue 190489). So this function
    destroys the group and frees everything that refers to it, which also ends the threads.
    """
    # torch is imported here, because the rest of this module does not need it.
    from torch import distributed

    gc.collect()
    if (vllm := sys.modules.get("vllm.distributed.parallel_state")) is not None:
        # Without these calls, vLLM would look for its groups when the interpreter exits, after they were destroyed.
        vllm.destroy_model_parallel()
        vllm.destroy_distributed_environment()
    if distributed.is_initialized():
        distributed.destroy_process_group()
    gc.collect()
