"""HTTP client for a running server: bounded in time and size, readable errors, API key sent only to /v1.

Uses aiohttp for a burst of hundreds of requests in one thread, and for streams that may be left half read.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Mapping
from typing import Any, Final

import aiohttp

from facts import strict_json
from fleet.clients.metrics_text import MetricsText, MetricsTextError, parse
from fleet.verify.facts import LATE, NAME_UNKNOWN, NOT_HTTP, OUT_OF_TIME, TLS_FAILED, Chat, Reply

LARGEST_BODY_BYTES: Final = 16 * 2**20
"""Maximum body size. Assumed: a scrape of eight engines is below 1 MiB."""
RANK_HEADER: Final = "X-data-parallel-rank"
"""Pins a request to one engine. Source: vLLM 0.18.1, entrypoints/openai/engine/serving.py."""
_END_SECONDS: Final = 0.05
"""A request that ends this close to the deadline was ended by it. Assumed: far above timer accuracy."""


class Client:
    """Requests with a common deadline."""

    def __init__(self, *, api_key: str | None, until: float) -> None:
        """`until` by time.monotonic()."""
        self._headers = {} if api_key is None else {"Authorization": f"Bearer {api_key}"}
        self._until = until
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Client:
        """Open the connections."""
        # No connection limit: the sender bounds the burst. No proxies and no .netrc: query exactly the given URL.
        connector = aiohttp.TCPConnector(limit=0)
        self._session = aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=None))
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close them."""
        assert self._session is not None
        await self._session.close()

    @property
    def seconds_left(self) -> float:
        """Until everything ends."""
        return max(0.0, self._until - time.monotonic())

    async def get(self, url: str, path: str, seconds: float, *, with_key: bool = True) -> Reply:
        """Sends a GET."""
        return await self._ask("GET", url + path, seconds, headers=self._of(path) if with_key else {})

    async def post(
        self, url: str, path: str, body: Mapping[str, Any], seconds: float, *, rank: int | None = None
    ) -> Reply:
        """Sends a POST. `rank` selects one of several engines."""
        pinned = {} if rank is None else {RANK_HEADER: str(rank)}
        return await self._ask("POST", url + path, seconds, headers={**self._of(path), **pinned}, body=body)

    async def metrics(self, url: str, seconds: float) -> tuple[MetricsText | None, str]:
        """One scrape, or the reason for its absence."""
        reply = await self.get(url, "/metrics", seconds)
        if not reply.ok:
            return None, f"/metrics: {reply.summary}"
        try:
            found = parse(reply.body if isinstance(reply.body, str) else str(reply.body))
        except MetricsTextError as error:
            return None, f"/metrics: {error}"
        if not any(one.name.startswith("vllm:") for one in found.series):
            # Otherwise engines without metrics would count as missing.
            return None, "/metrics has no engine metrics: --disable-log-stats disables them"
        return found, ""

    async def chat(self, url: str, body: Mapping[str, Any], seconds: float, *, thinking: bool | None) -> Chat:
        """A complete chat completion."""
        began = time.monotonic()
        asked = int(body["max_tokens"])
        reply = await self.post(url, "/v1/chat/completions", body, seconds)
        took = time.monotonic() - began
        if not reply.ok or not isinstance(reply.body, Mapping):
            trouble = _refusal(reply)
            return Chat(
                stream=False, thinking=thinking, asked_tokens=asked, status=reply.status, trouble=trouble, seconds=took
            )
        choice = _first(reply.body.get("choices"))
        message = choice.get("message")
        said = message if isinstance(message, Mapping) else {}
        return Chat(
            stream=False,
            thinking=thinking,
            asked_tokens=asked,
            status=reply.status,
            content=_text(said.get("content")),
            reasoning=_reasoning(said),
            finish=choice.get("finish_reason"),
            usage=_usage(reply.body),
            seconds=took,
        )

    async def chat_stream(self, url: str, body: Mapping[str, Any], seconds: float, *, thinking: bool | None) -> Chat:
        """A streamed chat completion, possibly cut off by the deadline."""
        assert self._session is not None
        read = _Stream()
        began = time.monotonic()
        status, trouble = None, ""
        try:
            async with (
                asyncio.timeout(min(seconds, self.seconds_left)),
                self._session.post(
                    url + "/v1/chat/completions",
                    json=dict(body),
                    headers=self._of("/v1/chat/completions"),
                    allow_redirects=False,
                ) as answer,
            ):
                status = answer.status
                if status != 200:
                    trouble = _refusal(_reply(answer.status, await answer.content.read(LARGEST_BODY_BYTES), 0.0))
                else:
                    async for line in answer.content:
                        read.line(line)
                        if read.bytes > LARGEST_BODY_BYTES:
                            break
                    # vLLM reports an error in the middle of an answer as an event in the stream.
                    trouble = read.error or ("" if read.finish else "the stream ended without a finish reason")
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
            trouble = self._trouble(error, time.monotonic() - began)
        return Chat(
            stream=True,
            thinking=thinking,
            asked_tokens=int(body["max_tokens"]),
            status=status,
            trouble=trouble,
            content="".join(read.content),
            reasoning="".join(read.reasoning),
            finish=read.finish,
            usage=read.usage,
            chunks=read.chunks,
            seconds=time.monotonic() - began,
        )

    def _of(self, path: str) -> dict[str, str]:
        # vLLM requires the key only on /v1; send it nowhere else.
        return dict(self._headers) if path.startswith("/v1/") else {}

    async def _ask(
        self,
        method: str,
        url: str,
        seconds: float,
        *,
        headers: Mapping[str, str],
        body: Mapping[str, Any] | None = None,
    ) -> Reply:
        assert self._session is not None
        began = time.monotonic()
        try:
            async with (
                asyncio.timeout(min(seconds, self.seconds_left)),
                # Do not follow redirects, which would forward the key.
                self._session.request(
                    method, url, headers=dict(headers), json=None if body is None else dict(body), allow_redirects=False
                ) as answer,
            ):
                content = bytearray()
                async for piece in answer.content.iter_chunked(1 << 16):
                    content += piece
                    if len(content) > LARGEST_BODY_BYTES:
                        return Reply(trouble=f"response larger than {LARGEST_BODY_BYTES >> 20} MiB")
                return _reply(answer.status, bytes(content), time.monotonic() - began)
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
            seconds_taken = time.monotonic() - began
            return Reply(trouble=self._trouble(error, seconds_taken), seconds=seconds_taken)

    def _trouble(self, error: BaseException, seconds: float) -> str:
        if isinstance(error, TimeoutError) and self.seconds_left < _END_SECONDS:
            return OUT_OF_TIME
        return format_trouble(error, seconds)


class _Stream:
    """Assembles the server-sent events of a chat."""

    def __init__(self) -> None:
        self.content: list[str] = []
        self.reasoning: list[str] = []
        self.finish: str | None = None
        self.usage: Mapping[str, Any] | None = None
        self.chunks = 0
        self.error = ""
        self.bytes = 0

    def line(self, line: bytes) -> None:
        self.bytes += len(line)
        if not line.startswith(b"data:"):
            return
        data = line[5:].strip()
        if data == b"[DONE]":
            return
        event = strict_json.loads(data)
        if not isinstance(event, Mapping):
            raise ValueError("an event of the stream is not a JSON object")
        if event.get("error"):
            self.error = f"error in the stream: {_words_of(event)}"
        self.usage = _usage(event) or self.usage
        choice = _first(event.get("choices"))
        delta = choice.get("delta")
        said = delta if isinstance(delta, Mapping) else {}
        content, reasoning = _text(said.get("content")), _reasoning(said)
        if content or reasoning:
            self.chunks += 1
            self.content.append(content)
            self.reasoning.append(reasoning)
        self.finish = choice.get("finish_reason") or self.finish


def format_trouble(error: BaseException, seconds: float) -> str:
    """Why a request failed."""
    if isinstance(error, TimeoutError):
        return f"{LATE} {seconds:.0f} s"
    if isinstance(error, aiohttp.ClientSSLError):
        # Before its parent class: one of its subclasses has no OS error.
        return f"{TLS_FAILED}: {str(error)[:120]}"
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return NAME_UNKNOWN
    if isinstance(error, aiohttp.ClientConnectorError):
        # asyncio replaces the OS message with its own, which includes the address.
        number = error.os_error.errno
        return os.strerror(number) if number else "the connection failed"
    if isinstance(error, aiohttp.ServerDisconnectedError | aiohttp.ClientPayloadError | ConnectionResetError):
        return "connection aborted"
    if isinstance(error, json.JSONDecodeError):
        return "an event of the stream is not JSON"
    if isinstance(error, aiohttp.ClientResponseError):
        return NOT_HTTP
    return str(error)[:200] or type(error).__name__


def _reply(status: int, content: bytes, seconds: float) -> Reply:
    text = content.decode(errors="replace")
    try:
        body: Any = strict_json.loads(text)
    except ValueError:
        body = text
    return Reply(status=status, body=body, seconds=seconds)


def _refusal(reply: Reply) -> str:
    """An error response with the server's message, truncated."""
    if reply.status is None:
        return reply.trouble
    words = _words_of(reply.body)
    return f"HTTP {reply.status}: {words}" if words else f"HTTP {reply.status}"


def _words_of(body: Any) -> str:
    """The error message in vLLM's format, or the raw body."""
    error = body.get("error", body) if isinstance(body, Mapping) else body
    said = error.get("message", error) if isinstance(error, Mapping) else error
    return " ".join(str(said).split())[:160]


def _first(choices: Any) -> Mapping[str, Any]:
    found = choices[0] if isinstance(choices, list) and choices else {}
    return found if isinstance(found, Mapping) else {}


def _reasoning(said: Mapping[str, Any]) -> str:
    """Name of the reasoning field in 0.18.1. Source: vLLM 0.18.1, ChatMessage and DeltaMessage."""
    return _text(said.get("reasoning"))


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _usage(body: Mapping[str, Any]) -> Mapping[str, Any] | None:
    usage = body.get("usage")
    return usage if isinstance(usage, Mapping) else None
