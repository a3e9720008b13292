"""All clients' results of a run, with two processes where that pays."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from typing import Final

from benchmark.merge.client_data import ClientData
from benchmark.merge.client_file import read_results
from benchmark.merge.problems import Problem

SECOND_PROCESS_PAYS: Final = 64 * 2**20
"""Bytes of results. Measured: a second process takes 0.3 s to start, and 64 MB take one process a second to read."""
WORKERS: Final = 2

Reader = Callable[[Sequence[tuple[Path, str]]], Iterator[tuple[list[ClientData], list[Problem]]]]


@contextmanager
def reader(paths: Sequence[Path]) -> Iterator[Reader]:
    """Something that reads files, given as path and shown name, in order. `paths`: all that it will be asked for."""
    size = sum(path.stat().st_size for path in paths)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if size < SECOND_PROCESS_PAYS or len(paths) < WORKERS or cores < WORKERS:
        yield lambda files: (read_results(path, shown) for path, shown in files)
        return
    # Processes of their own, not copies: this one may have threads.
    with ProcessPoolExecutor(WORKERS, mp_context=get_context("spawn")) as pool:
        try:
            yield lambda files: pool.map(_read, files)
        finally:
            pool.shutdown(cancel_futures=True)


def _read(file: tuple[Path, str]) -> tuple[list[ClientData], list[Problem]]:
    return read_results(*file)
