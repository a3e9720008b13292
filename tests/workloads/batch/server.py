"""A simulated server as a process of its own, to be killed: on a port that all servers share, and on one of its own for its metrics.

python -m tests.workloads.batch.server OPTIONS_AS_JSON

The kernel spreads connections over the processes that listen on the shared port. It ends when its standard input does.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import sys
import threading
from typing import Any, Final

from lab.results.clock import Clock
from lab.simulators.model_server.engine_server import EngineServer
from lab.simulators.model_server.listener import BACKLOG, LOOPBACK
from lab.simulators.model_server.node import Faults, Node, from_plain

READY: Final = "ready"


def shared_socket(port: int) -> socket.socket:
    """A socket on a port that several processes listen on."""
    shared = socket.socket()
    shared.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    shared.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    shared.bind((LOOPBACK, port))
    return shared


async def serve(options: dict[str, Any]) -> None:
    """Serve for ever."""
    server = EngineServer(
        from_plain(Node, options["node"]), faults=from_plain(Faults, options["faults"]), clock=Clock(options["speed"])
    )
    await server.start(LOOPBACK, options["port"])
    server.ready = True
    with shared_socket(options["shared_port"]) as shared:
        shared.listen(BACKLOG)
        shared.setblocking(False)
        sys.stdout.write(f"{READY}\n")
        sys.stdout.flush()
        loop = asyncio.get_running_loop()
        while True:
            connection, _ = await loop.sock_accept(shared)
            with contextlib.suppress(OSError):
                await server.adopt(connection)


def _end_with_input() -> None:
    while os.read(0, 1):
        pass
    os._exit(0)


if __name__ == "__main__":
    threading.Thread(target=_end_with_input, daemon=True).start()
    asyncio.run(serve(json.loads(sys.argv[1])))
