"""NetworkPolicies of a namespace: a default deny, and a table of allowed flows.

Dataplane V2 enforces them. A node can always reach its own pods, so kubelet probes and `kubectl port-forward` need
no flow. Policies apply after Service address translation, so flows name pods, not Services.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import pulumi
import pulumi_kubernetes as k8s

from facts.ranges import NOT_INTERNET, PRIVATE_RANGES
from settings.derived.traffic import CanaryTraffic, GatewayTraffic, Traffic, VpcRanges
from workloads.names import (
    BATCH_APP,
    BENCHMARK_APP,
    CLIENT_LABEL,
    CLIENT_VALUE,
    EPP_EXT_PROC_PORT,
    EPP_HEALTH_PORT,
    EPP_METRICS_PORT,
    GATEWAY_PORT,
    GATEWAY_TLS_PORT,
    HTTP_PORT,
    ROUTER_APP,
    ROUTER_METRICS_PORT,
    SPENDING_APP,
    WRITER_APP,
    epp_name,
    epp_selector,
    selector,
    stack_labels,
)

if TYPE_CHECKING:
    from pulumi_kubernetes.meta.v1 import LabelSelectorArgsDict, LabelSelectorRequirementArgsDict, ObjectMetaArgsDict
    from pulumi_kubernetes.networking.v1 import (
        IPBlockArgsDict,
        NetworkPolicyEgressRuleArgsDict,
        NetworkPolicyIngressRuleArgsDict,
        NetworkPolicyPeerArgsDict,
        NetworkPolicyPortArgsDict,
        NetworkPolicySpecArgsDict,
    )

Protocol = Literal["TCP", "UDP"]

# Source: Google Cloud Load Balancing, health check ranges.
HEALTH_CHECKS = ("35.191.0.0/16", "130.211.0.0/22")
# Source: GKE docs, NodeLocal DNSCache and Cloud DNS: not pods, so no pod selector can match.
DNS_SERVERS = ("169.254.20.10/32", "169.254.169.254/32")
# Source: GKE docs, NodeLocal DNSCache: the Service kube-dns has the tenth address of the range of Services.
KUBE_DNS_ADDRESS = 10
# Source: GKE's add-ons kube-dns and node-local-dns. With Dataplane V2 the cache's pods answer for the Service (gke-labs/kube-agents#162).
DNS_PODS = ("k8s-app", ("kube-dns", "node-local-dns"))
# Source: GKE docs, Workload Identity with network policy: port 80 with Dataplane V2.
METADATA_SERVER = "169.254.169.254/32"
# Source: VPC docs, Private Google Access, domain options: private.googleapis.com.
PRIVATE_APIS = "199.36.153.8/30"
# Source: GKE docs, managed collection: gke-gmp-system on Autopilot, gmp-system on other clusters.
COLLECTOR_NAMESPACES = ("gke-gmp-system", "gmp-system")
_NAMESPACE_NAME = "kubernetes.io/metadata.name"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pods:
    """Pods of this namespace with these labels; without labels, all pods."""

    name: str
    """Name in the table, and of these pods' policy."""
    labels: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Namespaces:
    """Pods of the namespaces whose label has one of these values."""

    name: str
    label: str
    values: tuple[str, ...]
    pods: tuple[str, tuple[str, ...]] | None = None
    """Pod label and accepted values. None: all pods."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Addresses:
    """Addresses outside the pod network, except the excluded ranges."""

    name: str
    ranges: tuple[str, ...]
    excepted: tuple[str, ...] = ()


Peer = Pods | Namespaces | Addresses


@dataclass(frozen=True, slots=True)
class Flow:
    """One allowed flow: connections from `from_` to `to`."""

    from_: Peer
    to: Peer
    port: int
    why: str
    ports: int = 1
    """Number of ports, from `port` on."""
    protocol: Protocol = "TCP"


EVERY_POD = Pods(name="every-pod")
WRITER = Pods(name="weights-writer", labels=tuple(selector(WRITER_APP).items()))
BENCHMARK = Pods(name="benchmark", labels=tuple(selector(BENCHMARK_APP).items()))
BATCH = Pods(name="batch", labels=tuple(selector(BATCH_APP).items()))
ROUTER = Pods(name="router", labels=tuple(selector(ROUTER_APP).items()))
SPENDING_GUARD = Pods(name="spending-guard", labels=tuple(selector(SPENDING_APP).items()))
CLIENT_PODS = Pods(name="client-pods", labels=((CLIENT_LABEL, CLIENT_VALUE),))
CLIENT_NAMESPACES = Namespaces(name="client-namespaces", label=CLIENT_LABEL, values=(CLIENT_VALUE,))
COLLECTORS = Namespaces(name="metric-collectors", label=_NAMESPACE_NAME, values=COLLECTOR_NAMESPACES)
CLUSTER_DNS = Namespaces(name="cluster-dns", label=_NAMESPACE_NAME, values=("kube-system",), pods=DNS_PODS)
METADATA = Addresses(name="metadata-server", ranges=(METADATA_SERVER,))
GOOGLE_APIS = Addresses(name="google-apis", ranges=(PRIVATE_APIS,))
PROBERS = Addresses(name="health-checks", ranges=HEALTH_CHECKS)


def server_pods(server: str) -> Pods:
    """The vLLM servers."""
    return Pods(name="server", labels=tuple(selector(server).items()))


def endpoint_picker(pool: str) -> Pods:
    """The endpoint picker, by its label."""
    return Pods(name=epp_name(pool), labels=tuple(epp_selector(pool).items()))


def dns_servers(ranges: VpcRanges) -> Addresses:
    """DNS addresses that are not pods, and the Service address of kube-dns."""
    if ranges.services is None:
        return Addresses(name="dns", ranges=DNS_SERVERS)
    kube_dns = ipaddress.IPv4Network(ranges.services)[KUBE_DNS_ADDRESS]
    return Addresses(name="dns", ranges=(*DNS_SERVERS, f"{kube_dns}/32"))


def internet(ranges: VpcRanges) -> Addresses:
    """All addresses except special-purpose ranges and the VPC's ranges, which may include public addresses used privately."""
    return Addresses(name="internet", ranges=("0.0.0.0/0",), excepted=_merged((*NOT_INTERNET, *ranges.known)))


def vpc(ranges: VpcRanges) -> Addresses:
    """The VPC, its peers and the networks behind its VPNs."""
    return Addresses(name="vpc", ranges=_merged((*PRIVATE_RANGES, *ranges.known)))


def _merged(ranges: Iterable[str]) -> tuple[str, ...]:
    """The ranges, in order, without those contained in another."""
    blocks = [ipaddress.IPv4Network(cidr) for cidr in dict.fromkeys(ranges)]
    return tuple(
        str(block) for block in blocks if not any(block != other and block.subnet_of(other) for other in blocks)
    )


def flows(traffic: Traffic) -> tuple[Flow, ...]:
    """The allowed flows of one namespace; everything else is denied."""
    server = server_pods(traffic.server)
    entrance = ROUTER if traffic.router else server
    return (
        *name_resolution(traffic.ranges),
        *_from_clients(traffic, entrance),
        *(() if traffic.gateway is None else _through_the_gateway(traffic, traffic.gateway, entrance)),
        *(_router(traffic, server) if traffic.router else ()),
        *_downloads(traffic, server),
        *(_compile_cache(server) if traffic.compile_cache else ()),
        *(_benchmark(traffic, server) if traffic.benchmark else ()),
        *(_batch(traffic, server) if traffic.batch else ()),
        *(_scrapes(traffic, traffic.gateway, server) if traffic.monitoring else ()),
        *(() if traffic.canary is None else _canary(traffic, traffic.canary)),
    )


def _canary(traffic: Traffic, canary: CanaryTraffic) -> Iterator[Flow]:
    """Flows in separate policies, even if the other end has one: policies are additive."""
    pods = Pods(name="canary", labels=tuple(selector(canary.server).items()))
    # Clients of routers reach no server around them; the canary is tried by the benchmark and through `kubectl port-forward`.
    table = [] if traffic.router else [*_from_clients(replace(traffic, internal_load_balancer=False), pods)]
    gateway = None if traffic.gateway is None or canary.pool is None else replace(traffic.gateway, pool=canary.pool)
    if gateway is not None:
        table += _through_the_gateway(traffic, gateway, pods)
    if not traffic.weights_writer:
        table += _downloads(traffic, pods)
    if traffic.compile_cache:
        table += _compile_cache(pods)
    if traffic.benchmark:
        table.append(Flow(BENCHMARK, pods, HTTP_PORT, "the canary's measurement load"))
    if traffic.monitoring:
        table += _scrapes(traffic, gateway, pods)
    pickers = () if gateway is None or gateway.pool is None else (endpoint_picker(gateway.pool),)
    for flow in table:
        other = flow.from_
        own = isinstance(other, Pods) and other not in (pods, *pickers)
        yield replace(flow, from_=replace(other, name=f"{other.name}-of-canary")) if own else flow


def name_resolution(ranges: VpcRanges) -> Iterator[Flow]:
    """DNS flows, needed by every pod."""
    answers: tuple[tuple[Peer, str], ...] = (
        (dns_servers(ranges), "names resolve at the node, not at a pod"),
        (CLUSTER_DNS, "names resolve at a pod, where the cluster's DNS is kube-dns"),
    )
    for to, why in answers:
        for protocol in _DNS_PROTOCOLS:
            yield Flow(EVERY_POD, to, 53, why, protocol=protocol)


_DNS_PROTOCOLS: tuple[Protocol, ...] = ("UDP", "TCP")


def _from_clients(traffic: Traffic, entrance: Pods) -> Iterator[Flow]:
    # With an API key and a gateway, only /v1 is routed; a server reached directly would also serve the paths that the key
    # does not protect. A router serves /v1 only.
    if not (traffic.guards_v1_only and traffic.gateway is not None and entrance != ROUTER):
        yield Flow(
            CLIENT_PODS,
            entrance,
            HTTP_PORT,
            f"pods here labelled {CLIENT_LABEL}={CLIENT_VALUE}",
            ports=_ranks(traffic, entrance),
        )
        yield Flow(
            CLIENT_NAMESPACES,
            entrance,
            HTTP_PORT,
            f"applications in namespaces labelled {CLIENT_LABEL}={CLIENT_VALUE}",
            ports=_ranks(traffic, entrance),
        )
    if traffic.internal_load_balancer:
        yield Flow(
            _vpc_without_pods(traffic),
            entrance,
            HTTP_PORT,
            "the passthrough load balancer keeps its clients' addresses",
        )


def _router(traffic: Traffic, server: Pods) -> Iterator[Flow]:
    yield Flow(
        ROUTER, server, HTTP_PORT, "requests, each to the server that the router chose", ports=traffic.rank_ports
    )
    if traffic.benchmark:
        yield Flow(BENCHMARK, ROUTER, HTTP_PORT, "the load through the router")
    if traffic.monitoring:
        yield Flow(COLLECTORS, ROUTER, ROUTER_METRICS_PORT, "managed Prometheus reads the router's metrics")


def _through_the_gateway(traffic: Traffic, gateway: GatewayTraffic, entrance: Pods) -> Iterator[Flow]:
    # If the range is unknown, a wrong guess would make the gateway answer 503 to everything.
    known = traffic.ranges.proxies
    proxies = vpc(traffic.ranges) if known is None else Addresses(name="gateway-proxies", ranges=(known,))
    each = _ranks(traffic, entrance)
    yield Flow(proxies, entrance, HTTP_PORT, "requests, from the proxies of the regional load balancer", ports=each)
    if gateway.pool is not None:
        picker = endpoint_picker(gateway.pool)
        yield Flow(proxies, picker, EPP_EXT_PROC_PORT, "a replica is picked for each request")
    yield Flow(
        PROBERS,
        entrance,
        HTTP_PORT if each == 1 else traffic.status_port,
        "the load balancer's health check of the replicas",
    )
    if gateway.pool is None:
        return
    yield Flow(PROBERS, picker, EPP_EXT_PROC_PORT, "the load balancer's health check of the picker")
    yield Flow(PROBERS, picker, EPP_HEALTH_PORT, "the picker's own health service")
    yield Flow(picker, entrance, HTTP_PORT, "the picker reads queue and cache state of every replica", ports=each)
    yield Flow(
        picker,
        vpc(traffic.ranges),
        443,
        "the picker watches pods and the pool; GKE assigns the control plane's private address",
    )


def _downloads(traffic: Traffic, server: Pods) -> Iterator[Flow]:
    if traffic.weights_writer:
        yield Flow(WRITER, internet(traffic.ranges), 443, "the model, from Hugging Face and its storage hosts")
    elif not traffic.weights_in_image:
        yield Flow(
            server,
            internet(traffic.ranges),
            443,
            "the replica downloads the model itself (weights.source: huggingface)",
        )


def _compile_cache(server: Pods) -> Iterator[Flow]:
    yield Flow(server, METADATA, 80, "the access token for the compile-cache bucket")
    yield Flow(server, GOOGLE_APIS, 443, "compile caches from and to Cloud Storage, at Google's own addresses")


def _benchmark(traffic: Traffic, server: Pods) -> Iterator[Flow]:
    gateway, outside = traffic.gateway, internet(traffic.ranges)
    yield Flow(BENCHMARK, server, HTTP_PORT, "the load, and each server's metrics")
    if traffic.status_port != HTTP_PORT:
        yield Flow(BENCHMARK, server, traffic.status_port, "each server's metrics, of all its engines")
    yield Flow(BENCHMARK, METADATA, 80, "the access token for the results bucket and the dataset's bucket")
    yield Flow(BENCHMARK, outside, 443, "tokenizer, dataset, and results to Cloud Storage")
    if gateway is not None:
        yield _through(gateway, BENCHMARK, traffic, "the load through the gateway")


def _batch(traffic: Traffic, server: Pods) -> Iterator[Flow]:
    """Documents go to what clients of the fleet call."""
    gateway, outside = traffic.gateway, internet(traffic.ranges)
    if gateway is not None:
        yield _through(gateway, BATCH, traffic, "documents, through the gateway")
    elif traffic.router:
        yield Flow(BATCH, ROUTER, HTTP_PORT, "documents, through the router")
    else:
        yield Flow(BATCH, server, HTTP_PORT, "documents of a batch", ports=traffic.rank_ports)
    yield Flow(BATCH, METADATA, 80, "the access token for the bucket of batches")
    yield Flow(BATCH, outside, 443, "documents and results in Cloud Storage")


def _through(gateway: GatewayTraffic, pods: Pods, traffic: Traffic, why: str) -> Flow:
    """Requests of these pods to the gateway's load balancer."""
    return Flow(
        pods,
        internet(traffic.ranges) if gateway.public else vpc(traffic.ranges),
        GATEWAY_TLS_PORT if gateway.tls else GATEWAY_PORT,
        f"{why}, whose address is {'public' if gateway.public else 'in the VPC'}",
    )


def _ranks(traffic: Traffic, entrance: Pods) -> int:
    """Ports of what clients call: routers have one."""
    return 1 if entrance == ROUTER else traffic.rank_ports


def _scrapes(traffic: Traffic, gateway: GatewayTraffic | None, server: Pods) -> Iterator[Flow]:
    yield Flow(COLLECTORS, server, traffic.status_port, "managed Prometheus reads /metrics")
    if gateway is not None and gateway.pool is not None:
        yield Flow(
            COLLECTORS, endpoint_picker(gateway.pool), EPP_METRICS_PORT, "managed Prometheus reads the picker's metrics"
        )


def spending_flows(traffic: Traffic) -> Iterator[Flow]:
    """The allowed flows of the spending guard's own namespace."""
    yield Flow(
        SPENDING_GUARD, vpc(traffic.ranges), 443, "the guard uses the control plane, whose private address GKE assigns"
    )


def _vpc_without_pods(traffic: Traffic) -> Addresses:
    """The VPC's addresses without the cluster's pods, which are admitted by label only. Dataplane V2 does not match pods by
    address, so an unknown range does no harm.
    """
    pods = () if traffic.ranges.pods is None else (traffic.ranges.pods,)
    return Addresses(name="vpc-clients", ranges=vpc(traffic.ranges).ranges, excepted=pods)


def policies(table: Iterable[Flow]) -> dict[str, NetworkPolicySpecArgsDict]:
    """NetworkPolicy specs by name: a default deny, and one policy per group of pods."""
    groups: dict[str, Pods] = {}
    inward: dict[str, list[NetworkPolicyIngressRuleArgsDict]] = {}
    outward: dict[str, list[NetworkPolicyEgressRuleArgsDict]] = {}
    for flow in table:
        if isinstance(flow.to, Pods):
            groups.setdefault(flow.to.name, flow.to)
            inward.setdefault(flow.to.name, []).append({"from_": _peers(flow.from_), "ports": _ports(flow)})
        if isinstance(flow.from_, Pods):
            groups.setdefault(flow.from_.name, flow.from_)
            outward.setdefault(flow.from_.name, []).append({"to": _peers(flow.to), "ports": _ports(flow)})
    specs: dict[str, NetworkPolicySpecArgsDict] = {
        "default-deny": {"pod_selector": {}, "policy_types": ["Ingress", "Egress"]}
    }
    for name, pods in groups.items():
        spec: NetworkPolicySpecArgsDict = {"pod_selector": _label_selector(pods.labels)}
        if name in inward:
            spec["ingress"] = inward[name]
        if name in outward:
            spec["egress"] = outward[name]
        spec["policy_types"] = [kind for kind, of in (("Ingress", inward), ("Egress", outward)) if name in of]
        specs[name] = spec
    return specs


def _ports(flow: Flow) -> list[NetworkPolicyPortArgsDict]:
    # Not `endPort`: Dataplane V2 ignored it before GKE 1.32 (unverified).
    return [{"protocol": flow.protocol, "port": flow.port + number} for number in range(flow.ports)]


def _peers(peer: Peer) -> list[NetworkPolicyPeerArgsDict]:
    if isinstance(peer, Pods):
        return [{"pod_selector": _label_selector(peer.labels)}]
    if isinstance(peer, Namespaces):
        inside: NetworkPolicyPeerArgsDict = {"namespace_selector": _one_of(peer.label, peer.values)}
        return [inside if peer.pods is None else {**inside, "pod_selector": _one_of(*peer.pods)}]
    return [{"ip_block": _block(cidr, peer.excepted)} for cidr in peer.ranges]


def _block(cidr: str, excepted: Iterable[str]) -> IPBlockArgsDict:
    # The API refuses an exception outside its block.
    outer = ipaddress.IPv4Network(cidr)
    inside = [cidr for cidr in excepted if ipaddress.IPv4Network(cidr).subnet_of(outer)]
    return {"cidr": cidr, "except_": inside} if inside else {"cidr": cidr}


def _one_of(label: str, values: tuple[str, ...]) -> LabelSelectorArgsDict:
    if len(values) == 1:
        return {"match_labels": {label: values[0]}}
    chosen: LabelSelectorRequirementArgsDict = {"key": label, "operator": "In", "values": list(values)}
    return {"match_expressions": [chosen]}


def _label_selector(wanted: Iterable[tuple[str, str]]) -> LabelSelectorArgsDict:
    labels = dict(wanted)
    return {"match_labels": labels} if labels else {}


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkPoliciesArgs:
    """Arguments of `NetworkPolicies`."""

    namespace: pulumi.Input[str]
    """Namespace of the policies."""
    traffic: Traffic
    """Workloads and required connections; all others are denied."""
    ranges: pulumi.Input[VpcRanges] | None = None
    """The VPC's ranges, which another stack may supply; they override those of `traffic`."""
    table: Callable[[Traffic], Iterable[Flow]] = flows
    """The allowed flows."""


class NetworkPolicies(pulumi.ComponentResource):
    """The NetworkPolicies of one namespace."""

    names: tuple[str, ...]

    def __init__(self, name: str, args: NetworkPoliciesArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("vllm-fleet:workloads:NetworkPolicies", name, None, opts)
        known = args.ranges if isinstance(args.ranges, VpcRanges) else None
        specs = policies(args.table(args.traffic if known is None else replace(args.traffic, ranges=known)))
        for policy, spec in specs.items():
            metadata: ObjectMetaArgsDict = {"name": policy, "namespace": args.namespace, "labels": stack_labels()}
            k8s.networking.v1.NetworkPolicy(
                f"{name}-{policy}",
                metadata=metadata,
                spec=spec if args.ranges is None or known is not None else _within(args, args.ranges, policy),
                opts=pulumi.ResourceOptions(parent=self),
            )
        self.names = tuple(specs)
        self.register_outputs({})


def _within(
    args: NetworkPoliciesArgs, ranges: pulumi.Input[VpcRanges], policy: str
) -> pulumi.Output[NetworkPolicySpecArgsDict]:
    """The spec of one policy, once the ranges are known. The set of policies does not depend on them."""

    def spec(known: VpcRanges) -> NetworkPolicySpecArgsDict:
        return policies(args.table(replace(args.traffic, ranges=known)))[policy]

    return pulumi.Output.from_input(ranges).apply(spec)
