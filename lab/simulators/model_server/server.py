"""A simulated server with a published row's timing, for the rehearsal's traffic.

Every answer has the same pace, so many of these servers share one event loop cheaply. It answers completions, streamed as the traffic
asks for them or whole as a batch does, whole chats, and /metrics: engines take requests in turn, count, and take no
steps. A server with queues and caches is `EngineServer`. Nothing here knows of Kubernetes.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from facts.signals.series import TPOT_BOUNDS, TTFT_BOUNDS
from lab.simulators.model_server import answers
from lab.simulators.model_server.answers import Api, Asked, BadRequestError, ChunkWriter
from lab.simulators.model_server.engine import Engine, Generation
from lab.simulators.model_server.listener import Ending, Listener
from lab.simulators.model_server.node import Node, Pace
from lab.simulators.model_server.outbox import Outbox

if TYPE_CHECKING:
    # Not at the top: `fleet rehearse --list` needs no package of a rehearsal.
    from aiohttp import web

    from lab.results.clock import Clock
    from lab.simulators.model_server.timing import ServerTiming

__all__ = ["Ending", "ModelServer"]

LEAST_CHUNK_WALL_SECONDS: Final = 0.1
"""Chunks of one answer come no closer than this on the wall: on a fast clock several tokens share one.
Assumed: ten a second are enough to see where an answer was cut; at 60 times, an answer of 24 s then has four."""
_APIS: Final[Mapping[str, Api]] = {"/v1/completions": "completions", "/v1/chat/completions": "chat"}
_FAILED: Final = BadRequestError(500, "InternalServerError", "Internal server error")


class Turnstile:
    """Lets a number of whole answers out, of all servers together; the others wait until it is opened again."""

    def __init__(self) -> None:
        self.answered: list[str] = []
        """Prompts that were answered, in order."""
        self._left = math.inf
        self._open = asyncio.Event()
        self._open.set()

    def let(self, answers: float) -> None:
        """Let so many further answers out."""
        self._left = answers
        (self._open.set if answers > 0 else self._open.clear)()

    async def go_through(self, prompt: str) -> None:
        """Wait for its turn."""
        while self._left <= 0:
            await self._open.wait()
        self._left -= 1
        if self._left <= 0:
            self._open.clear()
        self.answered.append(prompt)


class ModelServer(Listener):
    """A server whose answers all take the time that `timing` says."""

    def __init__(
        self,
        *,
        model: str,
        timing: ServerTiming,
        clock: Clock,
        ranks: int = 1,
        turnstile: Turnstile | None = None,
    ) -> None:
        """Not ready until `ready` is set. `ranks`: its data-parallel engines. `turnstile`: shared with other servers."""
        # Here: the drills import this module, and `fleet rehearse --list` works without the rehearsal's packages.
        from lab.simulators.model_server import metrics

        super().__init__(clock)
        self.timing, self._turnstile = timing, turnstile or Turnstile()
        self._limits = answers.Limits(model=model)
        node = Node(model=model, ranks=ranks, pace=Pace(fixed_s=1.0))
        self.engines = [Engine(rank, node, clock, Outbox()) for rank in range(ranks)]
        self.hung: set[Engine] = set()
        """Engines that return no more tokens and say nothing, as with a kernel that never ends. From their next step on their
        figures stand still, as vLLM's do: its API server repeats what the last step reported, whoever comes or goes."""
        self.failing = False
        """Whether every request is answered with 500."""
        self.key = ""
        """Key that requests need, as with vLLM's --api-key; empty: none."""
        self._answered = metrics.Answered()
        self.kind: answers.Kind = "usual"
        """Of answers that name their tokens."""
        self._steps = metrics.Histogram("iteration_tokens_total", "Tokens of a step.", metrics.STEP_BOUNDS)
        self._first = metrics.Histogram("time_to_first_token_seconds", "Time to first token.", TTFT_BOUNDS)
        self._each = metrics.Histogram(
            "request_time_per_output_token_seconds", "Time per output token of a request.", TPOT_BOUNDS
        )

    def _routes(self) -> Sequence[web.RouteDef]:
        from aiohttp import web

        return [
            web.get("/health", self._health),
            web.get("/metrics", self._metrics),
            *(web.post(path, self._answer) for path in _APIS),
        ]

    async def _metrics(self, _: web.Request) -> web.Response:
        from aiohttp import web

        from lab.simulators.model_server import metrics

        text = metrics.render(
            self.engines, float(self._created), (self._steps, self._first, self._each, self._answered)
        )
        return web.Response(text=text, headers={"Content-Type": metrics.METRICS_TYPE})

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        response = await self._response(request, _APIS[request.path])
        self._answered.observe(request.path, response.status)
        return response

    async def _response(self, request: web.Request, api: Api) -> web.StreamResponse:
        from aiohttp import web

        if self._refuse_after_the_end(request):
            return web.Response()
        try:
            if self.key and request.headers.get("Authorization") != f"Bearer {self.key}":
                raise BadRequestError(401, "Unauthorized", "Unauthorized")
            if not self.ready:
                raise BadRequestError(503, "ServiceUnavailableError", "the server is loading its model")
            asked = answers.read_request(api, await request.read(), self._limits)
        except BadRequestError as refusal:
            return web.json_response(refusal.body(), status=refusal.status)
        with self._taken(request) as id_:
            if self.failing:
                return web.json_response(_FAILED.body(), status=_FAILED.status)
            try:
                return await self._generate(asked, id_, request)
            except ConnectionResetError:
                # The client disconnected, or the server was stopped.
                return web.Response()

    async def _generate(self, asked: Asked, id_: int, request: web.Request) -> web.StreamResponse:
        engine = self.engines[id_ % len(self.engines)]
        if engine in self.hung and engine.running:
            await asyncio.Event().wait()
        counted = Generation(asked, asked.output_tokens, False, lambda *_: None)
        engine.running[counted] = None
        engine.prompt_tokens += asked.input_tokens
        finish = "abort"
        try:
            response = await (self._stream if asked.stream else self._whole)(asked, str(id_), request, engine)
            finish = "length"
            return response
        finally:
            if engine not in self.hung:
                del engine.running[counted]
                engine.finished[finish] += 1

    async def _whole(self, asked: Asked, id_: str, _: web.Request, engine: Engine) -> web.StreamResponse:
        from aiohttp import web

        await asyncio.sleep(self.clock.wall_seconds(self.timing.due_seconds(asked.output_tokens)))
        if engine in self.hung:
            await asyncio.Event().wait()
        await self._turnstile.go_through(str(asked.prompt))
        engine.generation_tokens += asked.output_tokens
        self._steps.observe(engine, asked.output_tokens)
        self._first.observe(engine, self.timing.ttft_seconds)
        self._each.observe(engine, self.timing.tpot_seconds)
        text, numbers = answers.spoken(asked, asked.output_tokens, self.kind)
        said = answers.Said(tokens=asked.output_tokens, content=text, token_ids=numbers)
        return web.json_response(answers.whole_answer(asked, id_, self._created, said))

    async def _stream(self, asked: Asked, id_: str, request: web.Request, engine: Engine) -> web.StreamResponse:
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
            if engine in self.hung:
                await asyncio.Event().wait()
            await response.write(chunks.tokens(number, last=sent + number == asked.output_tokens))
            engine.generation_tokens += number
            self._steps.observe(engine, number)
            if not sent:
                self._first.observe(engine, self.timing.ttft_seconds)
            sent += number
        self._each.observe(engine, self.timing.tpot_seconds)
        await response.write(chunks.closing(sent))
        await response.write_eof()
        return response


def _tokens_per_chunk(timing: ServerTiming, clock: Clock) -> int:
    """Tokens that share a chunk, so that chunks come no closer than LEAST_CHUNK_WALL_SECONDS."""
    between = clock.wall_seconds(timing.tpot_seconds)
    if between <= 0:
        return answers.LARGEST_OUTPUT_TOKENS
    return max(1, math.ceil(LEAST_CHUNK_WALL_SECONDS / between))
