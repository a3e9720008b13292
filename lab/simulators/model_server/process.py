"""One server as a process: what `lab.simulators.model_server.processes` starts. It ends when its control connection ends.

python -m lab.simulators.model_server.process CONTROL_FD OPTIONS_AS_JSON
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import os
import resource
import socket
import sys
from collections.abc import Sequence
from typing import Any

from lab.results.clock import Clock
from lab.simulators.model_server.engine_server import EngineServer
from lab.simulators.model_server.node import Faults, Node, from_plain
from lab.simulators.model_server.processes import CONNECTION, SNAPSHOT


async def serve(control: socket.socket, options: dict[str, Any]) -> None:
    """Listen, report the address, and serve control requests until the connection ends."""
    server = EngineServer(
        from_plain(Node, options["node"]),
        faults=from_plain(Faults, options["faults"]),
        clock=Clock(options["speed"]),
    )
    await server.start(options["host"], options["port"])
    server.ready = True
    loop = asyncio.get_running_loop()
    over = asyncio.Event()
    adopting: set[asyncio.Task[None]] = set()
    control.setblocking(False)

    def hear() -> None:
        # A byte at a time: a connection comes with the byte that announces it.
        while True:
            try:
                said, files, _, _ = socket.recv_fds(control, 1, 1)
            except BlockingIOError:
                return
            except OSError:
                said, files = b"", []
            if said == CONNECTION:
                for file in files:
                    task = loop.create_task(_adopt(server, socket.socket(fileno=file)))
                    adopting.add(task)
                    task.add_done_callback(adopting.discard)
            elif said == SNAPSHOT:
                tell(server.snapshot())
            else:
                loop.remove_reader(control.fileno())
                over.set()
                return

    def tell(what: dict[str, Any]) -> None:
        control.setblocking(True)
        with contextlib.suppress(OSError):
            control.sendall(json.dumps(what).encode() + b"\n")
        control.setblocking(False)

    tell({"url": server.url})
    loop.add_reader(control.fileno(), hear)
    await over.wait()


async def _adopt(server: EngineServer, connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        await server.adopt(connection)


def main(arguments: Sequence[str]) -> None:
    """Serve until the control connection ends."""
    control = socket.socket(fileno=int(arguments[0]))
    options = json.loads(arguments[1])
    if options["cores"] and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, options["cores"])
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    # What is made by now stays; a collection shall not walk through it in the middle of a step.
    gc.freeze()
    asyncio.run(serve(control, options))
    # No client is left to read open answers.
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1:])
