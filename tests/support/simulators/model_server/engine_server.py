"""A simulated OpenAI-compatible server with engines, where queues, ranks, caches or metrics matter.

It speaks as vLLM 0.18.1 does: completions and chats, streamed or whole, with the reasoning split; /v1/models, /version,
/metrics, /health. It computes nothing: engines keep a node's time (node.py beside this file), and every token is the same
word.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Final

from aiohttp import web

from tests.support.simulators.clock import Clock
from tests.support.simulators.model_server import answers, metrics
from tests.support.simulators.model_server.answers import Api, Asked, BadRequestError, ChunkWriter, Finish, Said, words
from tests.support.simulators.model_server.engine import Engine, Generation, goal_of
from tests.support.simulators.model_server.listener import Listener
from tests.support.simulators.model_server.node import Evenly, Faults, Node
from tests.support.simulators.model_server.outbox import Outbox
from tests.support.simulators.model_server.routing import Router

REASONING_SHARE: Final = 0.5
"""Part of a chat's answer that is reasoning. Assumed; any share shows whether it is split off."""
_FAILED: Final = BadRequestError(500, "InternalServerError", "Internal server error")
_END_OF_REASONING: Final = "</think>"
_STREAM_HEADERS: Final = {"Content-Type": "text/event-stream; charset=utf-8"}


class EngineServer(Listener):
    """One server with `node.ranks` engines behind one front end."""

    def __init__(
        self,
        node: Node,
        *,
        faults: Faults | None = None,
        clock: Clock | None = None,
    ) -> None:
        """Not ready until `ready` is set. `clock`: by default the wall's time."""
        super().__init__(clock or Clock(1.0))
        self.node, self.faults = node, faults or Faults()
        self.outbox = Outbox()
        self.engines = [
            Engine(
                rank,
                node,
                self.clock,
                self.outbox,
                drafts_rejected=self.faults.drafts_rejected,
            )
            for rank in range(node.ranks)
        ]
        self._router = Router(self.engines, self.clock, starving=self.faults.starving_ranks)
        self._limits = answers.Limits(model=node.model, max_model_len=node.max_model_len, thinks=node.reasons)
        self._cut_this = Evenly(self.faults.cut_share)
        self._unavailable_this = Evenly(self.faults.unavailable_share)
        self._error_this = Evenly(self.faults.error_share)

    async def cut(self) -> None:
        """End now: every open request loses its connection, and the engines stop."""
        await super().cut()
        for engine in self.engines:
            engine.stop()

    # Answers

    def _routes(self) -> Sequence[web.RouteDef]:
        return [
            web.get("/health", self._health),
            web.get("/version", self._version),
            web.get("/v1/models", self._models),
            web.get("/metrics", self._metrics),
            web.post("/v1/completions", self._completions),
            web.post("/v1/chat/completions", self._chat),
        ]

    async def _health(self, request: web.Request) -> web.Response:
        return web.Response(status=503) if self.faults.engine_dead else await super()._health(request)

    async def _version(self, _: web.Request) -> web.Response:
        return web.json_response({"version": self.node.version})

    async def _models(self, _: web.Request) -> web.Response:
        node = self.node
        return web.json_response(
            answers.model_list(node.model, self._created, root=node.root, max_model_len=node.max_model_len)
        )

    async def _metrics(self, _: web.Request) -> web.Response:
        if self.faults.metrics_missing:
            return web.Response(status=404)
        text = metrics.render(self.engines, float(self._created))
        return web.Response(text=text, headers={"Content-Type": metrics.METRICS_TYPE})

    async def _completions(self, request: web.Request) -> web.StreamResponse:
        return await self._answer("completions", request)

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        return await self._answer("chat", request)

    async def _answer(self, api: Api, request: web.Request) -> web.StreamResponse:
        if self._refuse_after_the_end(request):
            return web.Response()
        try:
            if not self.ready or self.faults.engine_dead or self._unavailable_this():
                raise BadRequestError(503, "ServiceUnavailableError", "no engine is ready")
            asked = answers.read_request(api, await request.read(), self._limits)
            if self._error_this() or self._breaks_on(asked):
                raise _FAILED
            engine = self._router.choose(_rank(request))
        except BadRequestError as refusal:
            return web.json_response(refusal.body(), status=refusal.status)
        goal, natural_end = goal_of(asked, self.node.mean_answer_tokens)
        with self._taken(request) as id_:
            answer = _Answer(self, asked, str(id_), goal, cut_after=goal // 2 if self._cut_this() else None)
            generation = Generation(asked, goal, natural_end, answer.step)
            answer.generation = generation
            try:
                return await answer.give(request, lambda: engine.submit(generation))
            except ConnectionResetError:
                # The client disconnected, or the server was stopped.
                return web.Response()
            finally:
                engine.abort(generation)

    def _breaks_on(self, asked: Asked) -> bool:
        word = self.faults.failing_word
        return bool(word) and isinstance(asked.prompt, str) and word in asked.prompt


def _rank(request: web.Request) -> int | None:
    """The engine that a request names; vLLM ignores what is not a number."""
    try:
        return int(request.headers["X-data-parallel-rank"])
    except (KeyError, ValueError):
        return None


class _Answer:
    """One answer on its way. An engine's step writes straight to the connection: no task wakes up for a chunk."""

    def __init__(self, server: EngineServer, asked: Asked, id_: str, goal: int, cut_after: int | None) -> None:
        self._server, self._asked, self._id = server, asked, id_
        self._cut_after = cut_after
        self._reasoning_left = max(1, int(goal * REASONING_SHARE)) if asked.thinks else 0
        self._reasoning = self._reasoning_left
        self._goal = goal
        self._said = 0
        self._finish: Finish = "length"
        self._done = asyncio.get_running_loop().create_future()
        self._events: dict[int, bytes] = {}
        self._chunks: ChunkWriter | None = None
        self._opening = b""
        self._transport: asyncio.Transport | None = None
        self.generation: Generation | None = None
        self._beside = 0
        """Most other requests of the server at one of its steps."""

    async def give(self, request: web.Request, submit: Callable[[], None]) -> web.StreamResponse:
        """Answer the request. Raises ConnectionResetError when its connection goes first."""
        self._transport = request.transport
        if not self._asked.stream:
            submit()
            await self._done
            return web.json_response(answers.whole_answer(self._asked, self._id, int(time.time()), self._whole()))
        response = web.StreamResponse(headers=_STREAM_HEADERS)
        await response.prepare(request)
        if request.transport is None:
            raise ConnectionResetError
        self._chunks = ChunkWriter(self._asked, self._id, int(time.time()))
        self._opening = _framed(self._chunks.opening())
        submit()
        await self._done
        await response.write_eof()
        return response

    def step(self, number: int, last: bool, finish: Finish) -> None:
        """An engine's step brought so many tokens."""
        self._said += number
        self._finish = finish
        self._beside = max(self._beside, self._server.in_flight - 1)
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        if self._cut_after is not None and self._said >= self._cut_after:
            transport.abort()
            return
        if self._chunks is not None:
            if last or self._opening or self._reasoning_left:
                event: bytes | None = self._rare(self._chunks, number, last, finish)
            else:
                event = self._events.get(number)
            if event is None:
                event = self._events[number] = _framed(self._chunks.tokens(number, last=False))
            self._server.outbox.write(transport, event)
        if last and not self._done.done():
            self._done.set_result(None)

    def _rare(self, chunks: ChunkWriter, number: int, last: bool, finish: Finish) -> bytes:
        """The first event, those of the reasoning, and the last one."""
        written, self._opening = self._opening, b""
        reasoned = min(number, self._reasoning_left)
        self._reasoning_left -= reasoned
        rest = number - reasoned
        if reasoned and self._server.faults.reasoning_unsplit:
            text = words(reasoned) + ("" if self._reasoning_left else _END_OF_REASONING)
            written += _framed(chunks.text(text, "content", finish if last and not rest else None))
        elif reasoned and self._asked.shows_reasoning:
            written += _framed(chunks.tokens(reasoned, last=last and not rest, part="reasoning", finish=finish))
        if rest:
            written += _framed(chunks.tokens(rest, last=last, finish=finish))
        if last:
            written += _framed(chunks.closing(self._said))
        return written

    def _is_wrong(self) -> bool:
        faults = self._server.faults
        hit = self.generation is not None and self.generation.cached > 0
        crowded = self._beside > self._server.node.ranks
        return faults.wrong_answers or (faults.wrong_under_load and crowded) or (faults.wrong_after_hit and hit)

    def _whole(self) -> Said:
        if self._asked.tool and self._server.faults.tools_unparsed:
            return Said(tokens=self._said, content=f"<tool_call>{self._asked.tool}</tool_call>", finish="stop")
        if self._asked.tool:
            called = (answers.tool_call(self._asked.tool),)
            return Said(tokens=self._said, content=None, finish="tool_calls", tool_calls=called)
        if self._asked.tells_tokens:
            text, numbers = answers.spoken(self._asked, self._said, wrong=self._is_wrong())
            return Said(tokens=self._said, content=text, finish=self._finish, token_ids=numbers)
        reasoning = min(self._reasoning, self._said)
        content = words(self._said - reasoning)
        if not reasoning:
            return Said(tokens=self._said, content=content, finish=self._finish)
        if self._server.faults.reasoning_unsplit:
            return Said(tokens=self._said, content=words(reasoning) + _END_OF_REASONING + content, finish=self._finish)
        shown = words(reasoning) if self._asked.shows_reasoning else None
        return Said(tokens=self._said, content=content or None, reasoning=shown, finish=self._finish)


def _framed(event: bytes) -> bytes:
    """A chunk of HTTP/1.1's chunked transfer; nothing for nothing, which would end it."""
    return b"%x\r\n%b\r\n" % (len(event), event) if event else b""
