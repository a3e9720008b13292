"""vllm-router with prefill apart: it finds both kinds of servers through a real API server, with the rendered command."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lab.control_plane.api import POD, ClusterApi, Manifest
from lab.results.clock import Clock
from lab.simulators.model_server.engine_server import EngineServer
from lab.simulators.model_server.in_thread import serving
from lab.simulators.model_server.node import Transfer
from tests.lab.simulators.model_server.test_transfers import PROMPT, ROUTER, needs_router, node, post, read, within
from workloads import vllm_router

if TYPE_CHECKING:
    from lab.control_plane.cluster import ControlPlane

pytestmark = [pytest.mark.slow, needs_router]
SPACE = "prefill-apart"
ADDRESSES = {"chat-prefill": "127.0.0.2", "chat": "127.0.0.3"}
ROLES = {"chat-prefill": Transfer(role="kv_producer"), "chat": Transfer(role="kv_consumer")}


def ready(api: ClusterApi, app: str) -> None:
    """A pod of `app` that its kubelet reports as Ready at its address."""
    made: Manifest = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": app, "namespace": SPACE, "labels": {"app": app}},
        "spec": {"nodeName": "nowhere", "containers": [{"name": "vllm", "image": "image"}]},
    }
    api.create(made)
    address = ADDRESSES[app]
    status = {
        "phase": "Running",
        "podIP": address,
        "podIPs": [{"ip": address}],
        "conditions": [{"type": "Ready", "status": "True"}],
        "containerStatuses": [
            {
                "name": "vllm",
                "image": "image",
                "imageID": "",
                "restartCount": 0,
                "ready": True,
                "state": {"running": {}},
            }
        ],
    }
    api.patch(POD, app, SPACE, {"status": status}, subresource="status")


@pytest.fixture
def space(control_plane: ControlPlane) -> Iterator[ClusterApi]:
    api = control_plane.api
    api.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SPACE}})
    yield api
    for app in ADDRESSES:
        api.delete(POD, app, SPACE, grace_seconds=0)


@pytest.fixture
def port() -> int:
    """Free on both addresses, as every pod has its own."""
    with socket.socket() as first, socket.socket() as second:
        first.bind((ADDRESSES["chat"], 0))
        second.bind((ADDRESSES["chat-prefill"], first.getsockname()[1]))
        return int(first.getsockname()[1])


def test_it_finds_prefill_and_decode_and_is_not_ready_without_one(
    control_plane: ControlPlane, space: ClusterApi, port: int, tmp_path: Path
) -> None:
    words = vllm_router.router_command("chat", SPACE, prefill="chat-prefill", max_in_flight=100)
    with socket.socket() as free, socket.socket() as metrics:
        free.bind(("127.0.0.1", 0))
        metrics.bind(("127.0.0.1", 0))
        own, other = free.getsockname()[1], metrics.getsockname()[1]
    here = {
        "--service-discovery-port=8000": f"--service-discovery-port={port}",
        f"--port={vllm_router.PORT}": f"--port={own}",
        f"--prometheus-port={vllm_router.METRICS_PORT}": f"--prometheus-port={other}",
    }
    assert set(here) <= set(words)
    command = [str(ROUTER), *(here.get(word, word) for word in words[1:])]
    url = f"http://127.0.0.1:{own}"

    def server(app: str) -> EngineServer:
        return EngineServer(node(ROLES[app]), clock=Clock(20.0))

    with (
        serving(lambda: server("chat-prefill"), host=ADDRESSES["chat-prefill"], port=port) as prefill,
        serving(lambda: server("chat"), host=ADDRESSES["chat"], port=port) as decode,
        (tmp_path / "log").open("wb") as log,
        subprocess.Popen(command, env={"KUBECONFIG": str(control_plane.kubeconfig)}, stdout=log, stderr=log) as router,
    ):
        try:
            ready(space, "chat")
            within(60, lambda: _status(f"{url}/liveness") == 200)
            assert _status(f"{url}{vllm_router.HEALTH_PATH}") == 503
            ready(space, "chat-prefill")
            within(60, lambda: _status(f"{url}{vllm_router.HEALTH_PATH}") == 200)
            status, answer = post(url, {"prompt": PROMPT, "max_tokens": 8})
            assert (status, answer["usage"]["completion_tokens"]) == (200, 8)
            assert (read(decode)["external_kv_transfer"], read(decode)["local_compute"]) == (767, 1)
            assert read(prefill)["local_compute"] > 0
            space.delete(POD, "chat-prefill", SPACE, grace_seconds=0)
            within(60, lambda: _status(f"{url}{vllm_router.HEALTH_PATH}") == 503)
        finally:
            router.terminate()


def _status(url: str) -> int:
    import urllib.error
    import urllib.request

    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return 0
