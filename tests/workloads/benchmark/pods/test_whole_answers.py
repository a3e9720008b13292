"""Whole answers, for a request function that reads streams; test_bench_client tries vLLM's own."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from workloads.benchmark.pods.whole_answers import as_stream, whole

ANSWER = {"choices": [{"index": 0, "text": "Well."}], "usage": {"completion_tokens": 3, "prompt_tokens": 5}}


class Answer:
    """An answer of aiohttp."""

    status, reason = 200, "OK"

    async def read(self) -> bytes:
        return json.dumps(ANSWER).encode()


class Session:
    """A session of aiohttp that notes what it was asked."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.left = 0

    def post(self, **named: Any) -> Session:
        self.asked.append(named)
        return self

    async def __aenter__(self) -> Answer:
        return Answer()

    async def __aexit__(self, *_: object) -> None:
        self.left += 1


def test_a_request_asks_for_no_stream_and_its_answer_is_read_as_one() -> None:
    session = Session()

    async def streams(url: str, session: Any, _: Any = None) -> tuple[int, list[bytes]]:
        body = {"prompt": "Hm?", "stream": True, "stream_options": {"include_usage": True}}
        async with session.post(url=url, json=body, headers={"a": "b"}) as answer:
            return answer.status, [chunk async for chunk in answer.content.iter_any()]

    status, chunks = asyncio.run(whole(streams)("http://server", session))
    assert session.asked == [
        {"url": "http://server", "json": {"prompt": "Hm?", "stream": False}, "headers": {"a": "b"}}
    ]
    assert (status, session.left, len(chunks)) == (200, 1, 1)
    events = [event.removeprefix("data: ") for event in chunks[0].decode().split("\n\n") if event]
    assert events.pop() == "[DONE]"
    assert [json.loads(event) for event in events] == [{key: ANSWER[key]} for key in ("choices", "usage")]


@pytest.mark.parametrize("body", [b"", b"{}", b'{"choices": []}'])
def test_an_answer_that_is_none_is_an_error_and_not_an_empty_one(body: bytes) -> None:
    with pytest.raises((ValueError, KeyError)):
        as_stream(body)
