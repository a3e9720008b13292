from __future__ import annotations

import json
import socket
import threading
import time
import urllib.error
import urllib.request
from typing import Any

import pytest

from tests.support.simulators.clock import Clock
from tests.support.simulators.model_server.engine_server import EngineServer
from tests.support.simulators.model_server.in_thread import serving
from tests.support.simulators.model_server.node import Cache, Faults, Node, Pace

MODEL = "Qwen/Qwen3.5-27B-FP8"


def node(**fields: Any) -> Node:
    return Node(**{"model": MODEL, "ranks": 2, "pace": Pace(fixed_s=0.002), "max_model_len": 4096, **fields})


def post(url: str, path: str, headers: dict[str, str] | None = None, **body: Any) -> tuple[int, str]:
    request = urllib.request.Request(
        url + path, data=json.dumps(body).encode(), headers={"Content-Type": "application/json", **(headers or {})}
    )
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def completion(server: EngineServer, headers: dict[str, str] | None = None, **body: Any) -> dict[str, Any]:
    fields = {"prompt": "a b c", "max_tokens": 9, "ignore_eos": True, **body}
    status, text = post(server.url, "/v1/completions", headers, **fields)
    assert status == 200, text
    answer: dict[str, Any] = json.loads(text)
    return answer


def streamed(server: EngineServer, path: str = "/v1/completions", **body: Any) -> list[dict[str, Any]]:
    fields = {"stream": True, "stream_options": {"include_usage": True}, "max_tokens": 9, "ignore_eos": True, **body}
    status, text = post(server.url, path, **fields)
    assert status == 200, text
    *events, end, nothing = text.split("\n\n")
    assert (end, nothing) == ("data: [DONE]", "")
    return [json.loads(event.removeprefix("data: ")) for event in events]


def chat(server: EngineServer, **body: Any) -> dict[str, Any]:
    fields = {"messages": [{"role": "user", "content": "hello"}], "max_tokens": 9, "ignore_eos": True, **body}
    status, text = post(server.url, "/v1/chat/completions", **fields)
    assert status == 200, text
    choice: dict[str, Any] = json.loads(text)["choices"][0]
    return choice


def get(server: EngineServer, path: str) -> str:
    with urllib.request.urlopen(server.url + path, timeout=20) as answer:
        return str(answer.read().decode())


def readings(server: EngineServer) -> dict[str, float]:
    lines = [line for line in get(server, "/metrics").splitlines() if not line.startswith("#")]
    return {line.rsplit(" ", 1)[0]: float(line.rsplit(" ", 1)[1]) for line in lines}


def reading(server: EngineServer, name: str, engine: int, more: str = "") -> float:
    return readings(server)[f'vllm:{name}{{engine="{engine}",{more}model_name="{MODEL}"}}']


def sent(server: EngineServer, **fields: Any) -> socket.socket:
    """A connection on which a streamed completion was asked for."""
    host, port = server.url.removeprefix("http://").split(":")
    body = json.dumps({"prompt": "x", "stream": True, "ignore_eos": True, **fields}).encode()
    client = socket.create_connection((host, int(port)), timeout=10)
    head = f"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
    client.sendall(head.encode() + body)
    return client


def together(*work: Any) -> None:
    threads = [threading.Thread(target=one) for one in work]
    for one in threads:
        one.start()
    for one in threads:
        one.join()


def in_flight_together(server: EngineServer, clock: Clock, *work: Any) -> dict[str, float]:
    """All of it at once, however long a busy machine takes to begin it: the clock crawls until everything is in. Returns the
    metrics of that moment.
    """
    found: dict[str, float] = {}
    fast, clock.speed = clock.speed, 0.02

    def begin() -> None:
        until = time.monotonic() + 15
        while (server.in_flight < len(work) or not found) and time.monotonic() < until:
            time.sleep(0.002)
            if server.in_flight == len(work):
                found.update(readings(server))
        clock.speed = fast

    together(*work, begin)
    return found


def test_a_completion_has_as_many_tokens_as_asked_and_says_so() -> None:
    with serving(lambda: EngineServer(node())) as server:
        answer = completion(server, prompt=[5] * 40)
        assert answer["choices"][0]["text"].split() == ["token"] * 9
        assert answer["choices"][0]["finish_reason"] == "length"
        assert answer["usage"] == {
            "prompt_tokens": 40,
            "total_tokens": 49,
            "completion_tokens": 9,
            "prompt_tokens_details": None,
        }


def test_a_streams_chunks_are_steps_and_its_usage_counts_tokens_not_chunks() -> None:
    with serving(lambda: EngineServer(node(ranks=1, speculative_tokens=3, acceptance=1.0))) as server:
        *chunks, last = streamed(server, prompt="one two three four")
        assert [chunk["choices"][0]["text"].count("token") for chunk in chunks] == [1, 4, 4]
        assert [chunk["choices"][0]["finish_reason"] for chunk in chunks] == [None, None, "length"]
        assert last["choices"] == []
        assert last["usage"] == {"prompt_tokens": 4, "total_tokens": 13, "completion_tokens": 9}
        assert reading(server, "spec_decode_num_drafts_total", 0) == 2
        assert reading(server, "spec_decode_num_draft_tokens_total", 0) == 6
        assert reading(server, "spec_decode_num_accepted_tokens_total", 0) == 6
        lines = get(server, "/metrics")
        assert f'num_accepted_tokens_per_pos_total{{engine="0",model_name="{MODEL}",position="2"}} 2.0' in lines


def test_drafts_are_accepted_as_often_as_said() -> None:
    with serving(lambda: EngineServer(node(ranks=1, pace=Pace(fixed_s=1e-5), speculative_tokens=1))) as server:
        completion(server, max_tokens=1500)
        drafts = reading(server, "spec_decode_num_drafts_total", 0)
        accepted = reading(server, "spec_decode_num_accepted_tokens_total", 0)
        assert accepted / drafts == pytest.approx(0.9, abs=0.03)


def test_without_speculation_there_is_no_metric_of_it() -> None:
    with serving(lambda: EngineServer(node())) as server:
        assert "spec_decode" not in get(server, "/metrics")


def test_a_chat_reasons_first_and_content_follows_in_its_own_field() -> None:
    with serving(lambda: EngineServer(node())) as server:
        message = chat(server)["message"]
        assert (message["reasoning"].split(), message["content"].split()) == (["token"] * 4, ["token"] * 5)
        deltas = [
            chunk["choices"][0]["delta"]
            for chunk in streamed(server, "/v1/chat/completions", messages=[{"role": "user", "content": "x"}])
            if chunk["choices"]
        ]
        assert deltas[0] == {"role": "assistant", "content": ""}
        assert [next(iter(delta)) for delta in deltas[1:]] == ["reasoning"] * 4 + ["content"] * 5


def test_a_chat_that_switches_thinking_off_has_content_only() -> None:
    with serving(lambda: EngineServer(node())) as server:
        message = chat(server, chat_template_kwargs={"enable_thinking": False})["message"]
        assert (message["reasoning"], message["content"].split()) == (None, ["token"] * 9)
        assert chat(server, include_reasoning=False)["message"]["reasoning"] is None


def test_an_answer_that_ends_while_the_model_thinks_has_no_content() -> None:
    with serving(lambda: EngineServer(node())) as server:
        message = chat(server, max_tokens=1)["message"]
        assert (message["reasoning"], message["content"]) == (" token", None)


def test_the_model_ends_its_answer_itself_unless_told_not_to() -> None:
    with serving(lambda: EngineServer(node(mean_answer_tokens=8))) as server:
        free = completion(server, ignore_eos=False, max_tokens=500)
        assert free["choices"][0]["finish_reason"] == "stop"
        assert 2 <= free["usage"]["completion_tokens"] <= 14
        assert completion(server, ignore_eos=False, max_tokens=500)["usage"] == free["usage"]
        least = completion(server, ignore_eos=False, max_tokens=500, min_tokens=40)
        assert least["usage"]["completion_tokens"] == 40
        assert completion(server, max_tokens=60)["usage"]["completion_tokens"] == 60
        finished = readings(server)
        stops = [value for key, value in finished.items() if 'finished_reason="stop"' in key and "_total" in key]
        assert sum(stops) == 3


def test_a_request_beyond_the_context_is_refused_and_a_chat_may_use_all_of_it() -> None:
    with serving(lambda: EngineServer(node(max_model_len=32, reasons=False))) as server:
        status, text = post(server.url, "/v1/completions", prompt=[1] * 20, max_tokens=13)
        assert status == 400
        assert "context of 32" in text
        status, text = post(server.url, "/v1/completions", prompt="x", max_tokens=4, min_tokens=5)
        assert status == 400
        assert "min_tokens" in text
        answer = chat(server, max_tokens=None, messages=[{"role": "user", "content": "a b"}])
        assert len(answer["message"]["content"].split()) == 30


@pytest.mark.parametrize(
    ("path", "body", "status", "named"),
    [
        ("/v1/completions", {"model": "gpt-2", "prompt": "x"}, 404, "`gpt-2`"),
        ("/v1/completions", {}, 400, "prompt:"),
        ("/v1/completions", {"prompt": ["a", "b"]}, 400, "prompt:"),
        ("/v1/completions", {"prompt": "x", "max_tokens": 0}, 400, "max_tokens:"),
        ("/v1/chat/completions", {"messages": []}, 400, "messages:"),
        ("/v1/chat/completions", {"messages": [{"role": "user"}]}, 400, "messages:"),
    ],
)
def test_a_wrong_request_is_refused_by_its_field(path: str, body: dict[str, Any], status: int, named: str) -> None:
    with serving(lambda: EngineServer(node())) as server:
        got, text = post(server.url, path, **body)
    error = json.loads(text)["error"]
    assert (got, error["code"]) == (status, status)
    assert named in error["message"]


def test_a_chats_messages_may_come_in_parts() -> None:
    parts = [{"type": "text", "text": "a b"}, {"type": "text", "text": " c"}]
    messages = [{"role": "user", "content": "x "}, {"role": "user", "content": parts}]
    with serving(lambda: EngineServer(node())) as server:
        status, text = post(server.url, "/v1/chat/completions", messages=messages, max_tokens=2)
    answer = json.loads(text)
    assert (status, answer["object"], answer["usage"]["prompt_tokens"]) == (200, "chat.completion", 4)


def test_versions_and_models_are_told() -> None:
    with serving(lambda: EngineServer(node(root="/weights"))) as server:
        assert json.loads(get(server, "/version")) == {"version": "0.18.1"}
        (card,) = json.loads(get(server, "/v1/models"))["data"]
        assert (card["id"], card["root"], card["max_model_len"]) == (MODEL, "/weights", 4096)


def test_requests_spread_over_ranks_and_a_header_pins_one() -> None:
    clock = Clock(1.0)
    with serving(lambda: EngineServer(node(ranks=4), clock=clock)) as server:
        in_flight_together(server, clock, *[lambda: completion(server, max_tokens=60)] * 8)
        assert [reading(server, "generation_tokens_total", rank) for rank in range(4)] == [120] * 4
        completion(server, {"X-data-parallel-rank": "3"}, max_tokens=5)
        assert reading(server, "generation_tokens_total", 3) == 125
        status, text = post(server.url, "/v1/completions", {"X-data-parallel-rank": "4"}, prompt="x")
        assert status == 400
        assert "0 to 3" in text


def test_a_full_engine_queues_and_its_metrics_show_it() -> None:
    clock = Clock(1.0)
    with serving(lambda: EngineServer(node(ranks=1, max_num_seqs=1), clock=clock)) as server:
        found = in_flight_together(server, clock, *[lambda: completion(server, max_tokens=30)] * 3)
        assert found[f'vllm:num_requests_running{{engine="0",model_name="{MODEL}"}}'] == 1
        assert found[f'vllm:num_requests_waiting{{engine="0",model_name="{MODEL}"}}'] == 2
        assert reading(server, "generation_tokens_total", 0) == 90
        assert reading(server, "num_requests_waiting", 0) == 0


def test_more_sequences_and_more_tokens_make_a_step_longer() -> None:
    pace = Pace(fixed_s=0.03, sequence_s=0.001, token_s=0.0001, uncaptured_s=0.02, captured_tokens=100)
    assert pace.step_s(10, 20) == pytest.approx(0.042)
    assert pace.step_s(10, 200) == pytest.approx(0.08)
    with pytest.raises(ValueError, match="a step takes time"):
        Pace(fixed_s=0.0)


def test_a_cache_that_is_too_small_preempts_and_every_answer_is_whole_all_the_same() -> None:
    small = node(ranks=1, cache=Cache(blocks=10, block_tokens=16, prefix_caching=False))
    clock = Clock(1.0)
    with serving(lambda: EngineServer(small, clock=clock)) as server:
        usages: list[int] = []
        answer = [lambda: usages.append(completion(server, max_tokens=100)["usage"]["completion_tokens"])]
        in_flight_together(server, clock, *answer * 3)
        assert usages == [100] * 3
        assert reading(server, "num_preemptions_total", 0) >= 1
        assert reading(server, "kv_cache_usage_perc", 0) == 0


def test_a_prompt_that_begins_like_another_hits_whole_blocks() -> None:
    with serving(lambda: EngineServer(node(ranks=1, cache=Cache(block_tokens=16)))) as server:
        shared = list(range(40))
        completion(server, prompt=[*shared, 1, 2])
        completion(server, prompt=[*shared, 3, 4])
        assert reading(server, "prefix_cache_queries_total", 0) == 84
        assert reading(server, "prefix_cache_hits_total", 0) == 32
        by_source = readings(server)
        assert (
            by_source[f'vllm:prompt_tokens_by_source_total{{engine="0",model_name="{MODEL}",source="local_cache_hit"}}']
            == 32
        )


def test_speculation_gives_up_the_last_block_of_a_hit_as_vllms_does() -> None:
    with serving(lambda: EngineServer(node(ranks=1, cache=Cache(block_tokens=16), speculative_tokens=1))) as server:
        for tail, hits in ((0, 0), (1, 16), (2, 32)):
            completion(server, prompt=[*range(40), tail])
            assert reading(server, "prefix_cache_hits_total", 0) == hits


def test_the_cache_configuration_is_told_by_labels() -> None:
    cache = Cache(blocks=321, block_tokens=1584, dtype="fp8_e4m3", labels={"mamba_cache_mode": "align"})
    with serving(lambda: EngineServer(node(cache=cache))) as server:
        lines = [line for line in get(server, "/metrics").splitlines() if line.startswith("vllm:cache_config_info")]
        assert len(lines) == 2
        for part in ('num_gpu_blocks="321"', 'cache_dtype="fp8_e4m3"', 'block_size="1584"', 'mamba_cache_mode="align"'):
            assert part in lines[1]
        assert 'engine="1"' in lines[1]


def test_a_client_that_goes_is_counted_as_aborted_and_frees_its_blocks() -> None:
    with serving(lambda: EngineServer(node(ranks=1, pace=Pace(fixed_s=0.01)))) as server:
        with sent(server, max_tokens=3000) as client:
            client.recv(100)
        until = time.monotonic() + 5
        while server.engines[0].finished["abort"] == 0 and time.monotonic() < until:
            time.sleep(0.01)
        assert server.engines[0].finished["abort"] == 1
        assert server.engines[0].blocks_used == 0


def test_a_fast_clock_makes_fast_steps() -> None:
    slow = node(ranks=1, pace=Pace(fixed_s=1.0))
    with serving(lambda: EngineServer(slow, clock=Clock(200))) as server:
        began = time.monotonic()
        completion(server, max_tokens=20)
        # Without it: 20 s.
        assert 0.09 <= time.monotonic() - began < 10


def test_a_dead_engine_is_told_by_its_health() -> None:
    with serving(lambda: EngineServer(node(), faults=Faults(engine_dead=True))) as server:
        with pytest.raises(urllib.error.HTTPError) as caught:
            get(server, "/health")
        with caught.value as error:
            assert error.code == 503


@pytest.mark.parametrize(
    "make",
    [
        lambda: Faults(cut_share=1.5),
        lambda: node(ranks=0),
        lambda: node(acceptance=1.1),
        lambda: node(speculative_tokens=-1),
        lambda: node(cache=Cache(blocks=0)),
    ],
)
def test_impossible_servers_are_refused(make: Any) -> None:
    with pytest.raises(ValueError, match="got"):
        make()
