"""A stack with routers whose cluster can be looked at: a real HAProxy with the program's own configuration, and servers behind it."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from facts.names import ROUTER_APP
from fleet.clients.metrics_text import MetricsText
from fleet.clients.metrics_text import parse as parse_metrics
from fleet.verify.ask import _routed
from fleet.verify.checks_cluster import routers
from fleet.verify.checks_traffic import balance, refusals
from fleet.verify.cluster import _pod
from fleet.verify.facts import Cluster, Facts, Reply, Routed, Target
from fleet.verify.findings import Report
from fleet.verify.questions import REQUESTS_PER_RANK
from fleet.verify.verification import Asking, verify
from settings.stack import Settings
from tests.fleet.verify.made_cluster import MadeCluster
from tests.fleet.verify.stacks import (
    KEY,
    check_of,
    differing,
    node_of,
    said_in,
    served,
    state_of,
    where_of,
    with_sections,
)
from tests.support.haproxy_on_loopback import on_loopback
from tests.support.rows import each_row
from tests.support.waiting import until
from workloads.router.haproxy import Haproxy, config

KEY_FOR_ALL = 'http-request set-header Authorization "Bearer sk-of-the-tests"'
SERVERS = 2
ROUTER = "router-00000"


@pytest.fixture(scope="module")
def stack() -> Settings:
    """Stack dev with two guarded servers and routers."""
    server = {"profile": "record", "replicas": SERVERS, "apiKeySecret": "vllm-api-key"}
    return with_sections("dev", server=server, endpoint={"kind": "leastRequest"})


def router_pod(number: int) -> dict[str, Any]:
    return {
        "metadata": {"name": f"router-{number:05d}"},
        "spec": {"containers": []},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    }


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        port: int = found.getsockname()[1]
    return port


@contextmanager
def routed(folder: Path, urls: list[str], text: str = "", instead: str = "") -> Iterator[str]:
    """HOST:PORT of an HAProxy in front of these servers; its configuration has `instead` for `text`."""
    ports = port, _, _ = [free_port() for _ in range(3)]
    deployed = config(Haproxy(max_servers=1, max_in_flight=100, v1_only=True))
    here = on_loopback(deployed, ports, [url.removeprefix("http://") for url in urls])
    file = folder / "haproxy.cfg"
    file.write_text(here.replace(text, instead) if text else here)
    with subprocess.Popen(
        ["haproxy", "-db", "-f", str(file)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as router:
        try:
            until(lambda: socket.create_connection(("127.0.0.1", port)).close() is None)
            yield f"127.0.0.1:{port}"
        finally:
            router.kill()


def look(stack: Settings, folder: Path, monkeypatch: pytest.MonkeyPatch, text: str = "", instead: str = "") -> Report:
    """`fleet verify` of the stack whose router is broken like that."""
    with ExitStack() as closing:
        urls = [closing.enter_context(served(node_of(stack), guarded=True)) for _ in range(SERVERS)]
        made = MadeCluster(folder / "cluster", stack, urls)
        made.objects[f"pods app={ROUTER_APP}"] = {"items": [router_pod(number) for number in range(2)]}
        made.forwards[ROUTER] = closing.enter_context(routed(folder, urls, text, instead))
        made.reached(monkeypatch)
        (folder / "kubeconfig").write_text("")
        return verify(stack, "vllm-fleet", Asking(kubeconfig=folder / "kubeconfig", api_key=KEY))


NEEDS_HAPROXY = pytest.mark.skipif(
    not os.environ.get("CI") and shutil.which("haproxy") is None, reason="haproxy is not installed"
)


@NEEDS_HAPROXY
@pytest.mark.slow
def test_a_router_as_declared_passes(stack: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    report = look(stack, tmp_path, monkeypatch)
    assert [state_of(check_of(report, id_)) for id_ in ("routers", "balance", "refusals")] == ["passed"] * 3
    assert "8 of 8" in said_in(check_of(report, "balance"))


@NEEDS_HAPROXY
@pytest.mark.slow
@pytest.mark.parametrize(
    ("check", "text", "instead", "where"),
    [
        ("balance", "balance leastconn", "balance first", "qwen35-server-00001"),
        (
            "refusals",
            "default_backend servers",
            f"{KEY_FOR_ALL}\n    default_backend servers",
            ROUTER,
        ),
    ],
    ids=["all to one server", "a key for everybody"],
)
def test_a_router_that_is_broken_is_named(
    stack: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, check: str, text: str, instead: str, where: str
) -> None:
    found = check_of(look(stack, tmp_path, monkeypatch, text, instead), check)
    assert state_of(found) == "error"
    assert [where_of(one) for one in differing(found)] == [where]


# By hand-made facts

SOUND = Routed(
    router=ROUTER,
    asked=8,
    answered=8,
    troubles=(),
    shares={"a": 4, "b": 4},
    refused={"no key": Reply(status=401), "a path outside /v1": Reply(status=404)},
)


def facts(routed: Routed | None = SOUND, **changes: Any) -> Facts:
    pods = tuple(_pod(router_pod(number)) for number in range(2))
    return Facts(endpoint="", door=None, routed=routed, cluster=replace(Cluster(routers=pods), **changes))


def test_a_router_that_is_missing_is_named(stack: Settings) -> None:
    found = routers(facts(routers=(_pod(router_pod(0)),)), stack)
    assert [one.subject for one in differing(found)] == ["router · replicas"]
    assert state_of(routers(facts(), stack)) == "passed"
    assert state_of(routers(facts(troubles={"routers": "forbidden"}), stack)) == "unknown"


@each_row(
    ("changes", "state"),
    [
        ({}, "passed"),
        ({"shares": {"a": 8, "b": 0}}, "error"),
        ({"shares": {"a": 8, "b": None}}, "unknown"),
        ({"answered": 7, "troubles": ("HTTP 503",)}, "error"),
    ],
)
def test_shares(stack: Settings, changes: dict[str, Any], state: str) -> None:
    assert state_of(balance(facts(replace(SOUND, **changes)), stack)) == state


def test_with_a_port_per_rank_every_rank_needs_a_part_of_the_burst(stack: Settings) -> None:
    ranked = stack.model_copy(update={"server": stack.server.model_copy(update={"rank_ports": True})})
    idle = replace(SOUND, shares={"a, rank 0": 8, "a, rank 1": 0})
    found = balance(facts(idle), ranked)
    assert [one.subject for one in differing(found)] == ["a, rank 1 · requests through the router"]
    even = balance(facts(replace(SOUND, shares={"a, rank 0": 4, "a, rank 1": 4})), ranked)
    assert state_of(even) == "passed"


def test_the_burst_is_counted_by_rank_where_ranks_have_ports(stack: Settings) -> None:
    """The servers' one page of metrics has every rank; one that finished nothing has no series."""
    ranked = stack.model_copy(update={"server": stack.server.model_copy(update={"rank_ports": True})})
    counts = {"0": 0, "3": 5}

    class Pods:
        async def metrics(self, *_: object) -> tuple[MetricsText, str]:
            lines = (f'vllm:request_success_total{{engine="{rank}"}} {count}' for rank, count in counts.items())
            return parse_metrics("\n".join(("# TYPE vllm:request_success_total counter", *lines)) + "\n"), ""

        async def post(self, *_: object) -> Reply:
            counts["0"] += 1
            return Reply(status=200)

        async def get(self, *_: object, **_named: object) -> Reply:
            return Reply(status=404)

    pod = Target(name="pod", url="http://pod")
    found = asyncio.run(_routed(Pods(), ranked, Target(name=ROUTER, url="http://router"), [pod], {pod: "m"}))  # type: ignore[arg-type]
    assert found.asked == ranked.rank_ports * REQUESTS_PER_RANK
    assert found.shares == {f"pod, rank {rank}": found.asked if rank == 0 else 0 for rank in range(ranked.rank_ports)}


def test_what_a_router_lets_through_is_named(stack: Settings) -> None:
    opened = replace(SOUND, refused={"no key": Reply(status=200), "a path outside /v1": Reply(status=404)})
    assert [one.subject for one in differing(refusals(facts(opened), stack))] == [f"{ROUTER} · no key"]
    assert state_of(refusals(facts(), stack)) == "passed"


def test_without_a_router_in_reach_nothing_is_judged(stack: Settings, dev: Settings) -> None:
    assert state_of(balance(facts(None), stack)) == "unknown"
    assert state_of(refusals(facts(None), stack)) == "unknown"
    assert routers(facts(), dev) is balance(facts(), dev) is refusals(facts(), dev) is None
