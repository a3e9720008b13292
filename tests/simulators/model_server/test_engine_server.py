"""What the tests of others rely on without asking: what is refused, which engine answers, what is counted."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any

import pytest

from tests.support.simulators.model_server.engine_server import EngineServer
from tests.support.simulators.model_server.in_thread import serving
from tests.support.simulators.model_server.node import Node, Pace

COMPLETIONS, CHAT = "/v1/completions", "/v1/chat/completions"


def server(**fields: Any) -> EngineServer:
    return EngineServer(Node(**{"model": "m", "pace": Pace(fixed_s=0.002), "max_model_len": 32, **fields}))


def post(url: str, headers: dict[str, str] | None = None, **body: Any) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(
            urllib.request.Request(url, json.dumps(body).encode(), headers or {}), timeout=20
        ) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_a_streams_chunks_are_steps_and_its_usage_counts_tokens_not_chunks() -> None:
    with serving(lambda: server(ranks=1, speculative_tokens=3, acceptance=1.0)) as one:
        options: Any = {"stream": True, "stream_options": {"include_usage": True}}
        _, text = post(one.url + COMPLETIONS, prompt="one two three four", max_tokens=9, ignore_eos=True, **options)
    *events, end, nothing = text.split("\n\n")
    *chunks, last = (json.loads(event.removeprefix("data: ")) for event in events)
    assert (end, nothing) == ("data: [DONE]", "")
    assert [chunk["choices"][0]["text"].count("token") for chunk in chunks] == [1, 4, 4]
    assert [chunk["choices"][0]["finish_reason"] for chunk in chunks] == [None, None, "length"]
    assert (last["choices"], last["usage"]) == ([], {"prompt_tokens": 4, "total_tokens": 13, "completion_tokens": 9})
    (engine,) = one.engines
    assert (engine.drafts, engine.accepted_by_position) == (2, [2, 2, 2])


def test_a_header_pins_an_engine() -> None:
    with serving(lambda: server(ranks=4)) as one:
        for rank, status in ((3, 200), (3, 200), (4, 400)):
            headers = {"X-data-parallel-rank": str(rank)}
            assert post(one.url + COMPLETIONS, headers, prompt="x", max_tokens=5, ignore_eos=True)[0] == status
    assert [engine.generation_tokens for engine in one.engines] == [0, 0, 0, 10]


@pytest.mark.parametrize(
    ("path", "body", "status", "named"),
    [
        (COMPLETIONS, {"model": "gpt-2", "prompt": "x"}, 404, "`gpt-2`"),
        (COMPLETIONS, {}, 400, "prompt:"),
        (COMPLETIONS, {"prompt": ["a", "b"]}, 400, "prompt:"),
        (COMPLETIONS, {"prompt": "x", "max_tokens": 0}, 400, "max_tokens:"),
        (COMPLETIONS, {"prompt": [1] * 20, "max_tokens": 13}, 400, "context"),
        (CHAT, {"messages": [{"role": "user", "content": "x"}]}, 400, "stream:"),
        (CHAT, {"messages": [], "stream": True}, 400, "messages:"),
        (CHAT, {"messages": [{"role": "user"}], "stream": True}, 400, "messages:"),
    ],
)
def test_a_wrong_request_is_refused_by_its_field(path: str, body: dict[str, Any], status: int, named: str) -> None:
    with serving(server) as one:
        got, text = post(one.url + path, **body)
    error = json.loads(text)["error"]
    assert (got, error["code"]) == (status, status)
    assert named in error["message"]
