"""HTTP client for a running server: bounded in time and size, readable errors, API key sent only to /v1.

Uses aiohttp for a burst of hundreds of requests in one thread, and for a stream that may be left half read.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Mapping
from typing import Any, Final

import aiohttp

from facts import strict_json
from fleet.clients.metrics_text import MetricsText, MetricsTextError, parse
from fleet.verify.facts import LATE, Chat, Reply, Target

LARGEST_BODY_BYTES: Final = 16 * 2**20
"""Maximum body size. Assumed: a scrape of eight engines is below 1 MiB."""
RANK_HEADER: Final = "X-data-parallel-rank"
"""Pins a request to one engine. Source: vLLM 0.18.1, entrypoints/openai/engine/serving.py."""
CHAT_PATH: Final = "/v1/chat/completions"


class Client:
    """Requests, each with its own timeout."""

    def __init__(self, *, api_key: str | None) -> None:
        """No request is sent before `async with`."""
        self._headers = {} if api_key is None else {"Authorization": f"Bearer {api_key}"}
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

    async def chat(self, target: Target, body: Mapping[str, Any], seconds: float) -> Chat:
        """A streamed chat completion, possibly cut off by the timeout."""
        assert self._session is not None
        read, trouble, began = _Stream(), "", time.monotonic()
        try:
            async with (
                asyncio.timeout(seconds),
                self._session.post(
                    target.url + CHAT_PATH, json=dict(body), headers=self._of(CHAT_PATH), allow_redirects=False
                ) as answer,
            ):
                if answer.status != 200:
                    trouble = _reply(answer.status, await answer.content.read(LARGEST_BODY_BYTES)).refusal
                else:
                    async for line in answer.content:
                        read.line(line)
                        if read.bytes > LARGEST_BODY_BYTES:
                            break
                    # vLLM reports an error in the middle of an answer as an event in the stream.
                    trouble = read.error or ("" if read.finished else "the stream ended without a finish reason")
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
            trouble = _trouble(error, time.monotonic() - began)
        return Chat(
            through=target.name,
            trouble=trouble,
            content="".join(read.content),
            reasoning="".join(read.reasoning),
            tokens=read.tokens,
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
                asyncio.timeout(seconds),
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
                return _reply(answer.status, bytes(content))
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
            return Reply(trouble=_trouble(error, time.monotonic() - began))


class _Stream:
    """Assembles the server-sent events of a chat."""

    def __init__(self) -> None:
        self.content: list[str] = []
        self.reasoning: list[str] = []
        self.finished = False
        self.tokens: int | None = None
        self.error = ""
        self.bytes = 0

    def line(self, line: bytes) -> None:
        self.bytes += len(line)
        data = line.removeprefix(b"data:").strip()
        if not line.startswith(b"data:") or data == b"[DONE]":
            return
        event = strict_json.loads(data)
        if not isinstance(event, Mapping):
            raise ValueError("an event of the stream is not a JSON object")
        if event.get("error"):
            self.error = Reply(trouble="error in the stream", body=event).refusal
        usage = event.get("usage")
        if isinstance(usage, Mapping) and isinstance(usage.get("completion_tokens"), int):
            self.tokens = usage["completion_tokens"]
        choices = event.get("choices")
        choice = choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], Mapping) else {}
        delta = choice.get("delta")
        said = delta if isinstance(delta, Mapping) else {}
        # Source of the names: vLLM 0.18.1, DeltaMessage.
        self.content.append(str(said.get("content") or ""))
        self.reasoning.append(str(said.get("reasoning") or ""))
        self.finished = self.finished or bool(choice.get("finish_reason"))


def _trouble(error: BaseException, seconds: float) -> str:
    """Why a request failed."""
    if isinstance(error, TimeoutError):
        return f"{LATE} {seconds:.0f} s"
    if isinstance(error, aiohttp.ClientConnectorError) and not isinstance(error, aiohttp.ClientSSLError):
        # asyncio replaces the OS message with its own, which includes the address. Numbers of a resolver are negative.
        number = error.os_error.errno or 0
        return os.strerror(number) if number > 0 else str(error.os_error)
    return str(error)[:200] or type(error).__name__


def _reply(status: int, content: bytes) -> Reply:
    text = content.decode(errors="replace")
    try:
        return Reply(status=status, body=strict_json.loads(text))
    except ValueError:
        return Reply(status=status, body=text)
