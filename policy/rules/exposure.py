"""Rules for what lets traffic in: firewall rules, Services, load balancers and network policies."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import money
from addresses import wide
from facts.finding import Finding
from objects import SYSTEM_NAMESPACES, namespace_of, of_kind, own_name
from pods import pods
from routing import is_internal
from rule import Resource, ResourceRule, Settings, StackRule, dig, finding, has, listed, mapped
from tokens import FIREWALL, FORWARDING_RULES, INSTANCES, SERVICE_ATTACHMENT

_SOURCES: Final = ("sourceRanges", "sourceTags", "sourceServiceAccounts")
_TARGETS: Final = ("destinationRanges", "targetTags", "targetServiceAccounts")


def _open_firewall(resource: Resource, _: Settings) -> Iterator[Finding]:
    props = resource.props
    if resource.type != FIREWALL or dig(props, "direction") == "EGRESS" or not dig(props, "allows"):
        return
    for keys, means in ((_SOURCES, "any source"), (_TARGETS, "every instance of the network")):
        if not any(dig(props, key) for key in keys):
            yield finding(f"{', '.join(keys)} are missing, which means {means}")
    for key in ("sourceRanges", "destinationRanges"):
        if cidr := wide(listed(dig(props, key))):
            yield finding(f"{key} has {cidr}")
    for index, entry in enumerate(listed(dig(props, "allows"))):
        protocol = dig(entry, "protocol")
        if protocol == "all" or (protocol in ("tcp", "udp") and not dig(entry, "ports")):
            yield finding(f"allows[{index}] allows every port of {protocol}")


def _open_service(resource: Resource, _: Settings) -> Iterator[Finding]:
    props, spec = resource.props, dig(resource.props, "spec")
    if resource.is_kubernetes and resource.kind == "Service":
        kind, ranges = dig(spec, "type"), tuple(listed(dig(spec, "loadBalancerSourceRanges")))
        if kind == "LoadBalancer" and not is_internal(resource) and (not ranges or wide(ranges)):
            yield finding(
                "spec.type is LoadBalancer, and its address is external",
                write="metadata.annotations: {networking.gke.io/load-balancer-type: Internal}, or ClusterIP",
            )
        elif kind in ("NodePort", "ExternalName"):
            leads = "every node opens its port" if kind == "NodePort" else "its clients are led out of the cluster"
            yield finding(f"spec.type is {kind}", why=leads)
    elif resource.type == SERVICE_ATTACHMENT and dig(props, "connectionPreference") == "ACCEPT_AUTOMATIC":
        yield finding(
            "connectionPreference is ACCEPT_AUTOMATIC",
            why="any project of any customer connects to it",
            write="ACCEPT_MANUAL, with the projects that may",
        )
    elif resource.type in FORWARDING_RULES:
        scheme = dig(props, "loadBalancingScheme") if has(props, "loadBalancingScheme") else "EXTERNAL"
        if scheme in ("EXTERNAL", "EXTERNAL_MANAGED"):
            yield finding(f"loadBalancingScheme is {scheme}", write="INTERNAL_MANAGED")
    elif resource.type in INSTANCES:
        for index, interface in enumerate(listed(dig(props, "networkInterfaces"))):
            if has(interface, "accessConfigs"):
                yield finding(
                    f"networkInterfaces[{index}].accessConfigs is set", write="remove accessConfigs, and use Cloud NAT"
                )


def _no_policy(resources: Sequence[Resource], _: Settings) -> Iterator[Finding]:
    for name, urn in _namespaces(resources).items():
        mine = [resource for resource in of_kind(resources, "NetworkPolicy") if namespace_of(resource) == name]
        if any(map(_denies_ingress, mine)):
            continue
        inside = [resource for resource in resources if pods(resource) and namespace_of(resource) == name]
        yield finding(
            f"Namespace {name}"
            + (f" has {len(mine)} NetworkPolicies and no default deny of Ingress" if mine else " has no NetworkPolicy"),
            urn=urn,
            at_stake="; ".join(text for one in inside if (text := money.at_stake(one))),
        )


def _namespaces(resources: Sequence[Resource]) -> dict[str, str]:
    """URN by name of the namespaces that the stack makes, and `default` where it runs pods there: others' policies are not visible."""
    used = {namespace_of(one): one.urn for one in resources if pods(one) and namespace_of(one) == "default"}
    made = {own_name(one): one.urn for one in of_kind(resources, "Namespace", "core")}
    return {name: urn for name, urn in {**used, **made}.items() if not name.startswith(SYSTEM_NAMESPACES)}


def _denies_ingress(policy: Resource) -> bool:
    """Whether a policy is a default deny of its namespace."""
    spec = dig(policy.props, "spec")
    types = tuple(listed(dig(spec, "policyTypes"))) or ("Ingress",)
    return not mapped(dig(spec, "podSelector")) and "Ingress" in types and not dig(spec, "ingress")


def _wide_policy(resource: Resource, _: Settings) -> Iterator[Finding]:
    if not resource.is_kubernetes or resource.kind != "NetworkPolicy":
        return
    for index, entry in enumerate(listed(dig(resource.props, "spec", "ingress"))):
        yield from (finding(f"spec.ingress[{index}]{what}") for what in _opens(entry))


def _opens(entry: Any) -> Iterator[str]:
    """Why an entry of a policy lets everyone in."""
    peers = tuple(listed(dig(entry, "from")))
    if not peers:
        yield ".from is empty, which means any peer"
    for index, peer in enumerate(peers):
        named = any(mapped(dig(peer, key)) for key in ("podSelector", "namespaceSelector"))
        if cidr := dig(peer, "ipBlock", "cidr"):
            if wide((cidr,)):
                yield f".from[{index}].ipBlock.cidr is {cidr}"
        elif not named and not (has(peer, "podSelector") and not has(peer, "namespaceSelector")):
            yield f".from[{index}] selects every pod of every namespace"
    if not dig(entry, "ports"):
        yield " allows every port"


RULES: Final = (
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
    StackRule(
        name="namespace-without-network-policy",
        subject="security",
        statement="Each namespace denies ingress by default.",
        evidence="otherwise any pod of the cluster reaches port 8000, where no key guards /tokenize, /invocations and /metrics. Source: "
        "Kubernetes, network policies; vLLM 0.18.1. Mandatory for this stack's namespaces and its pods in `default`; other stacks' "
        "namespaces are not checked",
        fix="a NetworkPolicy with podSelector {} and policyTypes [Ingress, Egress], and one for each allowed connection",
        level="mandatory",
        severity="high",
        judge=_no_policy,
    ),
    ResourceRule(
        name="network-policy-wide",
        subject="security",
        statement="What a NetworkPolicy lets in names its peers and ports.",
        evidence="a missing peer or port means all of them. Source: Kubernetes, network policies. Mandatory: one such entry undoes the "
        "default deny, and nothing tells",
        fix="a selector that names pods, or the narrowest range that works",
        level="mandatory",
        severity="high",
        judge=_wide_policy,
    ),
)
