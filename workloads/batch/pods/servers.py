"""The servers behind the headless Service: how many are ready, and how long their queues are."""

from __future__ import annotations

import contextlib
import random
import socket
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from workloads.benchmark.pods.server_metrics import RUNNING, WAITING, Reading, ScrapeError, Server, resolve

from .window import Queues

READ_AT_ONCE = 8
"""Servers that a client reads each time; of more, others each time. Assumed: a hundred clients of a hundred servers then read each
server's page, which costs it milliseconds, less than twice a second."""
TIMEOUT_SECONDS = 5.0


class Servers:
    """The servers of one client's view. Use it from one thread."""

    def __init__(self, hosts: Sequence[tuple[str, int]], chance: random.Random) -> None:
        self._hosts, self._chance = list(hosts), chance
        self._pool = ThreadPoolExecutor(READ_AT_ONCE, thread_name_prefix="metrics")
        self.addresses: frozenset[tuple[str, int]] = frozenset()
        """Ready servers at the last look."""

    def close(self) -> None:
        """Look no more."""
        self._pool.shutdown(wait=False)

    def look(self) -> Queues:
        """Who is ready, and the queues of a sample, counted up to all of them."""
        found: set[tuple[str, int]] = set()
        for host in self._hosts:
            # A headless Service without a ready server has no address.
            with contextlib.suppress(ScrapeError):
                found.update(resolve([host]))
        sample = self._chance.sample(sorted(found), min(READ_AT_ONCE, len(found)))
        readings: list[Reading] = []
        for address, (listens, reading) in zip(sample, self._pool.map(_read, sample), strict=True):
            if not listens:
                found.discard(address)
            if reading is not None:
                readings.append(reading)
        self.addresses = frozenset(found)
        if not readings:
            return Queues(len(found))
        share = len(found) / len(readings)
        running, waiting = (
            share * sum(sum(reading.values.get(name, {}).values()) for reading in readings)
            for name in (RUNNING, WAITING)
        )
        return Queues(len(found), running, waiting, is_read=True)


def _read(address: tuple[str, int]) -> tuple[bool, Reading | None]:
    """Whether a server listens, and its figures if it tells them."""
    server = Server(*address, timeout_seconds=TIMEOUT_SECONDS)
    try:
        return True, server.read()
    except ScrapeError:
        with contextlib.suppress(OSError), socket.create_connection(address, TIMEOUT_SECONDS):
            return True, None
        return False, None
    finally:
        server.close()
