"""The servers' metrics during a run: what is kept of a page, and a collector that waits for no server but each."""

from __future__ import annotations

import gzip
import queue
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.bench.folder import MetricsSample
from tests.support.simulators.local_server import Answer, Request, served
from workloads.benchmark.pods import collect_metrics
from workloads.benchmark.pods.collect_metrics import Collector
from workloads.benchmark.pods.server_metrics import ScrapeError, Server, in_flight, parse, resolve, split_address

PAGE = b"""# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="m"} 3.0
vllm:num_requests_running{engine="1",model_name="m"} 4.0
vllm:num_requests_running_by_somebody{engine="1",model_name="m"} 4.0
vllm:num_requests_waiting{engine="0",model_name="m"} 1.0
vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.25
vllm:request_success_total{engine="0",finished_reason="length",model_name="m"} 7.0
vllm:request_success_total{engine="0",finished_reason="abort",model_name="m"} 0.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",model_name="m",position="1"} 5e3
vllm:prompt_tokens_total{engine="0",model_name="a \\"}\\" b"} 12.0
vllm:time_to_first_token_seconds_bucket{engine="0",le="0.001",model_name="m"} 0.0
vllm:cache_config_info{block_size="16",cache_dtype="fp8",engine="0",num_gpu_blocks="1,000"} 1.0
vllm:cache_config_info{block_size="32",cache_dtype="fp8",engine="1",num_gpu_blocks="999"} 1.0
vllm:generation_tokens_total{engine="0",model_name="m"} not-a-number
vllm:num_preemptions_total 3.0
python_gc_objects_collected_total{generation="0"} 2.0
"""


def test_what_is_kept_of_a_page() -> None:
    reading = parse(PAGE)
    assert reading.values == {
        "vllm:num_requests_running": {"0": 3.0, "1": 4.0},
        "vllm:num_requests_waiting": {"0": 1.0},
        "vllm:kv_cache_usage_perc": {"0": 0.25},
        "vllm:request_success_total{finished_reason=length}": {"0": 7.0},
        "vllm:request_success_total{finished_reason=abort}": {"0": 0.0},
        "vllm:spec_decode_num_accepted_tokens_per_pos_total{position=1}": {"0": 5000.0},
        "vllm:prompt_tokens_total": {"0": 12.0},
    }
    assert reading.info == {"block_size": "16", "cache_dtype": "fp8", "num_gpu_blocks": "1,000"}
    assert reading.in_flight == 8.0


@given(st.binary(max_size=300))
def test_no_page_is_too_strange_to_be_read(page: bytes) -> None:
    assert parse(b'vllm:num_requests_running{engine="0"} 1\n' + page + b"\n" + PAGE).in_flight >= 0


def test_of_a_split_pod_the_engines_of_decode_are_kept() -> None:
    lines = [
        b'vllm:generation_tokens_total{engine="0",model_name="m",role="prefill"} 3',
        b'vllm:generation_tokens_total{engine="1",model_name="m",role="decode"} 300',
    ]
    assert parse(b"\n".join(lines)).values == {"vllm:generation_tokens_total": {"1": 300.0}}


def test_addresses() -> None:
    assert split_address("servers.ns.svc:8000") == [("servers.ns.svc", 8000)]
    assert split_address("127.0.0.1:1, [::1]:2") == [("127.0.0.1", 1), ("::1", 2)]
    assert Server("::1", 2).name == "[::1]:2"
    assert resolve([("127.0.0.1", 2), ("127.0.0.1", 1), ("127.0.0.1", 1)]) == [("127.0.0.1", 1), ("127.0.0.1", 2)]
    for wrong in ("servers", "servers:", "servers:0", ":8000", "servers:http"):
        with pytest.raises(ValueError, match="is not HOST:PORT"):
            split_address(wrong)
    with pytest.raises(ScrapeError, match=r"no-such-host\.invalid has no address"):
        resolve([("no-such-host.invalid", 1)])


OF_PAGE = Answer(200, PAGE)


def server_of(answer: Callable[[Request], Answer | None] = lambda _: OF_PAGE) -> AbstractContextManager[int]:
    """The port of a server that keeps connections."""
    return served(answer, keep_alive=True)


def after(seconds: float) -> Answer:
    time.sleep(seconds)
    return OF_PAGE


def test_a_connection_that_the_server_closed_is_opened_anew() -> None:
    # The third request finds the connection closed without a word, as servers do after an idle time.
    answers = [OF_PAGE, OF_PAGE, None, OF_PAGE, OF_PAGE]
    with server_of(lambda _: answers.pop(0)) as port:
        server = Server("127.0.0.1", port)
        assert [server.read().in_flight for _ in range(4)] == [8.0] * 4
        server.close()
    assert answers == []


def read_once(port: int, timeout_seconds: float = 5.0) -> None:
    server = Server("127.0.0.1", port, timeout_seconds=timeout_seconds)
    try:
        server.read()
    finally:
        server.close()


def test_a_reading_that_fails_says_why() -> None:
    with server_of(lambda _: Answer(503, b"")) as port, pytest.raises(ScrapeError, match="HTTP 503"):
        read_once(port)
    with server_of(lambda _: after(0.3)) as port, pytest.raises(ScrapeError, match=r"no answer within 0\.05 s"):
        read_once(port, 0.05)
    with pytest.raises(ScrapeError, match="refused"):
        read_once(1)
    with pytest.raises(ScrapeError, match=r"127.0.0.1:1: .*refused"):
        in_flight([("127.0.0.1", 1)])


def samples_of(collector: Collector) -> list[MetricsSample]:
    found = []
    while (sample := collector.samples.get(timeout=5)) is not None:
        found.append(MetricsSample.model_validate(sample))
    return found


def test_a_slow_server_holds_up_no_other() -> None:
    with server_of(lambda _: after(0.7)) as slow, server_of() as quick:
        hosts = [("127.0.0.1", slow), ("127.0.0.1", quick)]
        collector = Collector(hosts, period=0.05, resolve_every=5.0, timeout=2.0)
        begun = time.monotonic()
        collector.start()
        time.sleep(0.5)
        collector.end()
        seconds = time.monotonic() - begun
        samples = samples_of(collector)
    of_quick = [one for one in samples if one.server == f"127.0.0.1:{quick}"]
    assert 3 <= len(of_quick) <= seconds / 0.05 + 2
    assert [one.info is None for one in of_quick] == [False] + [True] * (len(of_quick) - 1)
    assert all(one.error is None for one in samples)
    # The one in progress when it was told to end, and the last.
    assert [one.server for one in samples].count(f"127.0.0.1:{slow}") == 2


def test_tokens_after_the_last_reading_are_not_lost() -> None:
    counted = 1

    def page(_: Request) -> Answer:
        return Answer(200, f'vllm:generation_tokens_total{{engine="0"}} {counted}\n'.encode())

    with server_of(page) as port:
        collector = Collector([("127.0.0.1", port)], period=60.0, resolve_every=5.0, timeout=2.0)
        collector.start()
        first = collector.samples.get(timeout=5)
        counted = 9
        collector.end()
        (last,) = samples_of(collector)
    assert first is not None
    assert first["values"]["vllm:generation_tokens_total"] == {"0": 1.0}
    assert last.values["vllm:generation_tokens_total"] == {"0": 9.0}


def test_servers_that_come_and_go_are_followed_and_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    with server_of() as one, server_of() as two:
        first, second = ("127.0.0.1", one), ("127.0.0.1", two)
        answers: Iterator[Any] = iter([[first], [first, second], ScrapeError("the resolver is tired"), [second]])
        last: list[Any] = [[second]]

        def resolve_next(_: Any) -> Any:
            answer = next(answers, last[0])
            if isinstance(answer, Exception):
                raise answer
            return answer

        monkeypatch.setattr(collect_metrics, "resolve", resolve_next)
        collector = Collector([("servers", 8000)], period=0.02, resolve_every=0.1, timeout=1.0)
        collector.start()
        time.sleep(0.6)
        collector.end()
        samples = samples_of(collector)
    by_server = {f"127.0.0.1:{port}": [s for s in samples if s.server == f"127.0.0.1:{port}"] for port in (one, two)}
    gone = by_server[f"127.0.0.1:{one}"]
    assert gone[-1].error == "no longer among the addresses" or gone[-2].error == "no longer among the addresses"
    come = by_server[f"127.0.0.1:{two}"]
    assert come[0].at > gone[0].at
    assert come[0].info is not None
    assert come[-1].at > gone[-1].at
    assert [one.error for one in samples if one.server == "servers:8000"] == ["the resolver is tired"]


def test_the_file_has_its_name_once_it_is_whole(tmp_path: Path) -> None:
    samples: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
    file = tmp_path / "m.jsonl.gz"
    writer = threading.Thread(target=collect_metrics.write_samples, args=(samples, file))
    writer.start()
    samples.put({"at": 1.0, "server": "a"})
    time.sleep(0.05)
    assert not file.exists()
    samples.put(None)
    writer.join()
    assert gzip.decompress(file.read_bytes()) == b'{"at":1.0,"server":"a"}\n'
    assert [one.name for one in tmp_path.iterdir()] == ["m.jsonl.gz"]
