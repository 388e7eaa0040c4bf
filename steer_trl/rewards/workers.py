"""Processes that do a job each, within a deadline, and are killed when they miss it.

A thread cannot be stopped, a signal's handler is not run inside one long operation of the interpreter, and
math-verify's own deadline exists in the main thread only. A process can be killed. Pebble's pool replaces it then.
Loky starts the processes: not by forking (this process may hold a GPU, threads and much memory), and not by running
the user's script a second time, as `multiprocessing` would.

The deadline counts the seconds of CPU time that the job itself has used, by the kernel's timer of the process, whose
signal nobody handles: a result does not depend on what else the machine is doing. A limit of wall-clock time, twenty
times as wide, is there for a process that is stopped or blocked. What fails is tried once more when no other job runs.

No job may take more than its worker's share of the machine's memory. A worker that has grown (math-verify and SymPy
cache what they compute) is replaced before its next job.
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

from steer_trl.exceptions import CannotContinueError

MEMORY_LIMITS = 2**29, 2**32  # bytes of address space a worker may take, at least and at most
GROWTH = 2**27  # bytes a worker may hold on to between jobs; 11 MB are usual
OUTGROWN = 77  # exit code of a worker that holds more
ATTEMPTS = 3
SECOND_TRIES = 32  # of a call's jobs at most: each may take its whole deadline, and nothing else runs meanwhile


class Workers:
    """A pool that runs one `function`; it starts with the first jobs, and again in a forked or unpickled copy.

    Args:
        warm_up (`Callable`): called once in each new process, before any deadline runs; if it raises, so does `map`.
        num_workers (`int`): processes.
        timeout (`float`): seconds of CPU time a job may take; of wall-clock time 20 times as many, at least 60.
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
        """Return the function's result for each job's arguments; `TimeoutError` or `ProcessExpired`, not raised, for
        a job that missed its deadline or crashed its process, twice: the second time no other job was running.

        Calls from several threads take turns. `RuntimeError`: the processes cannot be started, or die without a job.
        """
        jobs = list(jobs)
        if self._process_id != os.getpid():  # after a fork the pool's threads are not here
            self._forget_pool()
        with self._turn:
            results = self._try(jobs)
            failed = [i for i, result in enumerate(results) if isinstance(result, FAILURES)]
            # Those that have not used their CPU time may well succeed now.
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
                    if getattr(result, "exitcode", None) != OUTGROWN:  # else the job has not begun
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
        """End the processes; the next `map` starts new ones."""
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
    """The cores this process may use, shared with the other ranks of the machine; at least 1, at most 16."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(16, cores // _ranks_here()))


def memory_limit(num_workers: int) -> int | None:
    """Bytes a worker may take: its share of half the machine's memory, within `MEMORY_LIMITS`; on Linux only."""
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


# In the workers.


_memory_at_start = 0


def _start(warm_up: Callable[[], None], limit: int | None) -> None:
    global _memory_at_start
    for number in (signal.SIGTERM, signal.SIGPROF, signal.SIGALRM):
        signal.signal(number, signal.SIG_DFL)  # die at once, not when the interpreter gets round to it
    if limit is not None:
        import resource

        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (limit if hard == resource.RLIM_INFINITY else min(limit, hard), hard))
    warm_up()
    _memory_at_start = _memory()


def _memory() -> int:
    """Bytes of this process in memory; 0 where it is unknown."""
    if sys.platform != "linux":
        return 0
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _run(function: Callable[..., Any], job: tuple[Any, ...], timeout: float, wall_limit: float) -> Any:
    if _memory() > _memory_at_start + GROWTH:
        os._exit(OUTGROWN)
    signal.setitimer(signal.ITIMER_PROF, timeout)
    # If nobody is left to kill this process, because the trainer itself was killed, the alarm does.
    signal.setitimer(signal.ITIMER_REAL, 2 * wall_limit)
    try:
        return function(*job)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
