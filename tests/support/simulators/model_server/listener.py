"""Base of the simulated servers: listens on loopback, counts requests, and shuts down gracefully or immediately."""

from __future__ import annotations

import asyncio
import itertools
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    # Not at the top: `fleet rehearse --list` needs no package of a rehearsal.
    from aiohttp import web

    from tests.support.simulators.clock import Clock

LOOPBACK: Final = "127.0.0.1"
BACKLOG: Final = 1024
"""Listen backlog: enough for a thousand clients that connect at once."""
_CLEANUP_WALL_SECONDS: Final = 0.05
"""What aiohttp waits for its own bookkeeping when a server closes; every connection is already cut by then."""
_LARGEST_BODY_BYTES: Final = 64 * 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """Requests of a server at its shutdown."""

    in_flight: int
    """In flight when the shutdown began."""
    accepted_late: int
    """Accepted after the shutdown began."""
    cut: int
    """Aborted requests among those in flight."""
    cut_late: int
    """Aborted requests among those accepted later."""

    @property
    def share_cut(self) -> float:
        """Aborted share of the requests in flight; 0 without requests."""
        return self.cut / self.in_flight if self.in_flight else 0.0


class Listener(ABC):
    """A server on a loopback port. Start and stop it in the same event loop."""

    def __init__(self, clock: Clock) -> None:
        """Until `ready` is set, /health returns 503."""
        self.clock = clock
        self.ready = False
        self.url = ""
        self.accepted = 0
        """Requests accepted since the start."""
        self._created = int(time.time())
        self._ids = itertools.count(1)
        self._open: dict[int, web.Request] = {}
        self._cut_off: set[int] = set()
        self._over = False
        self._idle = asyncio.Event()
        self._idle.set()
        self._runner: web.AppRunner | None = None
        self._listening: asyncio.Server | None = None

    @abstractmethod
    def _routes(self) -> Sequence[web.RouteDef]:
        """Routes."""

    async def start(self, host: str = LOOPBACK, port: int = 0) -> str:
        """Listen; port 0 chooses a free one. Returns the URL without a path."""
        from aiohttp import web

        app = web.Application(client_max_size=_LARGEST_BODY_BYTES)
        app.add_routes(self._routes())
        # Cancelled with the client's connection, as vLLM aborts an abandoned request.
        self._runner = web.AppRunner(
            app,
            access_log=None,
            handle_signals=False,
            handler_cancellation=True,
            shutdown_timeout=_CLEANUP_WALL_SECONDS,
        )
        await self._runner.setup()
        assert self._runner.server is not None
        loop = asyncio.get_running_loop()
        self._listening = await loop.create_server(self._runner.server, host, port, backlog=BACKLOG)
        host, port = self._listening.sockets[0].getsockname()[:2]
        self.url = f"http://{host}:{port}"
        return self.url

    async def stop_accepting(self) -> None:
        """Refuse new connections; keep open ones."""
        if self._listening is None:
            return
        listening, self._listening = self._listening, None
        loop = asyncio.get_running_loop()
        # What the kernel has taken by now is taken here too: a busy machine shall not refuse what a server would answer.
        for _ in range(2):
            await asyncio.sleep(0)
        for one in listening.sockets:
            loop.remove_reader(one.fileno())
        # A connection that the loop has taken and not yet handed over when its server closes is never closed (asyncio of
        # Python 3.11): its client would wait until its own time-out. One turn hands it over.
        await asyncio.sleep(0)
        listening.close()

    async def cut(self) -> None:
        """Stop immediately: abort every open request."""
        self._over = True
        self._cut_off |= set(self._open)
        await self.stop_accepting()
        for request in list(self._open.values()):
            if request.transport is not None:
                request.transport.abort()
        if self._runner is not None:
            runner, self._runner = self._runner, None
            await runner.cleanup()

    async def drain(self, *, accept_seconds: float = 0.0, finish_seconds: float = 0.0) -> Ending:
        """End in order: go on for `accept_seconds`, then refuse what is new and let what is open finish for
        `finish_seconds`, then cut. Both in simulated seconds. Returns what became of the requests.
        """
        began_with, before = set(self._open), self.accepted
        await asyncio.sleep(self.clock.wall_seconds(accept_seconds))
        await self.stop_accepting()
        try:
            async with asyncio.timeout(self.clock.wall_seconds(finish_seconds)):
                await self._idle.wait()
        except TimeoutError:
            pass
        await self.cut()
        lost = self._cut_off
        return Ending(
            in_flight=len(began_with),
            accepted_late=self.accepted - before,
            cut=len(lost & began_with),
            cut_late=len(lost - began_with),
        )

    @property
    def in_flight(self) -> int:
        """Requests in flight."""
        return len(self._open)

    # For those that answer

    @contextmanager
    def _taken(self, request: web.Request) -> Iterator[int]:
        """Track a request until its end; yields its number."""
        id_ = next(self._ids)
        self.accepted += 1
        self._open[id_] = request
        self._idle.clear()
        try:
            yield id_
        finally:
            del self._open[id_]
            if not self._open:
                self._idle.set()

    def _refuse_after_the_end(self, request: web.Request) -> bool:
        """Whether the server is over; then the connection is cut: the kernel had taken it before the port was closed."""
        if self._over and request.transport is not None:
            request.transport.abort()
        return self._over

    async def _health(self, _: web.Request) -> web.Response:
        from aiohttp import web

        return web.Response(status=200 if self.ready else 503)
