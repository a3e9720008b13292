"""The real vllm-router with the command of a server pod that has prefill apart from decode: it asks prefill first, hands on where the
prompt's cache is, and does not stand in for a server that is gone.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.simulators.local_server import Answer, Request, served
from tests.support.waiting import until
from workloads import names, vllm_router

PROGRAM = Path(sys.executable).with_name("vllm-router")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not os.environ.get("CI") and not PROGRAM.exists(), reason="vllm-router is not installed: make setup-rehearsal"
    ),
]
KEPT = {"remote_engine_id": "prefill", "remote_block_ids": [[0]], "remote_host": "127.0.0.1", "remote_port": 5600}
PROMPT = {"model": "m", "prompt": "one " * 64, "max_tokens": 8}


class Servers:
    """One of prefill and one of decode, and what they were asked."""

    def __init__(self, closing: ExitStack) -> None:
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.of_health = {"prefill": 200, "decode": 200}
        self.ends = {name: closing.enter_context(ExitStack()) for name in ("prefill", "decode")}
        self.ports = {name: end.enter_context(served(self._of(name))) for name, end in self.ends.items()}

    def _of(self, name: str) -> Any:
        def answer(request: Request) -> Answer:
            if request.method == "GET":
                return Answer.of_json(self.of_health[name], {})
            self.asked.append((name, json.loads(request.content)))
            kept = {"kv_transfer_params": KEPT} if name == "prefill" else {}
            return Answer.of_json(200, {"choices": [{"index": 0, "text": name}], **kept})

        return answer


@contextmanager
def routed() -> Iterator[tuple[str, Servers]]:
    """A router that is ready, on free ports."""
    with ExitStack() as closing:
        servers = Servers(closing)
        free = [closing.enter_context(socket.socket()) for _ in range(2)]
        for one in free:
            one.bind(("127.0.0.1", 0))
        own, metrics = (one.getsockname()[1] for one in free)
        words = vllm_router.pod_command([servers.ports["prefill"]], [servers.ports["decode"]], startup_seconds=30)
        here = {
            "--host=0.0.0.0": "--host=127.0.0.1",
            f"--port={names.HTTP_PORT}": f"--port={own}",
            f"--prometheus-port={names.POD_ROUTER_METRICS_PORT}": f"--prometheus-port={metrics}",
        }
        assert set(here) <= set(words)
        for one in free:
            one.close()
        process = subprocess.Popen(
            [str(PROGRAM), *(here.get(word, word) for word in words[1:])],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            until(lambda: process.poll() is not None or _is_ready(f"http://127.0.0.1:{own}"))
            assert process.poll() is None, "vllm-router refuses its command"
            yield f"http://127.0.0.1:{own}", servers
        finally:
            process.terminate()
            process.wait(20)


def _is_ready(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}{vllm_router.HEALTH_PATH}", timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def post(url: str) -> tuple[int, str]:
    content = json.dumps(PROMPT).encode()
    request = urllib.request.Request(f"{url}/v1/completions", content, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_prefill_is_asked_for_one_token_to_keep_the_cache_and_decode_gets_where_it_is() -> None:
    with routed() as (url, servers):
        status, text = post(url)
    assert (status, json.loads(text)["choices"][0]["text"]) == (200, "decode")
    (first, to_prefill), (second, to_decode) = servers.asked
    assert (first, second) == ("prefill", "decode")
    assert (to_prefill["max_tokens"], to_prefill["kv_transfer_params"]["do_remote_decode"]) == (1, True)
    assert (to_decode["max_tokens"], to_decode["prompt"]) == (8, PROMPT["prompt"])
    assert to_decode["kv_transfer_params"].items() >= KEPT.items()


@pytest.mark.parametrize("gone", ["prefill", "decode"])
def test_the_router_is_ready_soon_after_its_servers_and_not_long_after_their_death(gone: str) -> None:
    with routed() as (url, servers):
        servers.of_health[gone] = 503
        until(lambda: not _is_ready(url), 4 * vllm_router.HEALTH_SECONDS)
        servers.of_health[gone] = 200
        until(lambda: _is_ready(url), 2 * vllm_router.HEALTH_SECONDS)


@pytest.mark.parametrize("gone", ["prefill", "decode"])
def test_a_server_that_is_gone_is_an_error_with_its_address_which_haproxy_hides(gone: str) -> None:
    with routed() as (url, servers):
        assert post(url)[0] == 200
        servers.ends[gone].close()
        status, text = post(url)
    assert status >= 500
    assert f"127.0.0.1:{servers.ports[gone]}" in text
