"""A model server on loopback that streams completions and notes what it was asked, for clients of the real vLLM."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from workloads.benchmark.pods.bench_client import prompt_hash


@dataclass
class Asked:
    """One request as it came."""

    at: float
    body: dict[str, Any]


@dataclass
class StreamingServer:
    """What the server was asked; `chunk_seconds` lie between two tokens of an answer."""

    url: str = ""
    chunk_seconds: float = 0.002
    asked: list[Asked] = field(default_factory=list)
    in_flight: int = 0
    peak: int = 0

    async def complete(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        self.asked.append(Asked(time.time(), body))
        self.in_flight += 1
        self.peak = max(self.peak, self.in_flight)
        # Every answer begins with what names its prompt, so that a list of answers tells its order.
        texts = [f" t{number}" if number else prompt_hash(body["prompt"]) for number in range(body["max_tokens"])]
        counts = {"completion_tokens": body["max_tokens"], "prompt_tokens": 1}
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for text in texts:
            await asyncio.sleep(self.chunk_seconds)
            chunk = {"choices": [{"index": 0, "text": text}]}
            await response.write(f"data: {json.dumps(chunk)}\n\n".encode())
        self.in_flight -= 1
        usage = {"choices": [], "usage": counts}
        await response.write(f"data: {json.dumps(usage)}\n\ndata: [DONE]\n\n".encode())
        return response

    async def metrics(self, _: web.Request) -> web.Response:
        text = f'vllm:num_requests_running{{engine="0",model_name="m"}} {self.in_flight}.0\n'
        return web.Response(text=text + 'vllm:num_requests_waiting{engine="0",model_name="m"} 0.0\n')

    async def models(self, _: web.Request) -> web.Response:
        return web.json_response({"data": [{"id": "the/model"}]})


@contextmanager
def streaming_server(**how: Any) -> Iterator[StreamingServer]:
    """The server, running in a thread of its own."""
    server, ready, loop = StreamingServer(**how), threading.Event(), asyncio.new_event_loop()
    done = asyncio.Event()

    async def serve() -> None:
        app = web.Application(client_max_size=1 << 24)
        app.router.add_post("/v1/completions", server.complete)
        app.router.add_get("/metrics", server.metrics)
        app.router.add_get("/v1/models", server.models)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        server.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        ready.set()
        await done.wait()
        await runner.cleanup()

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()))
    thread.start()
    ready.wait(10)
    try:
        yield server
    finally:
        loop.call_soon_threadsafe(done.set)
        thread.join()
        loop.close()
