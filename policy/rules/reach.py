"""Rules for what is reached from outside: instances, pods, Services and routes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from addresses import is_wide, public, spans, touches, wide_ranges
from facts.finding import Finding
from facts.ranges import PRIVATE_RANGES, PRIVATE_V6
from network_policies import DIRECTIONS, blocks, policy_specs
from objects import names_some, number, selects, shown
from routing import GATEWAY_API, is_internal
from rule import Resource, ResourceRule, Settings, dig, finding, has, listed

NOT_THE_INTERNET: Final = tuple(sorted((*PRIVATE_RANGES, "169.254.0.0/16")))
"""Private networks and link-local addresses, which include the metadata server. Source: `PRIVATE_RANGES`; RFC 3927."""
DNS_PORT: Final = 53
WIDE_PORTS: Final = 100
"""Ports that one resource may open in one direction. Assumed: enough for serving."""
_WITH_PORTS: Final = {"tcp": "tcp", "6": "tcp", "udp": "udp", "17": "udp", "sctp": "sctp", "132": "sctp"}
"""Protocols that have ports, by name and number. Source: IANA, protocol numbers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """One rule of a firewall that lets packets in."""

    path: str
    """Where it is in the resource, with the dot that follows."""
    sources: Mapping[str, Sequence[Any]]
    """What names its sources, by key; ranges under a key that ends in `Ranges`."""
    targets: Mapping[str, Sequence[Any]]
    allows: Sequence[tuple[str, Any, Sequence[Any]]]
    """Path, protocol and ports."""


def _openings(resource: Resource) -> Iterator[Opening]:
    if not resource.type.startswith("gcp:compute/"):
        return
    if resource.kind == "Firewall":
        if dig(resource.props, "disabled") is not True and dig(resource.props, "direction") != "EGRESS":
            yield Opening(
                path="",
                sources=_given(resource.props, "sourceRanges", "sourceTags", "sourceServiceAccounts"),
                targets=_given(resource.props, "destinationRanges", "targetTags", "targetServiceAccounts"),
                allows=_protocols("allows", dig(resource.props, "allows"), "protocol"),
            )
    elif resource.kind.endswith("FirewallPolicyWithRules"):
        for index, rule in enumerate(listed(dig(resource.props, "rules"))):
            yield from _of_policy(f"rules[{index}].", rule)
    elif resource.kind.endswith(("FirewallPolicyRule", "SecurityPolicyRule")):
        yield from _of_policy("", resource.props)


def _of_policy(path: str, rule: Any) -> Iterator[Opening]:
    """A rule of a firewall policy. Its region codes name no source: a country is not a network."""
    action, direction = dig(rule, "action"), dig(rule, "direction") or "INGRESS"
    if (
        action not in ("allow", "apply_security_profile_group")
        or direction != "INGRESS"
        or dig(rule, "disabled") is True
    ):
        return
    match = dig(rule, "match", "config") or dig(rule, "match")
    yield Opening(
        path=path,
        sources=_given(match, "srcIpRanges", "srcSecureTags", "srcAddressGroups", "srcFqdns", "srcNetworks"),
        targets=_given(match, "destIpRanges", "destAddressGroups")
        | _given(rule, "targetSecureTags", "targetServiceAccounts", "targetForwardingRules"),
        allows=_protocols(f"{path}match.layer4Configs", dig(match, "layer4Configs"), "ipProtocol"),
    )


def _given(props: Any, *keys: str) -> dict[str, tuple[Any, ...]]:
    return {key: tuple(listed(dig(props, key))) for key in keys}


def _protocols(path: str, entries: Any, key: str) -> list[tuple[str, Any, Sequence[Any]]]:
    return [
        (f"{path}[{index}]", dig(entry, key), tuple(listed(dig(entry, "ports"))))
        for index, entry in enumerate(listed(entries))
    ]


def _open_firewall(resource: Resource, _: Settings) -> Iterator[Finding]:
    for opening in _openings(resource):
        if not opening.allows:
            continue
        if not any(opening.sources.values()):
            yield finding(f"{opening.path}{', '.join(opening.sources)} are missing, which means any source")
        if not any(opening.targets.values()):
            yield finding(
                f"{opening.path}{', '.join(opening.targets)} are missing, which means every instance of the network"
            )
        for key, ranges in (*opening.sources.items(), *opening.targets.items()):
            if key.endswith("Ranges") and (told := wide_ranges(f"{opening.path}{key}", ranges)):
                yield finding(told)
        for path, protocol, ports in opening.allows:
            name = _WITH_PORTS.get(str(protocol).lower(), str(protocol))
            if name == "all" or (name in _WITH_PORTS and not ports):
                yield finding(f"{path} allows every port of {protocol}")
            elif (opened := _many(_bounds(port) for port in ports)) > WIDE_PORTS:
                yield finding(f"{path} allows {opened:,} ports of {protocol}", write="name the ports")


def _bounds(port: Any) -> tuple[Any, Any]:
    """First and last port of "8000", "8000-8007" or 8000."""
    first, _, last = str(port).strip().partition("-")
    return (int(first), int(last or first)) if first.isdecimal() and (last or first).isdecimal() else (port, port)


def _many(ranges: Iterable[tuple[Any, Any]]) -> int:
    """Ports in ranges of first and last, each range once; a name is one port."""
    # By their text: a wrong value may be no key.
    numbers = {f"{first} {last}": (number(first), number(last)) for first, last in ranges}
    return int(sum(1 if first is None or last is None else last - first + 1 for first, last in numbers.values()))


def _wide_policy(resource: Resource, _: Settings) -> Iterator[Finding]:
    for path, spec in policy_specs(resource):
        for direction, key in DIRECTIONS.items():
            entries = tuple(listed(dig(spec, direction)))
            where = f"{path}.{direction}"
            for index, entry in enumerate(entries):
                yield from _entry(f"{where}[{index}]", direction, entry, not names_some(dig(spec, "podSelector")))
            single = [
                finding for index, one in enumerate(entries) for finding in _blocks(f"{where}[{index}]", key, one)
            ]
            yield from single or _together(where, direction, entries)


def _entry(where: str, direction: str, entry: Any, every_pod: bool) -> Iterator[Finding]:
    ports = tuple(listed(dig(entry, "ports")))
    numbers = [dig(port, "port") for port in ports]
    dns = bool(numbers) and all(one == DNS_PORT for one in numbers)
    yield from _peers(where, DIRECTIONS[direction], entry, dns=dns and direction == "egress")
    opened = _many((dig(port, "port"), dig(port, "endPort") or dig(port, "port")) for port in ports)
    if not ports or None in numbers:
        yield finding(f"{where} allows every port", write="name the ports")
    elif opened > WIDE_PORTS:
        wide = next((one for one in ports if has(one, "endPort")), ports[0])
        yield finding(
            f"{where} allows {opened:,} ports, such as {shown(dig(wide, 'port'))} to {shown(dig(wide, 'endPort'))}",
            write="name the ports",
        )
    elif every_pod and not dns:
        yield finding(
            f"podSelector names no pods of the namespace, so all of them, and {where} allows "
            + ", ".join(f"port {shown(one)}" for one in numbers),
            write="select the pods that need it",
        )


def _peers(where: str, key: str, entry: Any, *, dns: bool) -> Iterator[Finding]:
    peers = tuple(listed(dig(entry, key)))
    if not peers:
        yield finding(f"{where}.{key} is empty, which means any peer")
    for index, peer in enumerate(peers):
        path = f"{where}.{key}[{index}]"
        selectors = {one: dig(peer, one) for one in ("podSelector", "namespaceSelector") if has(peer, one)}
        unnamed = [selector for selector in selectors if not names_some(selectors[selector])]
        if selectors and len(unnamed) == len(selectors):
            each = all(selects(selectors[one], {}) for one in unnamed)
            yield finding(
                f"{path} selects {'every pod' if each else 'pods by no name'}"
                + (" of every namespace" if "namespaceSelector" in selectors else "")
            )
        elif "namespaceSelector" in unnamed and not dns:
            yield finding(
                f"{path}.namespaceSelector names no namespaces, so all of them",
                why="whoever may create pods in any namespace may give them the labels of podSelector",
                write="namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: NAMESPACE}}",
            )
        if not selectors and not has(dig(peer, "ipBlock"), "cidr"):
            yield finding(f"{path} is empty, which means any peer")


def _blocks(where: str, key: str, entry: Any) -> Iterator[Finding]:
    for index, peer in enumerate(listed(dig(entry, key))):
        parts = blocks({key: [peer]}, key)
        if is_wide(parts) and ((inside := _inside(parts)) or key == "from"):
            yield finding(
                f"{where}.{key}[{index}].ipBlock.cidr is {dig(peer, 'ipBlock', 'cidr')}"
                + (f" and includes {', '.join(inside)}" if key == "to" else ""),
                write=f"add to except: {', '.join(inside)}" if key == "to" else "",
            )


def _together(where: str, direction: str, entries: Sequence[Any]) -> Iterator[Finding]:
    """What the blocks of all entries contain. Entries of private networks alone do not count: they are named networks."""
    found = [part for entry in entries if public(part := blocks(entry, DIRECTIONS[direction]))]
    parts = spans(one for part in found for one in part)
    inside = _inside(parts)
    if is_wide(parts) and (direction == "ingress" or inside):
        yield finding(
            f"the blocks of {where} are together most of the internet"
            + (f" and include {', '.join(inside)}" if inside else "")
        )


def _inside(parts: Sequence[Any]) -> list[str]:
    return [one for one in (*NOT_THE_INTERNET, *PRIVATE_V6) if touches(parts, one)]


def _open_routes(resource: Resource, _: Settings) -> Iterator[Finding]:
    if not resource.type.startswith(f"kubernetes:{GATEWAY_API}/") or resource.kind != "Gateway":
        return
    for index, listener in enumerate(listed(dig(resource.props, "spec", "listeners"))):
        allowed = dig(listener, "allowedRoutes", "namespaces")
        chosen = dig(allowed, "from")
        where = f"spec.listeners[{index}].allowedRoutes.namespaces"
        if chosen == "All":
            yield finding(f"{where}.from is All")
        elif chosen == "Selector" and not names_some(dig(allowed, "selector")):
            yield finding(f"{where}.selector names no namespaces, so all of them")


def _open_service(resource: Resource, _: Settings) -> Iterator[Finding]:
    props = resource.props
    if resource.type == "kubernetes:core/v1:Service":
        kind = dig(props, "spec", "type")
        ranges = tuple(listed(dig(props, "spec", "loadBalancerSourceRanges")))
        if kind == "LoadBalancer" and not is_internal(resource) and (not ranges or wide_ranges("", ranges)):
            yield finding(
                "spec.type is LoadBalancer, and its address is external",
                write="metadata.annotations: {networking.gke.io/load-balancer-type: Internal}, or ClusterIP",
            )
        elif kind in ("NodePort", "ExternalName"):
            leads = "every node opens its port" if kind == "NodePort" else "its clients are led out of the cluster"
            yield finding(f"spec.type is {kind}", why=leads)
        if tuple(listed(dig(props, "spec", "externalIPs"))):
            yield finding(
                "spec.externalIPs is set",
                why="the nodes take traffic of any address that it names, others' included; source: CVE-2020-8554",
            )
    elif resource.kind == "ServiceAttachment":
        if "ACCEPT_AUTOMATIC" in (dig(props, "connectionPreference"), dig(props, "spec", "connectionPreference")):
            yield finding(
                "connectionPreference is ACCEPT_AUTOMATIC",
                why="any project of any customer connects to it",
                write="ACCEPT_MANUAL, with the projects that may",
            )
    elif resource.type.startswith("gcp:compute/"):
        yield from _open_machine(resource)


def _open_machine(resource: Resource) -> Iterator[Finding]:
    props = resource.props
    if resource.kind in ("ForwardingRule", "GlobalForwardingRule"):
        scheme = dig(props, "loadBalancingScheme") if has(props, "loadBalancingScheme") else "EXTERNAL"
        if scheme in ("EXTERNAL", "EXTERNAL_MANAGED") and dig(props, "ipProtocol") not in ("ESP", "AH"):
            yield finding(f"loadBalancingScheme is {scheme}", write="INTERNAL_MANAGED")
    for index, interface in enumerate(listed(dig(props, "networkInterfaces"))):
        for key in ("accessConfigs", "ipv6AccessConfigs"):
            if tuple(listed(dig(interface, key))):
                yield finding(f"networkInterfaces[{index}].{key} is set", write=f"remove {key}, and use Cloud NAT")


RULES = (
    ResourceRule(
        name="firewall-open",
        subject="security",
        statement="An ingress firewall rule names its sources, targets and ports.",
        evidence="a missing source, target or port means all of them. Source: VPC documentation, firewall rules. Mandatory: model servers "
        "answer anyone who reaches port 8000",
        fix="sourceRanges, destinationRanges or targets, and ports",
        level="mandatory",
        severity="critical",
        judge=_open_firewall,
    ),
    ResourceRule(
        name="network-policy-wide",
        subject="security",
        statement="A NetworkPolicy names its pods, peers and ports.",
        evidence="a missing peer or port means all of them, and the internet without exceptions includes the metadata server and the VPC. "
        "Source: Kubernetes, network policies. Mandatory: one such entry undoes the default deny",
        fix="a selector that names pods, or the narrowest range that works",
        level="mandatory",
        severity="high",
        judge=_wide_policy,
    ),
    ResourceRule(
        name="routes-from-anywhere",
        subject="security",
        statement="A Gateway accepts routes only from named namespaces.",
        evidence="otherwise anyone who can write an HTTPRoute in any namespace can take over its hostnames and paths. Source: Gateway "
        "API, allowedRoutes. Advisory: a single-tenant cluster has no such user",
        fix="from: Same, or Selector with labels that only an administrator sets",
        level="advisory",
        severity="medium",
        judge=_open_routes,
    ),
    ResourceRule(
        name="service-open",
        subject="security",
        statement="Services, load balancers and instances have no address outside the VPC.",
        evidence="each is one more door beside the gateway, with no key, no TLS and no policy of its own. Source: GKE documentation, "
        "LoadBalancer Services. Mandatory: addresses of cloud load balancers are scanned all day. Gateways and Ingresses are judged by "
        "what is behind them",
        fix="ClusterIP, and a route of the gateway",
        level="mandatory",
        severity="high",
        judge=_open_service,
    ),
)
