"""An OpenAI-compatible server that keeps a node's time and computes nothing: what stands for a vLLM pod on loopback.

Every answer has the same pace, so many of these servers share one event loop cheaply. A server with engines, queues and
caches is `EngineServer`. Nothing here knows of Kubernetes.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from fleet.simulators.model_server import answers
from fleet.simulators.model_server.answers import Api, Asked, BadRequestError, ChunkWriter
from fleet.simulators.model_server.listener import Ending, Listener

if TYPE_CHECKING:
    from aiohttp import web

    from fleet.simulators.model_server.clock import Clock
    from fleet.simulators.model_server.timing import ServerTiming

__all__ = ["METRICS_TYPE", "Ending", "ModelServer"]

LEAST_CHUNK_WALL_SECONDS: Final = 0.1
"""Chunks of one answer come no closer than this on the wall: on a fast clock several tokens share one.
Assumed: ten a second are enough to see where an answer was cut; at 60 times, an answer of 24 s then has four."""
METRICS_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


class ModelServer(Listener):
    """A server whose answers all take the time that `timing` says."""

    def __init__(
        self,
        *,
        model: str,
        timing: ServerTiming,
        clock: Clock,
        least_chunk_wall_seconds: float = LEAST_CHUNK_WALL_SECONDS,
    ) -> None:
        """Not ready until `ready` is set."""
        super().__init__(clock)
        self.model, self.timing = model, timing
        self.finished = Counter[str]()
        """Requests that ended, by reason: `length` when answered, `abort` when the client went or the server cut."""
        self.prompt_tokens = 0
        self.generated_tokens = 0
        self._step = _tokens_per_chunk(timing, clock, least_chunk_wall_seconds)
        self._limits = answers.Limits(model=model)
        self._running = 0
        self._turns = asyncio.Semaphore(timing.running_limit) if timing.running_limit else None

    @property
    def running(self) -> int:
        """Requests whose answer is under way."""
        return self._running

    @property
    def waiting(self) -> int:
        """Requests that wait for their turn."""
        return self.in_flight - self._running

    # Answers

    def _routes(self) -> Sequence[web.RouteDef]:
        from aiohttp import web

        return [
            web.get("/health", self._health),
            web.get("/v1/models", self._models),
            web.get("/metrics", self._metrics),
            web.post("/v1/completions", self._completions),
            web.post("/v1/chat/completions", self._chat),
        ]

    async def _models(self, _: web.Request) -> web.Response:
        from aiohttp import web

        return web.json_response(answers.model_list(self.model, self._created))

    async def _completions(self, request: web.Request) -> web.StreamResponse:
        return await self._answer("completions", request)

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        return await self._answer("chat", request)

    async def _answer(self, api: Api, request: web.Request) -> web.StreamResponse:
        from aiohttp import web

        if self._refuse_after_the_end(request):
            return web.Response()
        try:
            if not self.ready:
                raise BadRequestError(503, "ServiceUnavailableError", "the server is loading its model")
            asked = answers.read_request(api, await request.read(), self._limits)
        except BadRequestError as refusal:
            return web.json_response(refusal.body(), status=refusal.status)
        reason = "abort"
        with self._taken(request) as id_:
            try:
                response = await self._in_turn(asked, id_, request)
                reason = "length"
            except ConnectionResetError:
                # The client went, or the server was cut; there is nobody to answer.
                return web.Response()
            finally:
                self.finished[reason] += 1
        return response

    async def _in_turn(self, asked: Asked, id_: int, request: web.Request) -> web.StreamResponse:
        if self._turns is not None:
            await self._turns.acquire()
        self._running += 1
        self.prompt_tokens += asked.input_tokens
        try:
            return await (self._stream if asked.stream else self._whole)(asked, id_, request)
        finally:
            self._running -= 1
            if self._turns is not None:
                self._turns.release()

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


def _metric(name: str, kind: str, label: str, value: int) -> tuple[str, str]:
    return f"# TYPE {name} {kind}", f"{name}{{{label}}} {value}"


def _tokens_per_chunk(timing: ServerTiming, clock: Clock, least_wall_seconds: float) -> int:
    """Tokens that share a chunk, so that chunks come no closer than `least_wall_seconds`."""
    between = clock.wall_seconds(timing.tpot_seconds)
    if between <= 0:
        return answers.LARGEST_OUTPUT_TOKENS
    return max(timing.tokens_per_chunk, math.ceil(least_wall_seconds / between))
