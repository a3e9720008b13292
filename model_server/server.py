"""An OpenAI-compatible server that keeps a node's time and computes nothing: what stands for a vLLM pod on loopback.

It runs in the event loop that starts it; many of them share one loop. Nothing here knows of Kubernetes.
"""

from __future__ import annotations

import asyncio
import itertools
import math
import time
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from model_server import answers
from model_server.answers import Api, Asked, BadRequestError, ChunkWriter

if TYPE_CHECKING:
    from aiohttp import web

    from model_server.clock import Clock
    from model_server.timing import ServerTiming

LOOPBACK: Final = "127.0.0.1"
LEAST_CHUNK_WALL_SECONDS: Final = 0.1
"""Chunks of one answer come no closer than this on the wall: on a fast clock several tokens share one.
Assumed: ten a second are enough to see where an answer was cut; at 60 times, an answer of 24 s then has four."""
_BACKLOG: Final = 128
"""Connections that the kernel holds until they are taken; more than arrive in a turn of the loop."""
_CLEANUP_WALL_SECONDS: Final = 0.05
"""What aiohttp waits for its own bookkeeping when a server closes; every connection is already cut by then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """What became of a server's requests when it was stopped."""

    in_flight: int
    """Accepted and not answered when the end began."""
    accepted_late: int
    """Accepted after the end began."""
    cut: int
    """Of those in flight when the end began, how many were cut off."""
    cut_late: int
    """Of those accepted later, how many were cut off."""

    @property
    def share_cut(self) -> float:
        """Share of the requests in flight that were cut off; 0 where there were none."""
        return self.cut / self.in_flight if self.in_flight else 0.0


class ModelServer:
    """One server on one port of loopback. Start and stop it in the same event loop."""

    def __init__(
        self,
        *,
        model: str,
        timing: ServerTiming,
        clock: Clock,
        least_chunk_wall_seconds: float = LEAST_CHUNK_WALL_SECONDS,
    ) -> None:
        """Not ready until `ready` is set: /health answers 503, as nothing answers before vLLM's engines are up."""
        self.model, self.timing, self.clock = model, timing, clock
        self.ready = False
        self.url = ""
        self.accepted = 0
        """Requests taken, ever."""
        self.finished = Counter[str]()
        """Requests that ended, by reason: `length` when answered, `abort` when the client went or the server cut."""
        self.prompt_tokens = 0
        self.generated_tokens = 0
        self._step = _tokens_per_chunk(timing, clock, least_chunk_wall_seconds)
        self._created = int(time.time())
        self._ids = itertools.count(1)
        self._open: dict[int, web.Request] = {}
        self._cut_off: set[int] = set()
        self._over = False
        self._running = 0
        self._turns = asyncio.Semaphore(timing.running_limit) if timing.running_limit else None
        self._idle = asyncio.Event()
        self._idle.set()
        self._runner: web.AppRunner | None = None
        self._listening: asyncio.Server | None = None

    # Life

    async def start(self, host: str = LOOPBACK, port: int = 0) -> str:
        """Listen; port 0 is any free one. Returns the URL, without a path."""
        from aiohttp import web

        app = web.Application(client_max_size=64 * 2**20)
        app.add_routes(
            [
                web.get("/health", self._health),
                web.get("/v1/models", self._models),
                web.get("/metrics", self._metrics),
                web.post("/v1/completions", self._completions),
                web.post("/v1/chat/completions", self._chat),
            ]
        )
        # Cancelled with the client's connection, as vLLM aborts a request that nobody waits for.
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
        self._listening = await loop.create_server(self._runner.server, host, port, backlog=_BACKLOG)
        host, port = self._listening.sockets[0].getsockname()[:2]
        self.url = f"http://{host}:{port}"
        return self.url

    async def stop_accepting(self) -> None:
        """Refuse new connections; what is open goes on."""
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
        """End now: every open request loses its connection."""
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
        """Requests accepted and not yet answered."""
        return len(self._open)

    @property
    def running(self) -> int:
        """Requests whose answer is under way."""
        return self._running

    @property
    def waiting(self) -> int:
        """Requests that wait for their turn."""
        return self.in_flight - self._running

    # Answers

    async def _health(self, _: web.Request) -> web.Response:
        from aiohttp import web

        return web.Response(status=200 if self.ready else 503)

    async def _models(self, _: web.Request) -> web.Response:
        from aiohttp import web

        return web.json_response(answers.model_list(self.model, self._created))

    async def _completions(self, request: web.Request) -> web.StreamResponse:
        return await self._answer("completions", request)

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        return await self._answer("chat", request)

    async def _answer(self, api: Api, request: web.Request) -> web.StreamResponse:
        from aiohttp import web

        if self._over:
            # The kernel had taken the connection before the port was closed.
            if request.transport is not None:
                request.transport.abort()
            return web.Response()
        try:
            if not self.ready:
                raise BadRequestError(503, "ServiceUnavailableError", "the server is loading its model")
            asked = answers.read_request(api, await request.read(), self.model)
        except BadRequestError as refusal:
            return web.json_response(refusal.body(), status=refusal.status)
        id_ = next(self._ids)
        self.accepted += 1
        self._open[id_] = request
        self._idle.clear()
        reason = "abort"
        try:
            if self._turns is not None:
                await self._turns.acquire()
            self._running += 1
            self.prompt_tokens += asked.input_tokens
            try:
                response = await (self._stream if asked.stream else self._whole)(asked, id_, request)
                reason = "length"
            finally:
                self._running -= 1
                if self._turns is not None:
                    self._turns.release()
        except ConnectionResetError:
            # The client went, or the server was cut; there is nobody to answer.
            return web.Response()
        finally:
            del self._open[id_]
            self.finished[reason] += 1
            if not self._open:
                self._idle.set()
        return response

    async def _whole(self, asked: Asked, id_: int, _: web.Request) -> web.StreamResponse:
        from aiohttp import web

        await asyncio.sleep(self.clock.wall_seconds(self.timing.due_seconds(asked.output_tokens)))
        self.generated_tokens += asked.output_tokens
        return web.json_response(answers.whole_answer(asked, str(id_), int(time.time())))

    async def _stream(self, asked: Asked, id_: int, request: web.Request) -> web.StreamResponse:
        from aiohttp import web

        loop = asyncio.get_running_loop()
        began = loop.time()
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream; charset=utf-8"})
        await response.prepare(request)
        chunks = ChunkWriter(asked, str(id_), int(time.time()))
        pending = chunks.opening()
        sent = 0
        while sent < asked.output_tokens:
            # The first chunk is as small as a step of the engine, so that the time to the first token is seen.
            step = self._step if sent else self.timing.tokens_per_chunk
            number = min(step, asked.output_tokens - sent)
            sent += number
            # Against the beginning, so that a late chunk does not make the next one late.
            due = began + self.clock.wall_seconds(self.timing.due_seconds(sent))
            await asyncio.sleep(max(0.0, due - loop.time()))
            self.generated_tokens += number
            await response.write(pending + chunks.tokens(number, last=sent == asked.output_tokens))
            pending = b""
        await response.write(chunks.closing())
        await response.write_eof()
        return response

    async def _metrics(self, _: web.Request) -> web.Response:
        from aiohttp import web

        return web.Response(text="\n".join(self._metric_lines()) + "\n", headers={"Content-Type": METRICS_TYPE})

    def _metric_lines(self) -> list[str]:
        label = f'model_name="{self.model}"'
        lines = [
            *_metric("vllm:num_requests_running", "gauge", label, self.running),
            *_metric("vllm:num_requests_waiting", "gauge", label, self.waiting),
            *_metric("vllm:prompt_tokens_total", "counter", label, self.prompt_tokens),
            *_metric("vllm:generation_tokens_total", "counter", label, self.generated_tokens),
            "# TYPE vllm:request_success_total counter",
        ]
        for reason in ("length", "abort"):
            lines.append(f'vllm:request_success_total{{{label},finished_reason="{reason}"}} {self.finished[reason]}')
        return lines


METRICS_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


def _metric(name: str, kind: str, label: str, value: int) -> tuple[str, str]:
    return f"# TYPE {name} {kind}", f"{name}{{{label}}} {value}"


def _tokens_per_chunk(timing: ServerTiming, clock: Clock, least_wall_seconds: float) -> int:
    """Tokens that share a chunk, so that chunks come no closer than `least_wall_seconds`."""
    between = clock.wall_seconds(timing.tpot_seconds)
    if between <= 0:
        return answers.LARGEST_OUTPUT_TOKENS
    return max(timing.tokens_per_chunk, math.ceil(least_wall_seconds / between))
