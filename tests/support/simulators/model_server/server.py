"""A simulated server with a published row's timing, for the rehearsal's traffic.

Every answer has the same pace, so many of these servers share one event loop cheaply. It streams completions, as the traffic asks for
them, and has no metrics. A server with queues and caches is `EngineServer`. Nothing here knows of Kubernetes.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from tests.support.simulators.model_server import answers
from tests.support.simulators.model_server.answers import Asked, BadRequestError, ChunkWriter
from tests.support.simulators.model_server.listener import Ending, Listener

if TYPE_CHECKING:
    # Not at the top: `fleet rehearse --list` needs no package of a rehearsal.
    from aiohttp import web

    from tests.support.simulators.clock import Clock
    from tests.support.simulators.model_server.timing import ServerTiming

__all__ = ["Ending", "ModelServer"]

LEAST_CHUNK_WALL_SECONDS: Final = 0.1
"""Chunks of one answer come no closer than this on the wall: on a fast clock several tokens share one.
Assumed: ten a second are enough to see where an answer was cut; at 60 times, an answer of 24 s then has four."""
_FAILED: Final = BadRequestError(500, "InternalServerError", "Internal server error")


class ModelServer(Listener):
    """A server whose answers all take the time that `timing` says."""

    def __init__(self, *, model: str, timing: ServerTiming, clock: Clock) -> None:
        """Not ready until `ready` is set."""
        super().__init__(clock)
        self.timing = timing
        self._limits = answers.Limits(model=model)
        self.failing = False
        """Whether every request is answered with 500."""

    def _routes(self) -> Sequence[web.RouteDef]:
        from aiohttp import web

        return [web.get("/health", self._health), web.post("/v1/completions", self._answer)]

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        from aiohttp import web

        if self._refuse_after_the_end(request):
            return web.Response()
        try:
            if not self.ready:
                raise BadRequestError(503, "ServiceUnavailableError", "the server is loading its model")
            asked = answers.read_request("completions", await request.read(), self._limits)
        except BadRequestError as refusal:
            return web.json_response(refusal.body(), status=refusal.status)
        with self._taken(request) as id_:
            if self.failing:
                return web.json_response(_FAILED.body(), status=_FAILED.status)
            try:
                return await self._stream(asked, str(id_), request)
            except ConnectionResetError:
                # The client disconnected, or the server was stopped.
                return web.Response()

    async def _stream(self, asked: Asked, id_: str, request: web.Request) -> web.StreamResponse:
        from aiohttp import web

        loop = asyncio.get_running_loop()
        began = loop.time()
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream; charset=utf-8"})
        await response.prepare(request)
        chunks = ChunkWriter(asked, id_, int(time.time()))
        several = _tokens_per_chunk(self.timing, self.clock)
        sent = 0
        while sent < asked.output_tokens:
            # The first chunk is one token, so that the time to the first token is seen.
            number = min(several if sent else 1, asked.output_tokens - sent)
            # Against the beginning, so that a late chunk does not make the next one late.
            due = began + self.clock.wall_seconds(self.timing.due_seconds(sent + number))
            await asyncio.sleep(max(0.0, due - loop.time()))
            await response.write(chunks.tokens(number, last=sent + number == asked.output_tokens))
            sent += number
        await response.write(chunks.closing(sent))
        await response.write_eof()
        return response


def _tokens_per_chunk(timing: ServerTiming, clock: Clock) -> int:
    """Tokens that share a chunk, so that chunks come no closer than LEAST_CHUNK_WALL_SECONDS."""
    between = clock.wall_seconds(timing.tpot_seconds)
    if between <= 0:
        return answers.LARGEST_OUTPUT_TOKENS
    return max(1, math.ceil(LEAST_CHUNK_WALL_SECONDS / between))
