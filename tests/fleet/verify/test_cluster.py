"""A stack whose cluster can be looked at: through a kubectl that forwards ports for real, and by hand-made facts."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fleet.clients.errors import LiveError, Reason
from fleet.clients.kubectl import Kubectl
from fleet.clients.stack_outputs import accept
from fleet.verify import ask, checks_cluster, checks_engine, checks_service, cluster, verification
from fleet.verify.cluster import _node, _one, _pod
from fleet.verify.facts import Cluster, Facts, Reply, Server
from fleet.verify.findings import Check
from fleet.verify.verification import Asking, _is_one_server, _is_private, _out_of_reach, verify
from settings.stack import Settings
from tests.conftest import Golden
from tests.fleet.verify.made_cluster import (
    MadeCluster,
    accepted_route,
    gateway_objects,
    node_of,
    outputs_of,
    pod_of,
    programmed_gateway,
)
from tests.fleet.verify.stacks import (
    check_of,
    differing,
    in_state,
    name_of,
    printed,
    said_in,
    served,
    settings_of,
    state_of,
    where_of,
    with_adapters,
    with_sections,
)
from tests.fleet.verify.stacks import node_of as server_of
from tests.support.rows import each_row
from tests.support.simulators.model_server.node import Faults, Pace


@pytest.fixture(scope="module")
def gateway() -> Settings:
    return settings_of("gateway", replicas=2)


@pytest.fixture(scope="module")
def canary() -> Settings:
    """Stack gateway with a canary among its users."""
    return with_sections("gateway", rollout={"engine": {"seed": 1}, "weight": 25})


def _facts(settings: Settings, objects: dict[str, Any] | None = None, **changes: Any) -> Facts:
    """What a cluster says in which all is as declared, with `changes` of `Cluster` and other objects of the gateway."""
    number = settings.replicas
    seen = Cluster(
        pods=tuple(_pod(pod_of(settings, n)) for n in range(number)),
        nodes=tuple(_node(node_of(settings, n)) for n in range(number)),
        gateway=gateway_objects(settings) | (objects or {}),
    )
    return Facts(endpoint="", door=None, cluster=replace(seen, **changes))


# Through kubectl


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gateway: Settings) -> Iterator[MadeCluster]:
    older = server_of(gateway, labels={"cache_dtype": "auto", "gpu_memory_utilization": "0.95"}, version="0.18.1")
    faults = Faults(starving_ranks=(6,), drafts_rejected=True)
    with served(server_of(gateway)) as first, served(older, faults) as second:
        found = MadeCluster(tmp_path / "cluster", gateway, [first, second])
        found.reached(monkeypatch)
        yield found


def test_every_replica_is_asked_through_its_own_tunnel_and_what_is_wrong_is_named(
    made: MadeCluster, tmp_path: Path, golden: Golden
) -> None:
    made.objects["gateways-inference-gateway"]["status"]["conditions"][1] |= {"status": "False", "reason": "Pending"}
    made.write()
    (tmp_path / "kubeconfig").write_text("")
    asking = Asking(kubeconfig=tmp_path / "kubeconfig", context="blue")
    report = verify(made.settings, "vllm-fleet", asking)
    ranks = check_of(report, "ranks")
    assert [(where_of(one), name_of(one)) for one in differing(ranks)] == [("qwen35-server-00001", "rank 6")]
    assert in_state(report, "error") == [
        "version",
        "configuration",
        "ranks",
        "speculation",
        "gateway",
    ]
    named = {
        where_of(one) for id_ in ("version", "configuration", "speculation") for one in differing(check_of(report, id_))
    }
    assert named == {"qwen35-server-00001"}
    passed = set(in_state(report, "passed"))
    assert passed >= {"replicas", "reachable", "flags", "capacity", "completion"}
    golden("verify/wrong.txt", printed(report))
    assert all(f"--kubeconfig={tmp_path / 'kubeconfig'} --context=blue --namespace=vllm" in call for call in made.calls)


def test_a_context_of_the_users_own_is_not_sought_in_the_stacks_kubeconfig(made: MadeCluster) -> None:
    made.write()
    told = accept("gateway", outputs_of(made.settings, "http://fleet.invalid"), "outputs.json")
    asking = Asking(outputs=told, context="blue")
    verify(made.settings, "vllm-fleet", asking)
    assert made.calls
    assert all("--context=blue" in call and "--kubeconfig" not in call for call in made.calls)


@pytest.mark.slow
def test_a_pod_without_a_tunnel_is_not_passed(made: MadeCluster, tmp_path: Path) -> None:
    del made.forwards["qwen35-server-00001"]
    made.write()
    report = verify(made.settings, "vllm-fleet", Asking(kubeconfig=tmp_path))
    check = check_of(report, "reachable")
    assert state_of(check) == "unknown"
    assert "qwen35-server-00001" in said_in(check)


def test_a_cluster_that_refuses_is_not_checked_and_the_endpoint_still_is(made: MadeCluster, tmp_path: Path) -> None:
    made.write()
    (made.folder / "trouble-pods.txt").write_text(
        'Error from server (Forbidden): pods is forbidden: User "me@x" cannot list resource "pods" in API group "" '
        'in the namespace "vllm"\n'
    )
    url = f"http://{made.forwards['qwen35-server-00000']}"
    report = verify(made.settings, "vllm-fleet", Asking(endpoint=url, kubeconfig=tmp_path))
    assert state_of(check_of(report, "completion")) == "passed"
    for id_ in ("replicas", "flags", "gateway", "capacity"):
        assert state_of(check_of(report, id_)) == "unknown"
        assert "me@x" in said_in(check_of(report, id_))


def test_with_neither_cluster_nor_endpoint_there_is_nothing_to_report(made: MadeCluster, tmp_path: Path) -> None:
    made.write()
    (made.folder / "trouble-pods.txt").write_text(
        "Unable to connect to the server: dial tcp 10.0.0.2:443: i/o timeout\n"
    )
    with pytest.raises(LiveError, match=r"10\.0\.0\.2:443"):
        verify(made.settings, "vllm-fleet", Asking(kubeconfig=tmp_path))


def test_a_stack_as_declared_passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, golden: Golden) -> None:
    dev = settings_of("dev")
    with served(server_of(dev)) as url:
        made = MadeCluster(tmp_path / "cluster", dev, [url])
        made.reached(monkeypatch)
        report = verify(dev, "vllm-fleet", Asking(kubeconfig=tmp_path))
    assert report.outcome == "passed"
    golden("verify/healthy.txt", printed(report))


@pytest.fixture
def nobody_there(monkeypatch: pytest.MonkeyPatch) -> str:
    """An address within somebody's VPC, as far as this machine is concerned: nobody answers at it."""
    monkeypatch.setattr(verification, "_is_private", lambda _: True)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return f"http://127.0.0.1:{taken.getsockname()[1]}"


def test_silence_within_a_vpc_and_no_cluster_is_no_answer_about_the_stack(made: MadeCluster, nobody_there: str) -> None:
    made.write()
    (made.folder / "trouble-pods.txt").write_text(
        "Unable to connect to the server: dial tcp 10.0.0.2:443: i/o timeout\n"
    )
    told = accept("gateway", outputs_of(made.settings, nobody_there), "outputs.json")
    with pytest.raises(LiveError, match=rf"{nobody_there} .*10\.0\.0\.2:443"):
        verify(made.settings, "vllm-fleet", Asking(outputs=told))


def test_silence_within_a_vpc_is_said_where_pods_answer(made: MadeCluster, nobody_there: str) -> None:
    made.write()
    told = accept("gateway", outputs_of(made.settings, nobody_there), "outputs.json")
    check = check_of(verify(made.settings, "vllm-fleet", Asking(outputs=told)), "reachable")
    assert state_of(check) == "passed"
    assert nobody_there in said_in(check)
    assert "(Connection refused)" in said_in(check)


def test_silence_is_held_against_an_endpoint_that_was_named(nobody_there: str) -> None:
    report = verify(settings_of("dev"), "vllm-fleet", Asking(endpoint=nobody_there))
    assert [where_of(one) for one in differing(check_of(report, "reachable"))] == ["endpoint"]


def test_a_stream_that_is_left_half_read_costs_nobody_the_tunnel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dev = settings_of("dev")
    monkeypatch.setattr(ask, "CHAT_SECONDS", 0.15)
    with served(server_of(dev, pace=Pace(fixed_s=0.001), mean_answer_tokens=10_000)) as url:
        made = MadeCluster(tmp_path / "cluster", dev, [url])
        made.reached(monkeypatch)
        report = verify(dev, "vllm-fleet", Asking(kubeconfig=tmp_path))
    assert state_of(check_of(report, "ranks")) == "passed", check_of(report, "ranks")


# By hand


def test_tunnels_that_are_missing_are_named_and_nothing_is_passed_for_their_pods() -> None:
    server = Server(name="a", health=Reply(status=200))
    facts = Facts(endpoint="", door=None, pods=(server,), tunnel_troubles={"b": "it is gone"})
    check = checks_service.reachable(facts, settings_of("dev"))
    assert (state_of(check), said_in(check).endswith("b: it is gone")) == ("unknown", True)


def _status(*conditions: tuple[str, str]) -> dict[str, Any]:
    return {"conditions": [{"type": type_, "status": status} for type_, status in conditions]}


def _programmed(**listener: str) -> dict[str, Any]:
    """A gateway whose controller says so, with other states of its listener, and of its health."""
    found = programmed_gateway()
    health = {"type": "networking.gke.io/GatewayHealthy", "status": listener.pop("health", "True"), "message": "gone"}
    found["status"]["conditions"].append(health)
    for one in found["status"]["listeners"][0]["conditions"]:
        one["status"] = listener.get(one["type"], one["status"])
    return found


@each_row(
    ("where", "manifest", "name"),
    [
        ("Gateway inference-gateway", {}, "object"),
        ("Gateway inference-gateway", {"status": {}}, "Programmed"),
        ("Gateway inference-gateway", {"status": _status(("Programmed", "Unknown"))}, "Programmed"),
        ("Gateway inference-gateway", _programmed(), ""),
        ("Gateway inference-gateway", _programmed(Programmed="False"), "Programmed"),
        # It was programmed, and is no longer well.
        ("Gateway inference-gateway", _programmed(health="False"), "networking.gke.io/GatewayHealthy"),
        ("HTTPRoute qwen35-pool", {}, "object"),
        ("HTTPRoute qwen35-pool", {"status": {"parents": []}}, "Accepted"),
        ("HTTPRoute qwen35-pool", {"status": {"parents": [_status(("Accepted", "True"))]}}, "ResolvedRefs"),
        (
            "HTTPRoute qwen35-pool",
            {"status": {"parents": [_status(("Accepted", "True"), ("ResolvedRefs", "True"), ("Reconciled", "False"))]}},
            "Reconciled",
        ),
        ("InferencePool qwen35-pool", {}, "object"),
        ("InferencePool qwen35-pool", {"status": {"parents": [_status(("Accepted", "False"))]}}, "Accepted"),
        ("Deployment qwen35-pool-epp", {}, "object"),
        ("Deployment qwen35-pool-epp", {"status": {"replicas": 1}}, "ready pods"),
        ("HealthCheckPolicy qwen35-pool", {}, "object"),
        ("HealthCheckPolicy qwen35-pool", {"status": _status(("Attached", "False"))}, "Attached"),
        ("GCPBackendPolicy qwen35-pool", {"status": {"ancestors": [_status(("Attached", "False"))]}}, "Attached"),
        # What nobody has judged yet.
        ("InferencePool qwen35-pool", {"spec": {}}, ""),
        ("HealthCheckPolicy qwen35-pool", {"spec": {}}, ""),
        ("GCPBackendPolicy qwen35-pool", {"status": {}}, ""),
    ],
)
def test_every_part_of_the_gateway_is_looked_at(
    gateway: Settings, where: str, manifest: dict[str, Any], name: str
) -> None:
    check = checks_cluster.gateway(_facts(gateway, {where: manifest}), gateway)
    assert state_of(check) == ("error" if name else "passed")
    assert not name or f"{where} · {name}" in {one.subject for one in differing(check)}


def test_objects_that_could_not_be_read_are_told(gateway: Settings) -> None:
    check = checks_cluster.gateway(_facts(gateway, troubles={"HTTPRoute qwen35-pool": "forbidden"}), gateway)
    assert (state_of(check), said_in(check)) == ("unknown", "forbidden")


def _weighed(settings: Settings, weights: dict[str, int]) -> dict[str, Any]:
    """The accepted route with these backends and no others."""
    route = accepted_route(settings)
    route["spec"]["rules"][0]["backendRefs"] = [{"name": name, "weight": weight} for name, weight in weights.items()]
    return route


_OWN, _CANARY = "qwen35-pool", "qwen35-pool-canary"


@each_row(
    "weights, gone, expected",
    [
        ({_OWN: 75, _CANARY: 25}, None, []),
        ({_OWN: 3, _CANARY: 1}, None, []),
        ({_OWN: 75, _CANARY: 25}, f"InferencePool {_CANARY}", [f"InferencePool {_CANARY} · object"]),
        ({_OWN: 75, _CANARY: 25}, f"HealthCheckPolicy {_CANARY}", [f"HealthCheckPolicy {_CANARY} · object"]),
        # Halted, without the canary, with a backend of somebody else's, without any.
        ({_OWN: 100, _CANARY: 0}, None, [f"HTTPRoute {_OWN} · share of {name}" for name in (_OWN, _CANARY)]),
        ({_OWN: 1}, None, [f"HTTPRoute {_OWN} · share of {name}" for name in (_OWN, _CANARY)]),
        ({_OWN: 75, _CANARY: 15, "x": 10}, None, [f"HTTPRoute {_OWN} · share of {name}" for name in (_CANARY, "x")]),
        ({}, None, [f"HTTPRoute {_OWN} · share of {name}" for name in (_OWN, _CANARY)]),
    ],
)
def test_a_canary_among_users_is_looked_at_as_the_servers_are(
    canary: Settings, weights: dict[str, int], gone: str | None, expected: list[str]
) -> None:
    objects = {f"HTTPRoute {_OWN}": _weighed(canary, weights), **({gone: {}} if gone else {})}
    check = checks_cluster.gateway(_facts(canary, objects), canary)
    assert [one.subject for one in differing(check)] == expected


def test_everything_of_a_canary_among_users_is_read(
    canary: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = MadeCluster(tmp_path / "cluster", canary, [])
    made.reached(monkeypatch)
    seen = cluster.read(Kubectl(namespace="vllm"), canary)
    facts = Facts(endpoint="", door=None, cluster=seen)
    assert {name.partition(" ")[2] for name in seen.gateway} >= {_OWN, _CANARY, f"{_OWN}-epp", f"{_CANARY}-epp"}
    assert state_of(checks_cluster.gateway(facts, canary)) == "passed"


def test_a_missing_replica_is_told_with_why(gateway: Settings) -> None:
    waiting = pod_of(gateway, 1)
    waiting["status"] = {
        "phase": "Pending",
        "conditions": [{"type": "PodScheduled", "status": "False", "message": "0/4 nodes are available"}],
    }
    pods = (_pod(pod_of(gateway, 0)), _pod(waiting))
    check = checks_cluster.replicas(_facts(gateway, pods=pods), gateway)
    assert [(one.allowed, one.found) for one in differing(check)] == [
        ("2", "1 ready"),
        ("ready", "0/4 nodes are available"),
    ]


def _written(settings: Settings, number: int, **changes: Any) -> dict[str, Any]:
    pod = pod_of(settings, number)
    pod["status"] |= changes.pop("status", {})
    pod["metadata"] |= changes.pop("metadata", {})
    pod["spec"] |= changes
    return pod


class _Listing(Kubectl):
    """A control plane that has these pods and nodes, and nothing else."""

    def __init__(self, pods: list[Any], nodes: list[Any]) -> None:
        super().__init__(namespace="vllm")
        self._items = {"pods": pods, "nodes": nodes}

    def run(self, *arguments: str, what: str, stdin: str | None = None, seconds: float = 0.0) -> str:
        del what, stdin, seconds
        return json.dumps({"items": self._items[arguments[1]]})


def test_what_is_left_of_pods_whose_spot_node_was_taken_is_held_against_nobody() -> None:
    """Two that replaced them are ready: an evicted pod stays as an object, one that goes may outlast its node."""
    spot = settings_of("spot", replicas=2)
    pods = [
        _written(spot, 0),
        _written(spot, 1),
        _written(spot, 2, nodeName="gke-taken-1", status={"phase": "Failed", "reason": "Terminated", "conditions": []}),
        _written(spot, 3, nodeName="gke-taken-2", metadata={"deletionTimestamp": "2026-11-21T12:00:00Z"}),
    ]
    nodes = [node_of(spot, 0), node_of(spot, 1)]
    facts = Facts(endpoint="", door=None, cluster=cluster.read(_Listing(pods, nodes), spot))
    for check in (checks_cluster.replicas(facts, spot), checks_cluster.capacity(facts, spot)):
        assert state_of(check) == "passed", check


def _waits(reason: str, restarts: int = 0, **more: Any) -> dict[str, Any]:
    return {"ready": False, "restartCount": restarts, "state": {"waiting": {"reason": reason}}, **more}


@each_row(
    ("inits", "container", "why"),
    [
        (
            [{"ready": True, "state": {"terminated": {"reason": "Completed"}}}, _waits("CrashLoopBackOff", 3)],
            _waits("PodInitializing"),
            "CrashLoopBackOff, 3 restarts",
        ),
        (
            [],
            _waits("CrashLoopBackOff", 4, lastState={"terminated": {"reason": "OOMKilled"}}),
            "CrashLoopBackOff, 4 restarts, the previous container ended with OOMKilled",
        ),
    ],
)
def test_a_pod_says_what_keeps_it_and_not_only_what_waits_for_that(
    inits: list[Any], container: dict[str, Any], why: str
) -> None:
    conditions = [{"type": "Ready", "status": "False", "reason": "ContainersNotReady"}]
    containers = {"initContainerStatuses": inits, "containerStatuses": [container]}
    pod = _pod(_written(settings_of("dev"), 0, status={"phase": "Pending", "conditions": conditions, **containers}))
    assert (pod.ready, pod.why_not_ready) == (False, why)


def test_another_owners_number_of_replicas_is_not_judged() -> None:
    external = settings_of("dev", replicas="external")
    check = checks_cluster.replicas(_facts(external), external)
    assert state_of(check) == "passed"


@pytest.mark.parametrize(
    ("stack", "labels", "name"),
    [
        ("gateway", {"cloud.google.com/gke-spot": "false"}, "cloud.google.com/gke-spot"),
        ("cud", {"cloud.google.com/gke-provisioning": "spot"}, "cloud.google.com/gke-provisioning"),
        ("cud", {"cloud.google.com/reservation-name": "another"}, "cloud.google.com/reservation-name"),
        ("dev", {"node.kubernetes.io/instance-type": "a3-megagpu-8g"}, "machine"),
        ("dev", {"topology.kubernetes.io/zone": "europe-west4-a"}, "zone"),
    ],
)
def test_nodes_that_are_not_what_is_paid_for(stack: str, labels: dict[str, str], name: str) -> None:
    settings = settings_of(stack, replicas=1)
    assert state_of(checks_cluster.capacity(_facts(settings), settings)) == "passed"
    wrong = node_of(settings, 0)
    wrong["metadata"]["labels"] |= labels
    check = checks_cluster.capacity(_facts(settings, nodes=(_node(wrong),)), settings)
    assert state_of(check) == "error"
    assert [(where_of(one), name_of(one)) for one in differing(check)] == [("gke-node-0", name)]


def test_a_node_of_the_cluster_without_a_pod_is_told() -> None:
    dev = settings_of("dev")
    alone, beside = (
        checks_cluster.capacity(_facts(dev, nodes=nodes), dev)
        for nodes in ((_node(node_of(dev, 0)),), (_node(node_of(dev, 0)), _node(node_of(dev, 7))))
    )
    assert (state_of(alone), state_of(beside)) == ("passed", "passed")
    assert (said_in(alone).count("1 "), said_in(beside).count("1 ")) == (1, 2)


def test_flags_of_an_older_update_are_named_and_no_secret_shown() -> None:
    dev = settings_of("dev")
    old = pod_of(dev, 0)
    arguments = old["spec"]["containers"][0]["args"]
    arguments.remove("--max-num-batched-tokens=16384")
    arguments[arguments.index("--max-model-len=2560")] = "--max-model-len=4096"
    name = next(one.partition("=")[2] for one in arguments if one.startswith("--served-model-name="))
    arguments += ["--shutdown-timeout=20", "--api-key=hunter2", f"--served-model-name=sk-{'x' * 24}"]
    check = checks_engine.flags(_facts(dev, pods=(_pod(old),)), dev)
    assert state_of(check) == "error"
    assert {(name_of(one), one.allowed, one.found) for one in differing(check)} == {
        ("--max-num-batched-tokens", "16384", "left out"),
        ("--max-model-len", "2560", "4096"),
        ("--api-key", "left out", "[secret]"),
        ("--served-model-name", name, "[secret]"),
    }


SECRET = "sk-of-somebody"
ESTIMATE, DEEP_GEMM = "VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS", "VLLM_USE_DEEP_GEMM"
_ELSEWHERE: Any = {"valueFrom": {"secretKeyRef": {"name": SECRET, "key": "k"}}}


def _environment(settings: Settings, variables: dict[str, Any]) -> Check:
    """The check on a pod of the stack in which these variables are otherwise; None leaves one out."""
    pod = pod_of(settings, 0)
    container = pod["spec"]["containers"][0]
    kept = [one for one in container["env"] if one["name"] not in variables]
    given = ((name, value) for name, value in variables.items() if value is not None)
    container["env"] = kept + [{"name": n, **(v if isinstance(v, dict) else {"value": v})} for n, v in given]
    return checks_engine.environment(_facts(settings, pods=(_pod(pod),)), settings)


@each_row(
    ("variables", "name", "found_declared"),
    [
        ({ESTIMATE: "0"}, ESTIMATE, ("0", "1")),
        ({ESTIMATE: None}, ESTIMATE, ("left out", "1")),
        ({ESTIMATE: _ELSEWHERE}, ESTIMATE, ("set by reference (valueFrom)", "1")),
        ({DEEP_GEMM: "1"}, DEEP_GEMM, ("1", "left out")),
        ({"NCCL_ALGO": "Ring"}, "NCCL_ALGO", ("Ring", "Tree")),
        ({"NCCL_ALGO": ""}, "NCCL_ALGO", ("empty", "Tree")),
        ({"VLLM_OF_AN_OLDER_FILE": SECRET}, "VLLM_OF_AN_OLDER_FILE", ("set", "left out")),
        # Another program may have set it, and it changes what runs.
        ({"LD_PRELOAD": "/x.so"}, "LD_PRELOAD", ("set", "left out")),
        ({"VLLM_API_KEY": _ELSEWHERE}, "VLLM_API_KEY", ("set by reference (valueFrom)", "left out")),
    ],
)
def test_an_environment_of_an_older_update_is_named_and_no_secret_shown(
    variables: dict[str, Any], name: str, found_declared: tuple[str, str]
) -> None:
    dev = settings_of("dev", engine={"extraEnv": {"NCCL_ALGO": "Tree"}})
    assert state_of(_environment(dev, {})) == "passed"
    check = _environment(dev, variables)
    assert state_of(check) == "error"
    assert [(name_of(one), (one.found, one.allowed)) for one in differing(check)] == [(name, found_declared)]
    assert SECRET not in str(check)


@pytest.mark.parametrize(
    "variables",
    [
        {"NCCL_DEBUG": "INFO"},
        {"PASSWORD": _ELSEWHERE},
        {"VLLM_ENGINE_READY_TIMEOUT_S": "600", "HF_HUB_OFFLINE": "1"},
    ],
)
def test_variables_of_others_and_those_without_bearing_on_speed_are_no_difference(variables: dict[str, Any]) -> None:
    assert state_of(_environment(settings_of("dev"), variables)) == "passed"


def test_of_a_variable_given_twice_the_last_counts() -> None:
    dev = settings_of("dev")
    pod = pod_of(dev, 0)
    pod["spec"]["containers"][0]["env"].append({"name": ESTIMATE, "value": "0"})
    check = checks_engine.environment(_facts(dev, pods=(_pod(pod),)), dev)
    assert [one.found for one in differing(check)] == ["0"]


def test_a_paused_stack_is_asked_nothing_and_passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paused = settings_of("dev", replicas=0)
    made = MadeCluster(tmp_path / "cluster", paused, [])
    made.reached(monkeypatch)
    report = verify(paused, "vllm-fleet", Asking(endpoint="http://127.0.0.1:1", kubeconfig=tmp_path))
    assert report.outcome == "passed"
    assert state_of(check_of(report, "replicas")) == "passed"
    for id_ in ("replicas", "completion"):
        assert "paused" in said_in(check_of(report, id_))


def test_an_image_of_another_digest_is_named() -> None:
    dev = settings_of("dev")
    other = pod_of(dev, 0)
    other["spec"]["containers"][0]["image"] = "r/vllm/vllm-openai:v0.18.1@sha256:" + "0" * 64
    check = checks_service.version(_facts(dev, pods=(_pod(other),)), dev)
    assert state_of(check) == "error"
    assert differing(check)[0].found.startswith("vllm-openai:v0.18.1@")


def test_adapters_of_the_rendered_pod_are_compared_as_one_list() -> None:
    from tests.workloads.args import server_args
    from tests.workloads.test_server_pod import MOUNT
    from workloads.server.pod import arguments, parts

    settings, pod = with_adapters(), pod_of(settings_of("dev"), 0)
    rendered = arguments(args := server_args(settings, weights=MOUNT), parts(args))
    for words, found in ((rendered, []), (rendered[:-1], [rendered[-2]])):
        pod["spec"]["containers"][0]["args"] = words
        check = checks_engine.flags(_facts(settings_of("dev"), pods=(_pod(pod),)), settings)
        assert [one.found for one in differing(check)] == found


class _Refusing(Kubectl):
    def __init__(self, reason: Reason, words: str = "no") -> None:
        super().__init__(namespace="vllm")
        self._reason, self._words = reason, words

    def run(self, *_: str, what: str, stdin: str | None = None, seconds: float = 0.0) -> str:
        del stdin, seconds
        raise LiveError(f"{what}: {self._words}", reason=self._reason)


def test_an_object_that_is_not_there_is_a_finding_and_one_that_may_not_be_read_is_none() -> None:
    assert _one(_Refusing("not found"), "gateways", "inference-gateway") == {}
    nothing_such = _Refusing("refused", 'error: the server doesn\'t have a resource type "inferencepools"')
    assert _one(nothing_such, "inferencepools", "qwen35-pool") == {}
    with pytest.raises(LiveError, match="reading gateways inference-gateway: no"):
        _one(_Refusing("forbidden"), "gateways", "inference-gateway")


def test_what_kubectl_prints_beside_json_is_told(gateway: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Kubectl, "run", lambda *_, **__: "Unable to find a match")
    with pytest.raises(LiveError, match=r"listing pods: .* did not print a JSON object"):
        cluster.read_pods(Kubectl(namespace="vllm"), gateway)


# Which servers stand behind an address


@pytest.mark.parametrize(
    ("url", "stack", "one"),
    [
        ("http://127.0.0.1:8000", "spot", True),
        ("http://localhost:8000", "spot", True),
        ("http://[::1]:8000", "gateway", True),
        ("http://10.0.0.9:8000", "dev", True),
        ("http://10.0.0.9:8000", "spot", False),
        ("http://fleet.example.com", "gateway", False),
    ],
)
def test_counters_are_trusted_where_one_server_answers(url: str, stack: str, one: bool) -> None:
    assert _is_one_server(url, settings_of(stack)) is one


def test_a_gateway_of_one_replica_still_hides_its_pods_metrics() -> None:
    assert not _is_one_server("http://10.0.0.50", settings_of("gateway", replicas=1))


def test_names_of_the_cluster_are_not_asked_for_outside() -> None:
    host = "qwen35-server.vllm.svc.cluster.local"
    assert host in _out_of_reach(f"http://{host}:8000")
    assert _out_of_reach("http://10.0.0.50") == ""
    assert (_is_private("http://10.0.0.50"), _is_private("http://127.0.0.1:1"), _is_private("http://34.1.2.3")) == (
        True,
        False,
        False,
    )
