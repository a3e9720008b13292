"""Runs an asyncio server in a thread, for synchronous code."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tests.support.simulators.model_server.engine_server import EngineServer

_START_SECONDS = 10.0


@contextmanager
def serving(make: Callable[[], EngineServer], *, ready: bool = True) -> Iterator[EngineServer]:
    """Start the server that `make` builds; stop it at the end of the block. Raises errors of `make`."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="model-server", daemon=True)
    thread.start()

    async def start() -> EngineServer:
        server = make()
        await server.start()
        server.ready = ready
        return server

    try:
        server = asyncio.run_coroutine_threadsafe(start(), loop).result(_START_SECONDS)
        try:
            yield server
        finally:
            asyncio.run_coroutine_threadsafe(_end(server), loop).result(_START_SECONDS)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(_START_SECONDS)
        loop.close()


async def _end(server: EngineServer) -> None:
    await server.cut()
    left = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)
    # Sockets close a turn after they end.
    await asyncio.sleep(0.01)
