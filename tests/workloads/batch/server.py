"""A server of vLLM's API as a process: python -m tests.workloads.batch.server OPTIONS_AS_JSON. Several may listen on one port.

It ends when its standard input does.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import sys
import threading
from typing import Any

CRASH, POISON, RESET, REFUSED = "crash", "poison", "reset", "refused"
"""Words of a prompt: the server ends; HTTP 500; the connection is cut; HTTP 400."""
READY = b"ready\n"


class Server:
    """`seconds` a document on average, `at_once` of them; `faults`: shares of answers by status, "0" cuts the connection."""

    def __init__(
        self,
        port: int,
        *,
        seconds: float = 0.01,
        at_once: int = 64,
        faults: dict[str, float] | None = None,
        key: str = "",
    ) -> None:
        self._port, self._seconds, self._key, self._faults = port, seconds, key, faults or {}
        self._gate, self._chance = asyncio.Semaphore(at_once), random.Random()

    async def run(self) -> None:
        """Serve for ever."""
        server = await asyncio.start_server(
            self._answer, "127.0.0.1", self._port, limit=2**26, backlog=4096, reuse_port=True
        )
        os.write(1, READY)
        async with server:
            await server.serve_forever()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:])}
            body = await reader.readexactly(int(headers.get("content-length", 0)))
            status, said = await self._said(json.loads(body), headers.get("authorization", ""))
            if not status:
                writer.transport.abort()
                return
            content = json.dumps(said).encode()
            writer.write(f"HTTP/1.1 {status} X\r\nContent-Length: {len(content)}\r\n\r\n".encode() + content)
            await writer.drain()
        writer.close()

    async def _said(self, asked: dict[str, Any], key: str) -> tuple[int, Any]:
        if self._key and key != f"Bearer {self._key}":
            return 401, {"error": {"message": "Unauthorized"}}
        prompt = asked["messages"][-1]["content"]
        async with self._gate:
            await asyncio.sleep(self._seconds * self._chance.uniform(0.5, 1.5))
        if CRASH in prompt:
            os._exit(1)
        if REFUSED in prompt:
            return 400, {"error": {"message": "too long"}}
        drawn = self._chance.random()
        for status, share in self._faults.items():
            drawn -= share
            if drawn < 0:
                return int(status), {"error": {"message": "made to fail"}}
        if POISON in prompt:
            return 500, {"error": {"message": "poison"}}
        usage = {"prompt_tokens": 10, "completion_tokens": 20}
        message = {"role": "assistant", "content": f"of {prompt} " * 20}
        return (0 if RESET in prompt else 200), {"id": "x", "choices": [{"message": message}], "usage": usage}


def _end_with_input() -> None:
    while os.read(0, 1):
        pass
    os._exit(0)


if __name__ == "__main__":
    threading.Thread(target=_end_with_input, daemon=True).start()
    asyncio.run(Server(**json.loads(sys.argv[1])).run())
