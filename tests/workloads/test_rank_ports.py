"""A port for each rank: the pod, its Service, the pool, health checks, scrapes and the pod's end."""

from __future__ import annotations

from typing import Any

from settings.checks.structure import structural_problems
from settings.sections.gateway import Epp
from tests.support.as_sent import as_sent
from tests.support.rows import each_row
from tests.support.settings import make_settings
from tests.workloads.args import pod_of, server_args
from workloads import names
from workloads.gateway.gateway import health_check_policy, pool_reference
from workloads.gateway.values import chart_values
from workloads.monitoring import server_scrape
from workloads.server import ranks
from workloads.server.pod_end import pod_end
from workloads.server.server import ServerArgs, service_spec

BEHIND = {"gateway": {"enabled": True}}


def args(**server: Any) -> ServerArgs:
    return server_args(make_settings(server={"replicas": 1, "rankPorts": True, **server}, **BEHIND))


def spec(**server: Any) -> dict[str, Any]:
    made: dict[str, Any] = pod_of(args(**server))["spec"]
    return made


def test_the_container_starts_a_server_per_rank_and_keeps_the_engines_own_flags() -> None:
    container = spec()["containers"][0]
    assert container["command"][-5:] == ["--status-port=9256", "--leave=40", "--", "vllm", "serve"]
    assert "--ranks=8" in container["command"]
    assert "--experts" not in container["command"]
    assert "--data-parallel-size=8" in container["args"]
    assert [port["containerPort"] for port in container["ports"]] == [*range(8000, 8008), 9256]
    assert [port["name"] for port in container["ports"]][:2] == ["http", "rank-1"]
    mounted = [mount["name"] for mount in container["volumeMounts"]]
    assert "rank-program" in mounted


def test_probes_ask_for_all_ranks() -> None:
    container = spec()["containers"][0]
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        assert container[probe]["httpGet"] == {"path": "/health", "port": "status"}


def test_each_rank_finishes_its_streams_after_the_stop_signal() -> None:
    plain = server_args(make_settings(server={"replicas": 1}, **BEHIND))
    assert plain.drain.after_signal_seconds == 0
    ranked = args().drain
    assert ranked.after_signal_seconds > plain.drain.stream_seconds
    assert f"--shutdown-timeout={ranked.after_signal_seconds}" in spec()["containers"][0]["args"]
    assert pod_end(spec()).stream_seconds == ranked.stream_seconds


def test_ranks_of_experts_share_them() -> None:
    server = {"replicas": 1, "rankPorts": True, "profile": "tuned", "engine": {"moeBackend": "triton"}}
    made = server_args(make_settings(server=server, model={"id": "Qwen/Qwen3.5-35B-A3B-FP8"}, **BEHIND))
    assert "--experts" in pod_of(made)["spec"]["containers"][0]["command"]


def test_the_service_and_the_pool_have_every_port() -> None:
    service = as_sent(service_spec("chat", 8))
    assert [port["port"] for port in service["ports"]] == list(range(8000, 8008))
    assert [port["targetPort"] for port in service["ports"]][:2] == ["http", "rank-1"]
    values = chart_values("chat", Epp(), range(8000, 8008))["inferencePool"]
    assert [port["number"] for port in values["targetPorts"]] == list(range(8000, 8008))
    assert values["targetPortNumber"] == 8000


def test_health_checks_and_scrapes_ask_for_all_ranks() -> None:
    policy = health_check_policy(pool_reference("pool"), names.STATUS_PORT)
    assert policy["default"]["config"]["httpHealthCheck"]["port"] == 9256
    scrape = server_scrape("chat", 15, ranks.STATUS_PORT_NAME)
    assert [endpoint["port"] for endpoint in scrape["endpoints"]] == ["status"]


@each_row(
    ("sections", "problem"),
    [
        ({"gateway": {}}, "ranks-unseen"),
        ({"endpoint": {"kind": "clusterIp"}}, "ranks-unseen"),
        ({"server": {"internalLoadBalancer": True}}, "ranks-behind-load-balancer"),
        ({"server": {"engine": {"dataParallelSize": 1, "tensorParallelSize": 8}}}, "rank-ports-of-one"),
        ({"server": {"engine": {"apiServerCount": 4}}}, "rank-ports-with-api-servers"),
        ({"rollout": {"engine": {"seed": 1}}}, "ranks-of-a-canary"),
        ({"platform": {"stack": "acme/vllm-fleet/base"}}, "ranks-behind-anothers-firewall"),
    ],
)
def test_what_cannot_serve_ranks_apart_is_refused(sections: dict[str, Any], problem: str) -> None:
    server = {"replicas": 1, "rankPorts": True, **sections.get("server", {})}
    found = structural_problems(make_settings(**{**BEHIND, **sections, "server": server}))
    assert problem in {one.id for one in found if one.severity == "error"}
