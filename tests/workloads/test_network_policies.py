"""The table of flows, walked: what it says is allowed, what it does not say is denied."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pulumi
import pytest

from facts.ranges import PRIVATE_RANGES
from settings.derived.traffic import Traffic, VpcRanges, traffic
from settings.problems import SettingsError
from settings.stack import Settings
from tests.support.as_sent import as_sent
from tests.support.recorded import objects, recorded_component
from tests.support.rows import each_row
from tests.support.settings import make_settings
from tests.workloads.args import NAMESPACE
from tests.workloads.network_policy_semantics import Endpoint, address_of, allowed, between, network_of
from workloads.network_policies import (
    DNS_PODS,
    DNS_SERVERS,
    HEALTH_CHECKS,
    Addresses,
    Flow,
    Namespaces,
    NetworkPolicies,
    NetworkPoliciesArgs,
    Peer,
    Pods,
    flows,
    policies,
)

RECORD: dict[str, Any] = {}
BATCH: dict[str, Any] = {"batch": {"enabled": True}}
GATEWAY: dict[str, Any] = {"gateway": {"enabled": True}, "benchmark": {"enabled": True}}
SHAPES: dict[str, dict[str, Any]] = {
    "record": RECORD,
    "gateway": GATEWAY,
    "benchmark": {"benchmark": {"enabled": True}},
    "batch": BATCH,
    "batch through routers": {**BATCH, "endpoint": {"kind": "leastRequest"}},
    "batch on ranks behind the gateway": {
        **BATCH,
        "server": {"replicas": 2, "rankPorts": True},
        "gateway": {"enabled": True},
    },
    "batch through the gateway": {**BATCH, "gateway": {"enabled": True}},
    "batch through a public gateway": {
        **BATCH,
        "gateway": {"enabled": True, "gatewayClass": "gke-l7-regional-external-managed", "hostname": "llm.acme.dev"},
    },
    "huggingface": {"weights": {"source": "huggingface"}, "server": {"replicas": 1}},
    "internal load balancer": {"server": {"replicas": 12, "internalLoadBalancer": True}},
    "key and gateway": {"gateway": {"enabled": True}, "apiKey": "not-a-real-key"},
    "external gateway": {
        "gateway": {"enabled": True, "gatewayClass": "gke-l7-regional-external-managed"},
        "benchmark": {"enabled": True},
    },
    "ranks behind the gateway": {**GATEWAY, "server": {"replicas": 2, "rankPorts": True}},
    "routers": {
        "endpoint": {"kind": "leastRequest"},
        "benchmark": {"enabled": True},
    },
    "routers behind the gateway": {**GATEWAY, "endpoint": {"kind": "leastRequest"}},
    "gateway with a name": {
        "gateway": {"enabled": True, "hostname": "llm.acme.dev"},
        "benchmark": {"enabled": True, "runOnUpdate": False},
    },
    "external gateway with a name": {
        "gateway": {"enabled": True, "gatewayClass": "gke-l7-regional-external-managed", "hostname": "llm.acme.dev"},
        "benchmark": {"enabled": True, "runOnUpdate": False},
    },
    "guest with gateway": {"gateway": {"enabled": True}, "platform": {"stack": "acme/vllm-fleet/base"}},
    "unmonitored": {"monitoring": {"enabled": False}},
    "compile caches": {"server": {"compileCache": {"enabled": True}}},
    "a VPC with other addresses": {
        **GATEWAY,
        "network": {"nodeCidr": "100.70.0.0/20", "podCidr": "240.0.0.0/13", "serviceCidr": "34.118.224.0/20"},
    },
}


def sent_policies(table: Iterable[Flow]) -> dict[str, dict[str, Any]]:
    made: dict[str, dict[str, Any]] = as_sent(policies(table))
    return made


def specs(settings: Settings) -> list[dict[str, Any]]:
    return list(sent_policies(flows(traffic(settings))).values())


def pod(**labels: str) -> Endpoint:
    return Endpoint(labels=labels)


def outside(address: str) -> Endpoint:
    return Endpoint(address=address)


SERVER = pod(app="qwen35-server")
PICKER = pod(inferencepool="qwen35-pool-epp")
ROUTER = pod(app="router")
WRITER = pod(app="weights-writer")
BENCHMARK = pod(app="vllm-benchmark")
STRANGER = pod(app="something-else")
CLIENT = pod(**{"app": "chat", "vllm-fleet/client": "true"})
OTHER_NAMESPACE = Endpoint(labels={"app": "chat"}, namespace="apps")
CLIENT_NAMESPACE = Endpoint(labels={"app": "chat"}, namespace="apps", namespace_labels={"vllm-fleet/client": "true"})
KUBE_DNS = Endpoint(labels={"k8s-app": "kube-dns"}, namespace="kube-system")
DNS_CACHE = Endpoint(labels={"k8s-app": "node-local-dns"}, namespace="kube-system")
SYSTEM_POD = Endpoint(labels={"k8s-app": "konnectivity-agent"}, namespace="kube-system")
FALSE_DNS = Endpoint(labels={"k8s-app": "kube-dns"}, namespace="apps")
COLLECTOR = Endpoint(labels={"app": "collector"}, namespace="gke-gmp-system")
PROXY = outside("10.8.0.7")
PROBE = outside("35.191.10.1")
OFFICE = outside("10.200.3.4")
HUB = outside("18.164.174.23")
METADATA = outside("169.254.169.254")
CONTROL_PLANE = outside("10.0.0.2")


def examples(peer: Peer) -> list[Endpoint]:
    """Endpoints that the peer means: for ranges, first and last address of each that is not excepted."""
    if isinstance(peer, Pods):
        return [pod(**{"pod-template-hash": "7f", **dict(peer.labels)})]
    if isinstance(peer, Namespaces):
        label, marks = peer.pods or ("any", ("pod",))
        return [
            Endpoint(labels={label: mark}, namespace="elsewhere", namespace_labels={peer.label: value})
            for value in peer.values
            for mark in marks
        ]
    assert isinstance(peer, Addresses)
    excepted = [ipaddress.ip_network(one) for one in peer.excepted]
    found = []
    for cidr in peer.ranges:
        block = ipaddress.ip_network(cidr)
        # The internet begins and ends with special ranges.
        for address in (block[0], block[-1], *([block[2**24]] if block.prefixlen == 0 else [])):
            if not any(address in one for one in excepted):
                found.append(outside(str(address)))
    assert found
    return found


@each_row("shape", SHAPES)
def test_every_flow_of_the_table_is_allowed(shape: str) -> None:
    settings = make_settings(**SHAPES[shape])
    made = specs(settings)
    table = flows(traffic(settings))
    assert table
    for flow in table:
        for source in examples(flow.from_):
            for destination in examples(flow.to):
                for port in range(flow.port, flow.port + flow.ports):
                    assert allowed(made, source=source, destination=destination, port=port, protocol=flow.protocol), (
                        flow
                    )


@each_row("shape", SHAPES)
def test_nothing_but_the_flows_of_the_table_is_allowed(shape: str) -> None:
    """Every pair of known endpoints on every known port: allowed exactly where a line of the table says so."""
    settings = make_settings(**SHAPES[shape])
    made, table = specs(settings), flows(traffic(settings))
    pods = [SERVER, PICKER, ROUTER, WRITER, BENCHMARK, STRANGER, CLIENT]
    others = [OTHER_NAMESPACE, CLIENT_NAMESPACE, COLLECTOR, PROXY, PROBE, OFFICE, HUB, METADATA, CONTROL_PLANE]
    others += [KUBE_DNS, DNS_CACHE, SYSTEM_POD, FALSE_DNS, outside("10.32.0.10"), outside("34.118.224.10")]
    others += [outside("100.70.0.9"), outside("224.0.0.251"), outside("240.0.0.9"), outside("198.18.0.1")]
    others += [outside("169.254.20.10"), outside("130.211.3.9"), outside("10.65.0.1"), outside("192.168.1.1")]
    ports = (22, 53, 80, 443, 6443, 8000, 8001, 8008, 8404, 9002, 9003, 9090, 9256)
    checked = denied = 0
    for source in pods + others:
        sent = [flow for flow in table if _means(flow.from_, source)]
        for destination in pods + others:
            if source is destination or not (source in pods or destination in pods):
                continue
            is_allowed = between(made, source=source, destination=destination)
            meant = [flow for flow in sent if _means(flow.to, destination)]
            wanted = {(port, flow.protocol) for flow in meant for port in ports if 0 <= port - flow.port < flow.ports}
            pairs = [(port, protocol) for port in ports for protocol in ("TCP", "UDP")]
            assert {one for one in pairs if is_allowed(*one)} == wanted, (source, destination)
            checked += len(pairs)
            denied += len(pairs) - len(wanted)
    assert denied > checked * 0.9


def _means(peer: Peer, end: Endpoint) -> bool:
    if isinstance(peer, Pods):
        return end.is_pod and end.namespace == NAMESPACE and set(peer.labels) <= set((end.labels or {}).items())
    if isinstance(peer, Namespaces):
        known = {"kubernetes.io/metadata.name": end.namespace, **end.namespace_labels}
        label, marks = peer.pods or ("", ())
        meant = peer.pods is None or (end.labels or {}).get(label) in marks
        return end.is_pod and known.get(peer.label) in peer.values and meant
    if end.is_pod:
        return False
    address = address_of(end.address)
    return any(address in network_of(one) for one in peer.ranges) and not any(
        address in network_of(one) for one in peer.excepted
    )


CANARY = {"server": {"replicas": 2}, "rollout": {"engine": {"seed": 1}}, "benchmark": {"enabled": True}}
CANARY_POD = pod(app="qwen35-server-canary")
GOOGLES_APIS = outside("199.36.153.8")
ELSEWHERE = outside("10.77.0.9")
IMAGE = {"source": "image", "image": "projects/models/global/images/weights"}
OTHER_ADDRESSES = ("100.70.0.9", "100.64.0.1", "240.0.0.9", "34.118.224.5", "198.18.0.1", "224.0.0.251", "127.0.0.1")
Way = tuple[Endpoint, Endpoint, int]
WAYS: dict[str, tuple[dict[str, Any], list[Way], list[Way]]] = {
    "the load goes to the port that the gateway serves": (
        SHAPES["gateway"],
        [(BENCHMARK, OFFICE, 80)],
        [(BENCHMARK, OFFICE, 443)],
    ),
    "and with a name to the other one": (
        SHAPES["gateway with a name"],
        [(BENCHMARK, OFFICE, 443)],
        [(BENCHMARK, OFFICE, 80)],
    ),
    "a server with its weights on a volume reaches nothing but names": (
        {},
        [],
        [(SERVER, HUB, 443), (SERVER, METADATA, 80), (SERVER, CONTROL_PLANE, 443)],
    ),
    "one that keeps its caches reaches Google's APIs and nothing else outside": (
        SHAPES["compile caches"],
        [(SERVER, GOOGLES_APIS, 443), (SERVER, METADATA, 80)],
        [(SERVER, HUB, 443), (SERVER, outside("199.36.153.12"), 443), (CLIENT, GOOGLES_APIS, 443)],
    ),
    "only one without a volume downloads": (SHAPES["huggingface"], [(SERVER, HUB, 443)], [(SERVER, OFFICE, 443)]),
    "a volume of an image is one": ({"weights": IMAGE}, [], [(SERVER, HUB, 443)]),
    "the writer reaches the internet by HTTPS and nothing in the VPC": (
        {},
        [(WRITER, HUB, 443)],
        [(WRITER, HUB, 80), (WRITER, SERVER, 8000)] + [(WRITER, one, 443) for one in (OFFICE, CONTROL_PLANE, METADATA)],
    ),
    # A VPC may use shared, reserved and even public addresses: a writer that may reach "the internet" must not reach those.
    "the internet is no special range and nothing of the VPC": (
        SHAPES["a VPC with other addresses"],
        [(WRITER, outside("34.118.240.1"), 443)],
        [(WRITER, outside(inside), 443) for inside in OTHER_ADDRESSES],
    ),
    "clients are let in by label and strangers are not": (
        {},
        [(CLIENT_NAMESPACE, SERVER, 8000)],
        [(one, SERVER, 8000) for one in (OTHER_NAMESPACE, STRANGER, OFFICE)],
    ),
    "clients reach a canary": (CANARY, [(one, CANARY_POD, 8000) for one in (CLIENT, CLIENT_NAMESPACE, BENCHMARK)], []),
    "clients of routers reach none around them, its measurement does": (
        CANARY | {"endpoint": {"kind": "leastRequest"}},
        [(BENCHMARK, CANARY_POD, 8000)],
        [(one, CANARY_POD, 8000) for one in (CLIENT, CLIENT_NAMESPACE)],
    ),
    "with a key and a gateway no client reaches the paths that the key does not guard": (
        SHAPES["key and gateway"],
        [(PROXY, SERVER, 8000)],
        [(CLIENT_NAMESPACE, SERVER, 8000), (CLIENT, SERVER, 8000)],
    ),
    "an internal load balancer lets the VPC in but not the pods of the cluster": (
        SHAPES["internal load balancer"],
        [(OFFICE, SERVER, 8000)],
        [(outside("10.65.0.1"), SERVER, 8000), (HUB, SERVER, 8000)],
    ),
    "the picker reaches a control plane in the node range whatever that is": (
        {"gateway": {"enabled": True}, "network": {"nodeCidr": "34.96.0.0/20"}},
        [(PICKER, outside("34.96.0.5"), 443)],
        [(PICKER, HUB, 443)],
    ),
    "the proxies are those of the stack's own subnet": (
        {"gateway": {"enabled": True}, "network": {"proxyOnly": {"cidr": "10.9.0.0/23"}}},
        [(outside("10.9.1.1"), SERVER, 8000)],
        [(PROXY, SERVER, 8000)],
    ),
    "where the ranges are not known the whole VPC may be the gateway's proxies": (
        SHAPES["guest with gateway"],
        [(ELSEWHERE, SERVER, 8000), (ELSEWHERE, PICKER, 9002)],
        [(HUB, SERVER, 8000)],
    ),
}


@pytest.mark.parametrize(("sections", "reached", "closed"), WAYS.values(), ids=WAYS)
def test_who_reaches_whom(sections: dict[str, Any], reached: list[Way], closed: list[Way]) -> None:
    made = specs(make_settings(**sections))
    for source, destination, port in reached:
        assert allowed(made, source=source, destination=destination, port=port), (source, destination, port)
    for source, destination, port in closed:
        assert not allowed(made, source=source, destination=destination, port=port), (source, destination, port)


def test_an_exception_is_written_only_into_the_block_that_holds_it() -> None:
    made = sent_policies(flows(traffic(make_settings(server={"replicas": 12, "internalLoadBalancer": True}))))
    rule = next(rule for rule in made["server"]["ingress"] if "ipBlock" in rule["from"][0])
    blocks = {peer["ipBlock"]["cidr"]: peer["ipBlock"].get("except") for peer in rule["from"]}
    assert blocks == {"10.0.0.0/8": ["10.64.0.0/14"], **dict.fromkeys(PRIVATE_RANGES[1:])}


@pytest.mark.parametrize("service_range", ["10.32.0.0/20", "34.118.224.0/20"])
def test_names_resolve_whatever_answers_for_the_clusters_dns(service_range: str) -> None:
    made = specs(make_settings(network={"serviceCidr": service_range}))
    tenth = outside(str(ipaddress.ip_network(service_range)[10]))
    for protocol in ("UDP", "TCP"):
        for answering in (KUBE_DNS, DNS_CACHE, tenth):
            assert allowed(made, source=WRITER, destination=answering, port=53, protocol=protocol)
        for other in (SYSTEM_POD, FALSE_DNS, HUB, outside(str(ipaddress.ip_network(service_range)[11]))):
            assert not allowed(made, source=WRITER, destination=other, port=53, protocol=protocol)
    assert not allowed(made, source=WRITER, destination=KUBE_DNS, port=443)


@pytest.mark.parametrize("name", ["weights-writer", "vllm-benchmark", "qwen35-pool-epp"])
def test_a_server_is_not_named_like_a_workload_whose_way_out_it_would_get(name: str) -> None:
    with pytest.raises(ValueError, match="which other workloads use"):
        Traffic(server=name)
    with pytest.raises(SettingsError, match="which other workloads use"):
        make_settings(server={"name": name})


def test_a_guests_policies_are_those_of_the_stack_that_it_joins() -> None:
    """The ranges come from that stack's outputs, so they are known later than everything else."""
    ranges = VpcRanges(nodes="100.70.0.0/20", pods="10.64.0.0/14", services="10.32.0.0/20", proxies="10.9.0.0/23")
    guest = {"platform": {"stack": "acme/vllm-fleet/base"}, "gateway": {"enabled": True}}
    recording = recorded_component(
        lambda settings, opts: NetworkPolicies(
            "policies",
            NetworkPoliciesArgs(
                namespace=NAMESPACE, traffic=traffic(settings), ranges=pulumi.Output.from_input(ranges)
            ),
            opts,
        ),
        **guest,
    )
    made = {resource.inputs["metadata"]["name"]: resource.inputs["spec"] for resource in objects(recording).values()}
    assert made == sent_policies(flows(replace(traffic(make_settings(**guest)), ranges=ranges)))
    sent = list(made.values())
    assert allowed(sent, source=outside("10.9.0.7"), destination=SERVER, port=8000)
    assert not allowed(sent, source=OFFICE, destination=SERVER, port=8000)
    assert not allowed(sent, source=WRITER, destination=outside("100.70.0.9"), port=443)


def test_an_empty_table_denies_everything() -> None:
    made = list(sent_policies(()).values())
    assert made == [{"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}]
    assert not allowed(made, source=CLIENT, destination=SERVER, port=8000)


def test_the_guide_shows_the_table_as_it_is() -> None:
    """docs/network-policies.md lists every line, for every shape of stack that has it."""
    guide = (Path(__file__).parents[2] / "docs" / "network-policies.md").read_text()
    written = {line for line in guide.splitlines() if line.startswith("| ") and (" TCP " in line or " UDP " in line)}
    assert written == {
        _line(flow) for sections in SHAPES.values() for flow in flows(traffic(make_settings(**sections)))
    }


def _line(flow: Flow) -> str:
    ports = str(flow.port) if flow.ports == 1 else f"{flow.port} to {flow.port + flow.ports - 1}"
    return f"| {flow.from_.name} | {flow.to.name} | {flow.protocol} {ports} | {flow.why} |"


def test_the_guide_says_what_every_name_of_the_table_means() -> None:
    guide = (Path(__file__).parents[2] / "docs" / "network-policies.md").read_text()
    peers = {
        peer.name: peer
        for sections in SHAPES.values()
        for flow in flows(traffic(make_settings(**sections)))
        for peer in (flow.from_, flow.to)
    }
    meanings = dict(re.findall(r"^\| ([a-z0-9-]+(?:, [a-z0-9-]+)*) \| (.*) \|$", guide, re.MULTILINE))
    explained = {name: meaning for names, meaning in meanings.items() for name in names.split(", ")}
    assert peers.keys() - {"server", "benchmark", "weights-writer"} <= explained.keys()
    for name in ("dns", "health-checks", "vpc", "vpc-clients"):
        peer = peers[name]
        assert isinstance(peer, Addresses)
        written = [
            one.removesuffix("/32") for one in peer.ranges if one in (*DNS_SERVERS, *HEALTH_CHECKS, *PRIVATE_RANGES)
        ]
        assert written
        assert all(one in explained[name] for one in written), name
    assert all(value in explained["cluster-dns"] for value in ("kube-system", *DNS_PODS[1]))
