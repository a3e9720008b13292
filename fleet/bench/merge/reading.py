"""Read all clients' results of a run, in two processes where that is faster."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import get_context, parent_process
from pathlib import Path
from threading import Thread
from typing import Final

from fleet.bench.errors import BenchmarkError
from fleet.bench.merge.client_data import ClientData
from fleet.bench.merge.client_file import read_results
from fleet.bench.merge.problems import Problem

SECOND_PROCESS_PAYS: Final = 64 * 2**20
"""Bytes of results. Measured: a second process takes 0.3 s to start, and 64 MB take one process a second to read."""
WORKERS: Final = 2

Reader = Callable[[Sequence[tuple[Path, str]]], Iterator[tuple[list[ClientData], list[Problem]]]]


@contextmanager
def reader(paths: Sequence[Path]) -> Iterator[Reader]:
    """A function that reads files, given as path and shown name, in order. `paths`: all files that it will read.

    Raises BenchmarkError when one of the processes that read is ended by something else.
    """
    size = sum(path.stat().st_size for path in paths)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if size < SECOND_PROCESS_PAYS or len(paths) < WORKERS or cores < WORKERS:
        yield lambda files: (read_results(path, shown) for path, shown in files)
        return
    # Spawned, not forked: this process may have threads.
    with ProcessPoolExecutor(WORKERS, mp_context=get_context("spawn"), initializer=_end_with_parent) as pool:

        def read(files: Sequence[tuple[Path, str]]) -> Iterator[tuple[list[ClientData], list[Problem]]]:
            with _deaf_children():
                return pool.map(_read, files)

        try:
            yield read
        except BrokenProcessPool:
            raise BenchmarkError(
                "a process that reads the clients' results was killed, most likely because memory ran out; merge on a larger machine, or "
                "one run at a time (pass its folder)"
            ) from None
        finally:
            pool.shutdown(cancel_futures=True)


@contextmanager
def _deaf_children() -> Iterator[None]:
    """Block SIGINT in processes started within: this process ends them on Ctrl-C."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _end_with_parent() -> None:
    """In a reading process: end when the parent ends in any way; the pool would wait forever."""
    parent = parent_process()

    def end() -> None:
        if parent is not None:
            parent.join()
            os._exit(1)

    Thread(target=end, daemon=True).start()


def _read(file: tuple[Path, str]) -> tuple[list[ClientData], list[Problem]]:
    return read_results(*file)
