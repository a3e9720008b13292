"""How many requests a client has in flight: what the servers' queues allow, and next to none while no server answers."""

from __future__ import annotations

import random
from dataclasses import dataclass

from .times import Times

FIRST = 16
"""Requests in flight before a queue was read. Assumed: one engine answers as many at once on any GPU."""
LEAST = 4
MOST = 2_048
"""Threads of a client. Source: 2,000 requests in flight for each server is what the article's record had."""
FEW_WAITING = 1.0
"""Waiting requests of a server below which it can take more."""
MANY_WAITING = 0.1
"""Waiting requests for each running one above which a server has too many: they wait longer and raise nothing."""
SPARE_WAITING = 8.0
"""Waiting requests of a server that are never too many: they bridge the time between two readings."""


@dataclass(frozen=True)
class Queues:
    """The servers' queues at one moment, over all of them."""

    servers: int
    """Ready servers."""
    running: float = 0.0
    waiting: float = 0.0
    is_read: bool = False
    """Whether any server told its queue."""


class Window:
    """The most requests in flight of one client. Not thread-safe.

    Doubles until something waits, then follows in small steps, until there are more servers.
    """

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._limit = float(min(FIRST, most))
        self._has_met_a_queue = False
        self._servers = 0

    @property
    def limit(self) -> int:
        """Requests that may be in flight."""
        return int(self._limit)

    def adapt(self, queues: Queues, in_flight: int) -> None:
        """Follow the servers' queues. `in_flight`: most requests of this client since the last call."""
        if queues.servers > self._servers:
            self._has_met_a_queue = False
        self._servers = queues.servers
        if not queues.is_read or not queues.servers:
            return
        if queues.waiting > MANY_WAITING * queues.running + SPARE_WAITING * queues.servers:
            self.shrink()
        elif queues.waiting < FEW_WAITING * queues.servers and in_flight >= 0.9 * self.limit:
            # What is not used says nothing about more.
            self._set(max(self._limit + 2, self._limit * (1.05 if self._has_met_a_queue else 2)))

    def shrink(self) -> None:
        """A queue is too long, or a router's is full."""
        self._has_met_a_queue = True
        self._set(self._limit * 0.8)

    def _set(self, limit: float) -> None:
        self._limit = min(max(limit, min(LEAST, self._most)), self._most)


class Gate:
    """Closes while servers fail: the next request then goes out after a pause that grows, alone, until one is answered.

    A fleet that fails is told from a document that does by this: between failures of a document other requests are answered.
    Not thread-safe.
    """

    def __init__(self, times: Times, chance: random.Random) -> None:
        self._times, self._chance = times, chance
        self._opens = self._noted = 0.0
        self._failures = 0

    @property
    def is_closed(self) -> bool:
        """Whether the last answer of any request was a failure."""
        return self._failures > 0

    def enter(self, now: float) -> float:
        """Seconds to wait before the next request; 0: it may go out."""
        if now < self._opens:
            return self._opens - now
        if self._failures:
            self._opens = now + self._pause()
        return 0.0

    def failed(self, now: float, began: float) -> None:
        """A request that began at `began` failed for a reason of the servers. Those in flight together are one failure."""
        if not self._failures or began >= self._noted:
            self._failures += 1
            self._noted, self._opens = now, now + self._pause()

    def answered(self) -> None:
        """A server answered."""
        self._failures, self._opens = 0, 0.0

    def _pause(self) -> float:
        longest = self._times.longest_pause
        pause = min(longest, self._times.pause * 2.0 ** min(self._failures - 1, 20))
        # Clients that were refused together come back apart.
        return pause * self._chance.uniform(0.5, 1.0)
