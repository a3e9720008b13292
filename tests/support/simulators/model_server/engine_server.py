"""A simulated OpenAI-compatible server with engines, where ranks, caches or metrics matter.

It speaks as vLLM 0.18.1 does: completions, streamed or whole, and streamed chats, with the reasoning split; /v1/models, /version,
/metrics, /health. It computes nothing: engines keep a node's time (node.py beside this file), and every token is the same
word.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from aiohttp import web

from tests.support.simulators.model_server import answers, metrics
from tests.support.simulators.model_server.answers import Api, Asked, BadRequestError, ChunkWriter, Finish, words
from tests.support.simulators.model_server.engine import Engine, Generation
from tests.support.simulators.model_server.node import Evenly, Faults, Node
from tests.support.simulators.model_server.outbox import Outbox
from tests.support.simulators.model_server.routing import Router

LOOPBACK: Final = "127.0.0.1"
BACKLOG: Final = 1024
"""Listen backlog: enough for a thousand clients that connect at once."""
REASONING_SHARE: Final = 0.5
"""Part of a chat's answer that is reasoning. Assumed; any share shows whether it is split off."""
_CLEANUP_SECONDS: Final = 0.05
"""What aiohttp waits for its own bookkeeping when a server closes; every connection is already cut by then."""
_END_OF_REASONING: Final = "</think>"
_STREAM_HEADERS: Final = {"Content-Type": "text/event-stream; charset=utf-8"}


class EngineServer:
    """One server on a loopback port with `node.ranks` engines behind one front end. Start and stop it in the same event loop."""

    def __init__(self, node: Node, *, faults: Faults | None = None) -> None:
        """Until `ready` is set, /health returns 503."""
        self.node, self.faults = node, faults or Faults()
        self.ready = False
        self.url = ""
        self.accepted = 0
        """Requests accepted since the start."""
        self.outbox = Outbox()
        rejected = self.faults.drafts_rejected
        self.engines = [Engine(rank, node, self.outbox, drafts_rejected=rejected) for rank in range(node.ranks)]
        self._router = Router(self.engines, starving=self.faults.starving_ranks)
        self._cut_this = Evenly(self.faults.cut_share)
        self._unavailable_this = Evenly(self.faults.unavailable_share)
        self._created = int(time.time())
        self._ids = itertools.count(1)
        self._open: dict[int, web.Request] = {}
        self._runner: web.AppRunner | None = None

    async def start(self) -> None:
        """Listen on a free port."""
        app = web.Application()
        app.add_routes(self._routes())
        # Cancelled with the client's connection, as vLLM aborts an abandoned request.
        self._runner = web.AppRunner(
            app, access_log=None, handle_signals=False, handler_cancellation=True, shutdown_timeout=_CLEANUP_SECONDS
        )
        await self._runner.setup()
        await web.TCPSite(self._runner, LOOPBACK, 0, backlog=BACKLOG).start()
        self.url = "http://{}:{}".format(*self._runner.addresses[0])

    async def cut(self) -> None:
        """End now: every open request loses its connection, and the engines stop."""
        for request in list(self._open.values()):
            if request.transport is not None:
                request.transport.abort()
        if self._runner is not None:
            await self._runner.cleanup()
        for engine in self.engines:
            engine.stop()

    @property
    def in_flight(self) -> int:
        """Requests in flight."""
        return len(self._open)

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

    async def _health(self, _: web.Request) -> web.Response:
        return web.Response(status=200 if self.ready else 503)

    async def _version(self, _: web.Request) -> web.Response:
        return web.json_response({"version": self.node.version})

    async def _models(self, _: web.Request) -> web.Response:
        return web.json_response(answers.model_list(self.node, self._created))

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
        try:
            if not self.ready or self._unavailable_this():
                raise BadRequestError(503, "ServiceUnavailableError", "no engine is ready")
            asked = answers.read_request(api, await request.read(), self.node)
            engine = self._router.choose(_rank(request))
        except BadRequestError as refusal:
            return web.json_response(refusal.body(), status=refusal.status)
        with self._taken(request) as id_:
            answer = _Answer(self, asked, str(id_), is_cut=self._cut_this())
            try:
                return await answer.give(request, lambda: engine.submit(answer.generation))
            except ConnectionResetError:
                # The client disconnected, or the server was stopped.
                return web.Response()

    @contextmanager
    def _taken(self, request: web.Request) -> Iterator[int]:
        """Track a request until its end; yields its number."""
        id_ = next(self._ids)
        self.accepted += 1
        self._open[id_] = request
        try:
            yield id_
        finally:
            del self._open[id_]


def _rank(request: web.Request) -> int | None:
    """The engine that a request names; vLLM ignores what is not a number."""
    try:
        return int(request.headers["X-data-parallel-rank"])
    except (KeyError, ValueError):
        return None


class _Answer:
    """One answer on its way. An engine's step writes straight to the connection: no task wakes up for a chunk."""

    def __init__(self, server: EngineServer, asked: Asked, id_: str, *, is_cut: bool) -> None:
        self._server, self._asked, self._id = server, asked, id_
        self.generation = Generation(asked, server.node.mean_answer_tokens, self.step)
        self._cut_after = self.generation.goal // 2 if is_cut else None
        self._reasoning_left = max(1, int(self.generation.goal * REASONING_SHARE)) if asked.thinks else 0
        self._done = asyncio.get_running_loop().create_future()
        self._events: dict[int, bytes] = {}
        self._chunks: ChunkWriter | None = None
        self._opening = b""
        self._transport: asyncio.Transport | None = None
        self._beside = 0
        """Most other requests of the server at one of its steps."""

    async def give(self, request: web.Request, submit: Callable[[], None]) -> web.StreamResponse:
        """Answer the request. Raises ConnectionResetError when its connection goes first."""
        self._transport = request.transport
        if not self._asked.stream:
            submit()
            await self._done
            made, wrong = self.generation, self._is_wrong()
            now = int(time.time())
            return web.json_response(
                answers.whole_completion(self._asked, self._id, now, made.generated, made.finish, wrong=wrong)
            )
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
        self._beside = max(self._beside, self._server.in_flight - 1)
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        if self._cut_after is not None and self.generation.generated >= self._cut_after:
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
        elif reasoned:
            written += _framed(chunks.tokens(reasoned, last=last and not rest, part="reasoning", finish=finish))
        if rest:
            written += _framed(chunks.tokens(rest, last=last, finish=finish))
        if last:
            written += _framed(chunks.closing(self.generation.generated))
        return written

    def _is_wrong(self) -> bool:
        faults = self._server.faults
        crowded = self._beside > self._server.node.ranks
        hit = self.generation.cached > 0
        return faults.wrong_answers or (faults.wrong_under_load and crowded) or (faults.wrong_after_hit and hit)


def _framed(event: bytes) -> bytes:
    """A chunk of HTTP/1.1's chunked transfer; nothing for nothing, which would end it."""
    return b"%x\r\n%b\r\n" % (len(event), event) if event else b""
