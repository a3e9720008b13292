"""Whole answers for vLLM's own benchmark, which asks for streams alone and reads nothing else.

Its request function gets a session of this module in the place of aiohttp's: the request asks for no stream, and the answer is handed
over as a stream of one chunk. So everything but the chunks is measured as ever. Source: vllm/benchmarks/lib/endpoint_request_func.py,
0.18.1, async_request_openai_completions.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any


def whole(original: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    """A request function of vLLM, for answers that are not streamed."""

    async def request(request_func_input: Any, session: Any, pbar: Any = None) -> Any:
        return await original(request_func_input, _Session(session), pbar)

    return request


def as_stream(body: bytes) -> bytes:
    """A whole answer as the events of a stream: one with the text, and one with the server's count of tokens."""
    answer = json.loads(body)
    events = ({"choices": answer["choices"]}, {"usage": answer["usage"]}, "[DONE]")
    texts = (event if isinstance(event, str) else json.dumps(event) for event in events)
    return "".join(f"data: {text}\n\n" for text in texts).encode()


class _Session:
    """The part of aiohttp's session that the request function uses."""

    def __init__(self, session: Any) -> None:
        self._session = session

    def post(self, *, json: Mapping[str, Any], **named: Any) -> _Posted:
        asked = {key: value for key, value in json.items() if key != "stream_options"}
        return _Posted(self._session.post(json={**asked, "stream": False}, **named))


class _Posted:
    """A request that is under way."""

    def __init__(self, posted: Any) -> None:
        self._posted = posted

    async def __aenter__(self) -> _Answer:
        return _Answer(await self._posted.__aenter__())

    async def __aexit__(self, *why: Any) -> Any:
        return await self._posted.__aexit__(*why)


class _Answer:
    """Status and content of an answer."""

    def __init__(self, answer: Any) -> None:
        self.status: int = answer.status
        self.reason: str | None = answer.reason
        self.content = self
        self._answer = answer

    async def iter_any(self) -> AsyncIterator[bytes]:
        """The whole answer, once it is there."""
        yield as_stream(await self._answer.read())
