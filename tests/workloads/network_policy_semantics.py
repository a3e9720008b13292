"""What NetworkPolicies allow, by the rules of the Kubernetes API: a small evaluator, independent of how they were made."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

# A test asks for the same few thousands of times.
address_of = lru_cache(ipaddress.ip_address)
network_of = lru_cache(ipaddress.ip_network)


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """One end of a connection: a pod, with its namespace, or an address outside the cluster."""

    labels: Mapping[str, str] | None = None
    """A pod's labels; None for an address."""
    namespace: str = "vllm"
    namespace_labels: Mapping[str, str] = field(default_factory=dict)
    address: str = ""

    @property
    def is_pod(self) -> bool:
        return self.labels is not None


def allowed(
    policies: Iterable[Mapping[str, Any]],
    *,
    source: Endpoint,
    destination: Endpoint,
    port: int,
    protocol: str = "TCP",
    namespace: str = "vllm",
) -> bool:
    """Whether the policies of `namespace` let this connection through, at both of its ends."""
    return between(policies, source=source, destination=destination, namespace=namespace)(port, protocol)


def between(
    policies: Iterable[Mapping[str, Any]],
    *,
    source: Endpoint,
    destination: Endpoint,
    namespace: str = "vllm",
) -> Callable[[int, str], bool]:
    """Whether they let a connection to a port, of a protocol, through."""
    specs = list(policies)
    ends = (
        ("Egress", "egress", "to", source, destination),
        ("Ingress", "ingress", "from", destination, source),
    )
    open_at_each_end = []
    for kind, rules, peers, pod, other in ends:
        if pod.is_pod and pod.namespace == namespace:
            selecting = [
                spec
                for spec in specs
                if kind in spec["policyTypes"] and _selects(spec["podSelector"], pod.labels or {})
            ]
            if selecting:
                of_rules = [rule for spec in selecting for rule in spec.get(rules, [])]
                open_at_each_end.append(
                    [rule.get("ports") for rule in of_rules if _peer_matches(rule.get(peers), pod, other)]
                )
    if not all(open_at_each_end):  # most pairs: no port is looked at
        return lambda _port, _protocol: False
    return lambda port, protocol: all(
        any(_port_matches(ports, port, protocol) for ports in opened) for opened in open_at_each_end
    )


def _port_matches(ports: list[Mapping[str, Any]] | None, port: int, protocol: str) -> bool:
    if not ports:
        return True
    return any(one.get("protocol", "TCP") == protocol and one.get("port", port) == port for one in ports)


def _peer_matches(peers: list[Mapping[str, Any]] | None, pod: Endpoint, other: Endpoint) -> bool:
    if not peers:
        return True
    return any(_one_peer_matches(peer, pod, other) for peer in peers)


def _one_peer_matches(peer: Mapping[str, Any], pod: Endpoint, other: Endpoint) -> bool:
    if "ipBlock" in peer:
        # Pods are matched by selectors alone: Dataplane V2 gives them identities, not addresses.
        if other.is_pod or not other.address:
            return False
        address = address_of(other.address)
        block = peer["ipBlock"]
        return address in network_of(block["cidr"]) and not any(
            address in network_of(one) for one in block.get("except", [])
        )
    if not other.is_pod:
        return False
    if "namespaceSelector" in peer:
        if not _selects(
            peer["namespaceSelector"],
            {
                "kubernetes.io/metadata.name": other.namespace,
                **other.namespace_labels,
            },
        ):
            return False
    elif other.namespace != pod.namespace:
        return False
    return _selects(peer.get("podSelector", {}), other.labels or {})


def _selects(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    if any(labels.get(key) != value for key, value in selector.get("matchLabels", {}).items()):
        return False
    for one in selector.get("matchExpressions", []):
        value, operator = labels.get(one["key"]), one["operator"]
        matches = {
            "In": value in one.get("values", []),
            "NotIn": value not in one.get("values", []),
            "Exists": value is not None,
            "DoesNotExist": value is None,
        }[operator]
        if not matches:
            return False
    return True
