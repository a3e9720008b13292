"""Prefill and decode of simulated servers: what is transferred, what fails, and what the real vllm-router does with it."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from facts.ledger import value
from lab.results.clock import Clock
from lab.simulators.model_server.engine_server import EngineServer
from lab.simulators.model_server.in_thread import serving
from lab.simulators.model_server.node import Node, Pace, Transfer, from_plain

ROUTER = Path(sys.executable).with_name("vllm-router")
PREFILL, DECODE = Transfer(role="kv_producer"), Transfer(role="kv_consumer")
PROMPT = "one " * 768
AWAY = {"do_remote_decode": True, "do_remote_prefill": False}
MEGABYTES = value("disaggregation.measured.transfer_mb")["tokens-1568"]


def node(transfer: Transfer | None) -> Node:
    return Node(model="m", ranks=1, pace=Pace(fixed_s=0.01), transfer=transfer)


@contextmanager
def server(transfer: Transfer | None, speed: float = 20.0) -> Iterator[EngineServer]:
    with serving(lambda: EngineServer(node(transfer), clock=Clock(speed))) as started:
        yield started


def within(seconds: float, condition: Callable[[], bool]) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"not within {seconds:g} s"
        time.sleep(0.02)


def post(url: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    data = json.dumps({"model": "m", "ignore_eos": True, **body}).encode()
    request = urllib.request.Request(f"{url}/v1/completions", data, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        return error.code, {"text": error.read().decode()}


def read(one: EngineServer) -> dict[str, float]:
    """The samples of /metrics that tell where prompts came from."""
    with urllib.request.urlopen(f"{one.url}/metrics", timeout=10) as answer:
        families = text_string_to_metric_families(answer.read().decode())
        found = {}
        for sample in (sample for family in families for sample in family.samples):
            name = sample.name.removeprefix("vllm:")
            if name == "prompt_tokens_by_source_total":
                found[sample.labels["source"]] = sample.value
            elif name.startswith("nixl_") and not name.endswith(("_bucket", "_created")):
                found[name] = sample.value
        return found


def prefilled(one: EngineServer) -> dict[str, Any]:
    status, answer = post(one.url, {"prompt": PROMPT, "max_tokens": 1, "kv_transfer_params": AWAY})
    assert status == 200
    params: dict[str, Any] = answer["kv_transfer_params"]
    return params


def test_decode_computes_one_token_of_a_prompt_that_prefill_read() -> None:
    with server(PREFILL) as prefill, server(DECODE) as decode:
        params = prefilled(prefill)
        assert params["do_remote_prefill"] is True
        status, answer = post(decode.url, {"prompt": PROMPT, "max_tokens": 8, "kv_transfer_params": params})
        assert (status, answer["usage"]["completion_tokens"]) == (200, 8)
        found = read(decode)
        assert (found["external_kv_transfer"], found["local_compute"]) == (767, 1)
        assert found["nixl_bytes_transferred_sum"] / 1e6 == pytest.approx(MEGABYTES, rel=0.002)
        assert found["nixl_bytes_transferred_sum"] / found["nixl_xfer_time_seconds_sum"] == pytest.approx(50e9)
        assert found["nixl_num_failed_transfers_total"] == 0
        assert read(prefill)["local_compute"] == 768
        assert prefill.transfers is not None
        assert prefill.transfers.kept == 0


def test_without_the_request_s_parameters_nothing_moves_and_every_answer_is_right() -> None:
    """The article's failure."""
    with server(PREFILL) as prefill, server(DECODE) as decode:
        _, answer = post(prefill.url, {"prompt": PROMPT, "max_tokens": 1})
        assert answer["kv_transfer_params"] is None
        status, answer = post(
            decode.url, {"prompt": PROMPT, "max_tokens": 8, "kv_transfer_params": answer["kv_transfer_params"]}
        )
        assert (status, answer["usage"]["completion_tokens"]) == (200, 8)
        found = read(decode)
        assert (found["external_kv_transfer"], found["local_compute"]) == (0, 768)
        assert found["nixl_bytes_transferred_count"] == 0


@pytest.mark.parametrize("recomputes", [False, True])
def test_a_transfer_from_a_prefill_that_is_gone_fails_or_is_computed(recomputes: bool) -> None:
    with server(Transfer(role="kv_consumer", recomputes=recomputes)) as decode:
        with server(PREFILL) as prefill:
            params = prefilled(prefill)
        status, _ = post(decode.url, {"prompt": PROMPT, "max_tokens": 8, "kv_transfer_params": params})
        found = read(decode)
        assert status == (200 if recomputes else 500)
        assert found["local_compute"] == (768 if recomputes else 0)
        assert found["nixl_num_failed_transfers_total"] == 1
        assert found["nixl_bytes_transferred_count"] == 0


def test_prefill_keeps_a_prompt_for_its_lease_and_gives_it_once() -> None:
    with server(Transfer(role="kv_producer", lease_seconds=2.0)) as prefill, server(DECODE) as decode:
        late = prefilled(prefill)
        within(10, lambda: read(prefill)["nixl_num_kv_expired_reqs_total"] == 1)
        once = prefilled(prefill)
        statuses = [
            post(decode.url, {"prompt": PROMPT, "max_tokens": 1, "kv_transfer_params": params})[0]
            for params in (late, once, once)
        ]
        assert statuses == [500, 200, 500]


def test_a_server_without_a_connector_has_none_of_its_metrics() -> None:
    with server(None) as plain:
        _, answer = post(plain.url, {"prompt": PROMPT, "max_tokens": 1, "kv_transfer_params": AWAY})
        assert answer["kv_transfer_params"] is None
        assert not [name for name in read(plain) if name.startswith("nixl_")]


def test_a_node_survives_being_written_down() -> None:
    from dataclasses import asdict

    for transfer in (None, PREFILL):
        assert from_plain(Node, json.loads(json.dumps(asdict(node(transfer))))) == node(transfer)


# The real router -------------------------------------------------------------------------------------------------------


@contextmanager
def router(prefill: str, decode: str) -> Iterator[str]:
    """vllm-router 0.1.17 before one prefill and one decode server."""
    with socket.socket() as free, socket.socket() as metrics:
        free.bind(("127.0.0.1", 0))
        metrics.bind(("127.0.0.1", 0))
        port, metrics_port = free.getsockname()[1], metrics.getsockname()[1]
    command = [str(ROUTER), "--host", "127.0.0.1", "--port", str(port), "--prometheus-port", str(metrics_port)]
    command += ["--vllm-pd-disaggregation", "--kv-connector", "nixl", "--prefill", prefill, "--decode", decode]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        within(30, lambda: _answers(f"http://127.0.0.1:{port}"))
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(20)


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/health", timeout=2) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


needs_router = pytest.mark.skipif(not ROUTER.exists(), reason="vllm-router is not installed: make setup-rehearsal")


@needs_router
@pytest.mark.slow
def test_the_real_router_asks_for_the_transfer() -> None:
    with server(PREFILL) as prefill, server(DECODE) as decode, router(prefill.url, decode.url) as url:
        for _ in range(4):
            status, answer = post(url, {"prompt": PROMPT, "max_tokens": 8})
            assert (status, answer["usage"]["completion_tokens"]) == (200, 8)
        found = read(decode)
        assert (found["external_kv_transfer"], found["local_compute"]) == (4 * 767, 4)


@needs_router
@pytest.mark.slow
def test_behind_the_real_router_null_parameters_are_200_and_nothing_moves() -> None:
    with server(None) as prefill, server(DECODE) as decode, router(prefill.url, decode.url) as url:
        status, answer = post(url, {"prompt": PROMPT, "max_tokens": 8})
        assert (status, answer["usage"]["completion_tokens"]) == (200, 8)
        found = read(decode)
        assert (found["external_kv_transfer"], found["local_compute"]) == (0, 768)
        assert found["nixl_bytes_transferred_count"] == 0


@needs_router
@pytest.mark.slow
@pytest.mark.parametrize("gone", ["prefill", "decode"])
def test_the_real_router_does_not_stand_in_for_a_server_that_is_gone(gone: str) -> None:
    with ExitStack() as stack:
        ends = {name: stack.enter_context(ExitStack()) for name in ("prefill", "decode")}
        prefill = ends["prefill"].enter_context(server(PREFILL))
        decode = ends["decode"].enter_context(server(DECODE))
        url = stack.enter_context(router(prefill.url, decode.url))
        assert post(url, {"prompt": PROMPT, "max_tokens": 2})[0] == 200
        lost = ends[gone]
        address = (prefill if gone == "prefill" else decode).url
        lost.close()
        status, answer = post(url, {"prompt": PROMPT, "max_tokens": 2})
        assert status >= 500
        assert _answers(url), "its health check does not notice"
        assert address.removeprefix("http://") in answer["text"], "its answer has the internal address"
