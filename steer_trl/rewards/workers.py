"""A pool of worker processes. A process is killed when its job misses the deadline.

A thread cannot be stopped, a signal handler does not run during one long operation of the interpreter, and
math-verify's own deadline works in the main thread only. A process can be killed, and Pebble's pool replaces it.
Loky starts the processes. It does not fork, because this process may hold a GPU, threads and much memory. It does not
run the user's script a second time either, as `multiprocessing` would.

The deadline is in seconds of CPU time that the job itself uses, so that a result does not depend on the load of the
machine. A kernel timer ends the process with a signal that has no handler. A process that is stopped or blocked is
ended by a wall-clock limit, which is twenty times as long. A job that fails is tried once more while no other job
runs.

No job may take more than its worker's share of the machine's memory. A worker whose memory has grown, because
math-verify and SymPy cache their results, is replaced before its next job.
"""

import os
import signal
import sys
import weakref
from collections.abc import Callable, Iterable
from concurrent.futures import Future, TimeoutError
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from threading import Lock
from typing import Any

from loky.backend.context import get_context
from pebble import ProcessExpired, ProcessPool

from steer_trl.support.exceptions import CannotContinueError

# The lowest and the highest limit on the address space of a worker, in bytes.
MEMORY_LIMITS = 2**29, 2**32
# Bytes by which a worker's memory may grow. Growth of 11 MB is usual.
GROWTH = 2**27
# The exit code of a worker whose memory has grown by more.
OUTGROWN = 77
ATTEMPTS = 3
# Jobs per call. Each of them can take its whole deadline while no other job runs.
SECOND_TRIES = 32


class Workers:
    """A pool of processes that run `function`.

    The processes start with the first jobs. A forked or unpickled copy of the pool starts its own processes.

    Args:
        function (`Callable`): called with the arguments of each job.
        warm_up (`Callable`): called once in each new process, before any deadline runs. If it raises, so does `map`.
        num_workers (`int`): number of processes.
        timeout (`float`): seconds of CPU time that a job may take. The wall-clock limit is 20 times as long,
            and at least 60 seconds.
    """

    _pool: ProcessPool | None
    _finalizer: weakref.finalize | None

    def __init__(
        self, function: Callable[..., Any], warm_up: Callable[[], None], num_workers: int, timeout: float
    ) -> None:
        self.function, self.warm_up, self.num_workers, self.timeout = function, warm_up, num_workers, timeout
        self.wall_limit = max(60.0, 20 * timeout)
        self._forget_pool()

    def map(self, jobs: Iterable[tuple[Any, ...]]) -> list[Any]:
        """Return the result of `function` for each job. A job is a tuple of arguments.

        If a job misses its deadline or crashes its process twice, its result is a `TimeoutError` or `ProcessExpired`,
        which is not raised. No other job runs during the second try. Calls from several threads take
        turns. Raises `RuntimeError` if the processes cannot be started, or die without a job.
        """
        jobs = list(jobs)
        # After a fork, the pool's threads exist in the parent process only.
        if self._process_id != os.getpid():
            self._forget_pool()
        with self._turn:
            results = self._try(jobs)
            failed = [i for i, result in enumerate(results) if isinstance(result, FAILURES)]
            # Jobs that have not used up their CPU time come first, because they may well succeed now.
            failed.sort(key=lambda i: getattr(results[i], "exitcode", None) == -signal.SIGPROF)
            for i in failed[:SECOND_TRIES]:
                results[i : i + 1] = self._try([jobs[i]])
        return results

    def _try(self, jobs: list[tuple[Any, ...]]) -> list[Any]:
        results: dict[int, Any] = {}
        failures = 0
        while len(results) < len(jobs):
            begun_with = len(results)
            try:
                pool = self._running_pool()
                limits = self.timeout, self.wall_limit
                futures = {
                    i: pool.schedule(_run, (self.function, job, *limits), timeout=self.wall_limit)
                    for i, job in enumerate(jobs)
                    if i not in results
                }
                for i, future in futures.items():
                    result = _result_of(future)
                    # The job of an outgrown worker has not begun.
                    if getattr(result, "exitcode", None) != OUTGROWN:
                        results[i] = result
            except (BrokenProcessPool, RuntimeError) as error:
                self.stop()
                failures = 1 if len(results) > begun_with else failures + 1
                if failures == ATTEMPTS:
                    raise CannotContinueError(
                        f"the {self.num_workers} worker process(es) that score answers do not stay alive. See "
                        "their traceback above; check the free memory, and that processes can be started here."
                    ) from error
        return [results[i] for i in range(len(jobs))]

    def stop(self) -> None:
        """End the processes. The next `map` starts new ones."""
        with self._lock:
            if self._finalizer is not None and self._process_id == os.getpid():
                self._finalizer()
            self._pool = self._finalizer = None

    def _running_pool(self) -> ProcessPool:
        with self._lock:
            if self._pool is None:
                self._pool = ProcessPool(
                    self.num_workers,
                    initializer=_start,
                    initargs=(self.warm_up, memory_limit(self.num_workers)),
                    context=get_context("loky"),
                )
                self._finalizer = weakref.finalize(self, _end, self._pool)
            return self._pool

    def _forget_pool(self) -> None:
        self._pool = self._finalizer = None
        self._process_id = os.getpid()
        self._lock, self._turn = Lock(), Lock()

    def __getstate__(self) -> tuple[Any, ...]:
        return self.function, self.warm_up, self.num_workers, self.timeout

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        Workers.__init__(self, *state)


def default_num_workers() -> int:
    """Return the default number of workers, from 1 to 16.

    It is the number of cores available to this process, divided by the number of ranks on this machine.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(16, cores // _ranks_here()))


def memory_limit(num_workers: int) -> int | None:
    """Return a worker's share of half the machine's memory, in bytes and within `MEMORY_LIMITS`.

    The result is `None` except on Linux.
    """
    if sys.platform != "linux":
        return None
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    least, most = MEMORY_LIMITS
    return max(least, min(most, memory // (2 * num_workers * _ranks_here())))


def _ranks_here() -> int:
    return int(os.environ.get("LOCAL_WORLD_SIZE", 1))


FAILURES = TimeoutError, ProcessExpired


def _result_of(future: Future) -> Any:
    try:
        return future.result()
    except FAILURES as error:
        return error


def _end(pool: ProcessPool) -> None:
    pool.stop()
    pool.join()


# The functions below run in the workers.


_memory_at_start = 0


def _start(warm_up: Callable[[], None], limit: int | None) -> None:
    global _memory_at_start
    for number in (signal.SIGTERM, signal.SIGPROF, signal.SIGALRM):
        # With the default handler, a signal ends the process without waiting for the interpreter.
        signal.signal(number, signal.SIG_DFL)
    if limit is not None:
        import resource

        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (limit if hard == resource.RLIM_INFINITY else min(limit, hard), hard))
    warm_up()
    _memory_at_start = _memory()


def _memory() -> int:
    """Return the memory that this process uses, in bytes; 0 if it is unknown."""
    if sys.platform != "linux":
        return 0
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _run(function: Callable[..., Any], job: tuple[Any, ...], timeout: float, wall_limit: float) -> Any:
    if _memory() > _memory_at_start + GROWTH:
        os._exit(OUTGROWN)
    signal.setitimer(signal.ITIMER_PROF, timeout)
    # If the trainer itself was killed, it cannot kill this process, but this alarm does.
    signal.setitimer(signal.ITIMER_REAL, 2 * wall_limit)
    try:
        return function(*job)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
