"""Scripts in processes that need not load torch, Transformers and TRL: they are forked from one that has, once.

The standard library's fork server is that process; it loads modules and does nothing else, has no thread of Python's,
and is forked before torch has been given any work. Whatever a script changes dies with its process, as it does in an
interpreter of its own. `accelerate launch` reads its configuration and makes the environment of the processes as ever;
only the last step, in which it would start Python for each rank, is ours.
"""

import atexit
import multiprocessing
import os
import random
import runpy
import socket
import subprocess
import sys
from contextlib import ExitStack, suppress
from multiprocessing import connection, forkserver
from multiprocessing.process import BaseProcess, _children
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

import torch.distributed.run as torchrun
from accelerate.commands import launch

from support import ENVIRONMENT
from support.forked_children import fork_children

LOADED = ["support.uncompiled", "steer_trl.cli.evaluate", "steer_trl.cli.train", "steer_trl.demo.start_model"]
LOADED += ["support.frozen"]  # the last
LIMIT = 900  # seconds, after which something hangs

warm = multiprocessing.get_context("forkserver")
warm.set_forkserver_preload(LOADED)


def free_port():
    """Words for the launcher: a port below those that the system gives to whoever asks for any, tests beside too."""
    while True:
        port = random.SystemRandom().randrange(15_000, 32_000)
        with socket.socket() as attempt, suppress(OSError):
            attempt.bind(("127.0.0.1", port))
            return ["--main_process_port", str(port)]


def run(words, engine, folder, environment):
    """As `subprocess.run` does: `words` are a script or `-m` and a module, and their arguments."""
    ranks = [environment] if engine is None else _ranks(words, engine, environment)
    with TemporaryDirectory() as told:
        streams = Path(told, "stdout"), Path(told, "stderr")
        codes = _wait([_start(words, folder or ".", rank, streams) for rank in ranks])
        texts = [path.read_text(errors="replace") for path in streams]
    code = codes[0] if engine is None else int(any(codes))  # a launcher ends with 1
    return subprocess.CompletedProcess(words, code, *texts)


def _ranks(words, engine, environment):
    """The environment of each process that `accelerate launch` would start."""
    found = []

    def single(args):
        found.append(launch.prepare_simple_launcher_cmd_env(args)[1])

    def several(args):
        size = args.nproc_per_node
        place = {"WORLD_SIZE": size, "LOCAL_WORLD_SIZE": size}
        place |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(args.master_port)}
        found.extend(os.environ | place | {"RANK": str(i), "LOCAL_RANK": str(i)} for i in range(int(size)))

    arguments = ["--config_file", str(engine), *free_port()]
    arguments += ["--module", *words[1:]] if words[0] == "-m" else words
    with ExitStack() as stack:
        stack.enter_context(patch.dict(os.environ, environment, clear=True))
        stack.enter_context(patch.object(launch, "simple_launcher", single))
        stack.enter_context(patch.object(torchrun, "run", several))
        launch.launch_command(launch.launch_command_parser().parse_args(arguments))
    return found


def _start(words, folder, environment, streams):
    with patch.dict(os.environ, ENVIRONMENT, clear=True):  # libraries read it when they are loaded
        forkserver.ensure_running()
    return _fork(words, folder, environment, streams)


def _fork(words, folder, environment, streams):
    process = warm.Process(target=_become, args=(words, str(folder), environment, *map(str, streams)))
    process.start()
    _children.discard(process)  # else a thread that starts another reads its exit code from the one that waits
    return process


def _become(words, folder, environment, *streams):
    """Be the process that Python would have started with these words."""
    os.setsid()  # a signal to its group is none to the tests
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    for number, path in enumerate(streams, start=1):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND), number)
    module = words[0] == "-m"
    here = os.getcwd() if module else str(Path(words[0]).resolve().parent)
    sys.path[:0] = [here, *filter(None, environment.get("PYTHONPATH", "").split(os.pathsep))]
    sys.argv[:] = words[1:] if module else words
    fork_children(_fork)
    try:
        if module:
            runpy.run_module(words[1], run_name="__main__", alter_sys=True)
        else:
            runpy.run_path(words[0], run_name="__main__")
    finally:
        atexit._run_exitfuncs()  # an interpreter's last step, which multiprocessing leaves out: pools end here


def _wait(processes):
    """The exit code of each; as soon as one has failed, the others are ended, as the launcher does it."""
    running = {process.sentinel: process for process in processes}
    try:
        while running:
            ended = connection.wait(running, timeout=LIMIT)
            if not ended:
                raise TimeoutError(f"{len(running)} processes have not ended after {LIMIT} s")
            codes = [running.pop(sentinel).exitcode for sentinel in ended]
            if any(codes):
                break
    finally:
        for end in (BaseProcess.terminate, BaseProcess.kill):
            for process in running.values():
                end(process)
                process.join(30)
    return [process.exitcode for process in processes]
