from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import aiohttp
import pytest

from tests.support.simulators.clock import Clock
from tests.support.simulators.model_server.server import ModelServer
from tests.support.simulators.model_server.timing import Request, ServerTiming, published_request, published_timing

MODEL = "Qwen/Qwen3.5-27B-FP8"
QUICK = ServerTiming(ttft_seconds=1.0, tpot_seconds=0.1)

Play = Callable[[ModelServer, aiohttp.ClientSession], Awaitable[None]]


@contextlib.asynccontextmanager
async def serving(timing: ServerTiming, speed: float) -> AsyncIterator[ModelServer]:
    server = ModelServer(model=MODEL, timing=timing, clock=Clock(speed))
    await server.start()
    server.ready = True
    try:
        yield server
    finally:
        await server.cut()


def run(play: Play, timing: ServerTiming = QUICK, speed: float = 50.0) -> None:
    async def all_of_it() -> None:
        connector = aiohttp.TCPConnector(limit=0, force_close=True)
        async with aiohttp.ClientSession(connector=connector) as session, serving(timing, speed) as server:
            await play(server, session)

    asyncio.run(all_of_it())


async def post(session: aiohttp.ClientSession, server: ModelServer, path: str, **body: Any) -> tuple[int, Any]:
    async with session.post(server.url + path, json=body) as response:
        return response.status, await response.json()


async def events(session: aiohttp.ClientSession, server: ModelServer, path: str, **body: Any) -> list[Any]:
    async with session.post(server.url + path, json={**body, "stream": True}) as response:
        assert response.status == 200
        assert response.content_type == "text/event-stream"
        lines = (await response.text()).split("\n\n")
    assert lines[-2:] == ["data: [DONE]", ""]
    return [json.loads(line.removeprefix("data: ")) for line in lines[:-2]]


def test_a_stream_brings_every_token_the_usage_and_the_end() -> None:
    async def play(server: ModelServer, session: aiohttp.ClientSession) -> None:
        options = {"include_usage": True}
        chunks = await events(
            session, server, "/v1/completions", model=MODEL, prompt="x", max_tokens=50, stream_options=options
        )
        *tokens, last = chunks
        assert "".join(chunk["choices"][0]["text"] for chunk in tokens).split() == ["token"] * 50
        assert [chunk["choices"][0]["finish_reason"] for chunk in tokens] == [None] * (len(tokens) - 1) + ["length"]
        assert last["choices"] == []
        assert last["usage"]["completion_tokens"] == 50

    run(play)


def test_a_failing_server_answers_500() -> None:
    async def play(server: ModelServer, session: aiohttp.ClientSession) -> None:
        path = "/v1/completions"
        for failing, expected in ((False, 200), (True, 500), (True, 500)):
            server.failing = failing
            asked = {"prompt": "x", "max_tokens": 1, "stream": True}
            async with session.post(server.url + path, json=asked) as response:
                assert response.status == expected
                await response.read()

    run(play)


def test_on_a_fast_clock_tokens_share_chunks() -> None:
    async def play(server: ModelServer, session: aiohttp.ClientSession) -> None:
        chunks = await events(session, server, "/v1/completions", prompt="x", max_tokens=384)
        assert len(chunks) <= 10
        assert sum(chunk["choices"][0]["text"].count("token") for chunk in chunks) == 384

    run(play, published_timing(), speed=60.0)


def test_the_first_token_comes_when_the_timing_says() -> None:
    async def play(server: ModelServer, session: aiohttp.ClientSession) -> None:
        began = server.clock.now_seconds()
        async with session.post(
            server.url + "/v1/completions", json={"prompt": "x", "max_tokens": 100, "stream": True}
        ) as response:
            await response.content.readany()
            first = server.clock.now_seconds() - began
            await response.read()
        assert first >= 9.99
        # Counted from the beginning: a first token that was read late does not make the last one later.
        assert server.clock.now_seconds() - began >= 10.0 + 99 * 0.1 - 0.01

    run(play, ServerTiming(ttft_seconds=10.0, tpot_seconds=0.1))


def test_nothing_is_answered_before_the_model_is_loaded() -> None:
    async def play(server: ModelServer, session: aiohttp.ClientSession) -> None:
        server.ready = False
        async with session.get(server.url + "/health") as response:
            assert response.status == 503
        status, answer = await post(session, server, "/v1/completions", prompt="x")
        assert status == 503
        assert "loading" in answer["error"]["message"]
        server.ready = True
        async with session.get(server.url + "/health") as response:
            assert response.status == 200

    run(play)


def test_what_is_no_completion_is_refused() -> None:
    async def play(server: ModelServer, session: aiohttp.ClientSession) -> None:
        for body in (b"{", b"[1]", b'{"prompt": 7}'):
            async with session.post(server.url + "/v1/completions", data=body) as response:
                assert response.status == 400

    run(play)


async def stream_to_the_end(session: aiohttp.ClientSession, url: str, tokens: int) -> bool:
    body = {"prompt": "x", "max_tokens": tokens, "stream": True}
    try:
        async with session.post(url + "/v1/completions", json=body) as response:
            return (await response.read()).endswith(b"data: [DONE]\n\n")
    except aiohttp.ClientError:
        return False


def test_a_draining_server_finishes_what_it_can_refuses_what_is_new_and_cuts_the_rest() -> None:
    async def play(server: ModelServer, session: aiohttp.ClientSession) -> None:
        short = asyncio.create_task(stream_to_the_end(session, server.url, 80))  # 8.9 s
        long = asyncio.create_task(stream_to_the_end(session, server.url, 400))  # 40.9 s
        while server.in_flight < 2:
            await asyncio.sleep(0.001)
        listening = server._listening
        assert listening is not None
        drain = asyncio.create_task(server.drain(accept_seconds=10.0, finish_seconds=10.0))
        await asyncio.sleep(server.clock.wall_seconds(1.0))
        late = asyncio.create_task(stream_to_the_end(session, server.url, 400))
        # Not by the clock: on a busy machine both ends of a short time come late.
        while listening.is_serving():
            await asyncio.sleep(0.001)
        with pytest.raises(aiohttp.ClientConnectorError):
            await post(session, server, "/v1/completions", prompt="x")
        ending = await drain
        assert [await short, await long, await late] == [True, False, False]
        assert (ending.in_flight, ending.cut, ending.accepted_late, ending.cut_late) == (2, 1, 1, 1)
        assert ending.share_cut == 0.5

    run(play, speed=25.0)


def test_a_drain_ends_as_soon_as_nothing_is_left() -> None:
    async def play(server: ModelServer, session: aiohttp.ClientSession) -> None:
        short = asyncio.create_task(stream_to_the_end(session, server.url, 11))
        while server.in_flight < 1:
            await asyncio.sleep(0.001)
        ending = await asyncio.wait_for(server.drain(finish_seconds=6000.0), 20.0)
        assert await short
        assert ending.cut == 0

    run(play)


@pytest.mark.parametrize("turns", range(6))
def test_a_client_that_connects_while_the_server_ends_is_told_at_once(turns: int) -> None:
    async def play(server: ModelServer, _: aiohttp.ClientSession) -> None:
        host, port = server.url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port)), timeout=5.0) as client:
            # In one of these turns the loop has taken the connection and not yet handed it over.
            for _ in range(turns):
                await asyncio.sleep(0)
            await server.drain()
            with contextlib.suppress(ConnectionResetError):
                assert await asyncio.to_thread(client.recv, 1) == b""

    run(play)


def test_the_times_come_from_the_ledger() -> None:
    timing, request = published_timing(), published_request()
    assert (timing.ttft_seconds, timing.tpot_seconds) == (5.6, 0.046)
    assert (request.input_tokens, request.output_tokens) == (768, 384)
    # The article says "about 24 seconds".
    assert timing.request_seconds(request) == pytest.approx(23.2, abs=0.1)


@pytest.mark.parametrize("fields", [{"ttft_seconds": -1.0}, {"tpot_seconds": -0.1}])
def test_an_impossible_timing_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="more"):
        ServerTiming(**{"ttft_seconds": 1.0, "tpot_seconds": 0.1, **fields})


def test_the_whole_answer_is_due_with_its_last_token() -> None:
    assert QUICK.request_seconds(Request(input_tokens=1, output_tokens=1)) == 1.0
    assert QUICK.due_seconds(11) == pytest.approx(2.0)
