"""NetworkPolicies of Kubernetes, Cilium and GKE in the form of Kubernetes' own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from addresses import Span, spans
from objects import number
from rule import Resource, dig, has, listed, mapped

DIRECTIONS: Final = {"ingress": "from", "egress": "to"}
"""Each direction and the key of its peers."""
ANY_ADDRESS: Final = ({"ipBlock": {"cidr": "0.0.0.0/0"}}, {"ipBlock": {"cidr": "::/0"}})
_ENTITIES: Final[Mapping[str, tuple[Any, ...]]] = {
    "all": ANY_ADDRESS,
    "world": ANY_ADDRESS,
    "world-ipv4": ANY_ADDRESS[:1],
    "world-ipv6": ANY_ADDRESS[1:],
    "cluster": ({"namespaceSelector": {}},),
}
"""Cilium's names of groups that are not single workloads. Source: Cilium documentation, entities based policies."""
_LITERAL_LABELS: Final = 2
"""Labels of a name that a pattern must spell out: `*.googleapis.com` has two, `*.com` one."""


def policy_specs(resource: Resource) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The specs of a network policy of any kind, each with its path; nothing for other objects."""
    if not resource.is_kubernetes:
        return
    if resource.kind == "NetworkPolicy":
        yield "spec", mapped(dig(resource.props, "spec"))
    elif resource.kind == "FQDNNetworkPolicy":
        spec = dig(resource.props, "spec")
        yield "spec", {"podSelector": dig(spec, "podSelector"), "egress": list(_by_name(spec))}
    elif resource.kind in ("CiliumNetworkPolicy", "CiliumClusterwideNetworkPolicy"):
        many = enumerate(listed(dig(resource.props, "specs")))
        for path, spec in (("spec", dig(resource.props, "spec")), *((f"specs[{index}]", one) for index, one in many)):
            if isinstance(spec, Mapping):
                rules = {way: list(_cilium(spec, way, key)) for way, key in DIRECTIONS.items()}
                yield path, {"podSelector": dig(spec, "endpointSelector"), **rules}


def blocks(entry: Any, key: str) -> tuple[Span, ...]:
    """The addresses that one entry of a spec names."""
    found: list[Span] = []
    for peer in listed(dig(entry, key)):
        block = dig(peer, "ipBlock")
        if has(block, "cidr"):
            found += spans((dig(block, "cidr"),), without=listed(dig(block, "except")))
    return spans(found)


def _by_name(spec: Any) -> Iterator[Mapping[str, Any]]:
    for entry in listed(dig(spec, "egress")):
        patterns = [str(dig(match_, "pattern")) for match_ in listed(dig(entry, "matches")) if has(match_, "pattern")]
        if any(sum("*" not in label for label in pattern.split(".")) < _LITERAL_LABELS for pattern in patterns):
            yield {"to": list(ANY_ADDRESS), "ports": dig(entry, "ports")}


def _cilium(spec: Any, way: str, key: str) -> Iterator[Mapping[str, Any]]:
    for entry in listed(dig(spec, way)):
        peers: list[Any] = [{"podSelector": one} for one in listed(dig(entry, f"{key}Endpoints"))]
        peers += [{"ipBlock": {"cidr": one}} for one in listed(dig(entry, f"{key}CIDR"))]
        peers += [{"ipBlock": one} for one in listed(dig(entry, f"{key}CIDRSet"))]
        peers += [peer for one in listed(dig(entry, f"{key}Entities")) for peer in _ENTITIES.get(str(one), ())]
        # Peers of other kinds (names, services, nodes) are single ones.
        if peers or not any(str(one).startswith(key) and one != "toPorts" for one in mapped(entry)):
            ports = [
                {"port": _plain(dig(port, "port")), "endPort": dig(port, "endPort")}
                for group in listed(dig(entry, "toPorts"))
                for port in listed(dig(group, "ports"))
            ]
            yield {key: peers, "ports": ports}


def _plain(port: Any) -> Any:
    return int(port) if isinstance(port, str) and port.isdecimal() else number(port) or port
