"""Rules for access to the control plane, instances, pods, routes and buckets."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from ipaddress import ip_network
from typing import Any

from environment import ENVIRONMENT, why_production
from facts.ranges import PRIVATE_RANGES
from objects import Order, number, selects, shown
from rule import Finding, Resource, Rule, Settings, StackRule, dig, has, listed, mapped
from rules.access import kept_caches

WIDE_PREFIX = 8
"""An IPv4 range with a shorter prefix is wider than the widest private range, 10.0.0.0/8. Source: RFC 1918."""
NOT_THE_INTERNET = tuple(sorted((*PRIVATE_RANGES, "169.254.0.0/16")))
"""Private networks and link-local addresses, which include the metadata server. Source: `PRIVATE_RANGES`; RFC 3927."""
DNS_PORT = 53
WIDE_PORTS = 100
"""Ports that one entry of a NetworkPolicy may span. Assumed: enough for serving."""
ANONYMOUS_WAYS = {
    "anyone who reaches the cluster gets what is bound to system:authenticated": (
        "rbacBindingConfig",
        "enableInsecureBindingSystemAuthenticated",
    ),
    "anonymous callers get what is bound to system:unauthenticated": (
        "rbacBindingConfig",
        "enableInsecureBindingSystemUnauthenticated",
    ),
    "ABAC rules have no verbs or subresources": ("enableLegacyAbac",),
    "a client certificate cannot be revoked": ("masterAuth", "clientCertificateConfig", "issueClientCertificate"),
}
"""Cluster settings that bypass IAM, with the reason against each. Source: GKE documentation, hardening."""


def _is_wide(cidr: Any) -> bool:
    try:
        network = ip_network(str(cidr), strict=False)
    except ValueError:
        return False
    return network.prefixlen < (WIDE_PREFIX if network.version == 4 else 4 * WIDE_PREFIX)


def _open_cluster(resource: Resource, _: Settings) -> Iterator[Finding]:
    if resource.type != "gcp:container/cluster:Cluster":
        return
    if dig(resource.props, "privateClusterConfig", "enablePrivateNodes") is not True:
        yield Finding(
            what="privateClusterConfig.enablePrivateNodes is not true",
            why="each node gets a public address, protected only by firewall rules",
            fix="privateClusterConfig: {enablePrivateNodes: true}, and Cloud NAT for downloads",
        )
    named = dig(resource.props, "masterAuthorizedNetworksConfig")
    by_ip = dig(resource.props, "controlPlaneEndpointsConfig", "ipEndpointsConfig", "enabled") is not False
    private = dig(resource.props, "privateClusterConfig", "enablePrivateEndpoint") is True
    if by_ip and not private and named is None:
        yield Finding(
            what="the control plane's IP endpoint is on, and masterAuthorizedNetworksConfig is missing",
            fix="controlPlaneEndpointsConfig: {ipEndpointsConfig: {enabled: false}}, or masterAuthorizedNetworksConfig "
            "with your networks",
        )
    where = "masterAuthorizedNetworksConfig"
    for index, block in enumerate(listed(dig(named, "cidrBlocks"))):
        if _is_wide(cidr := dig(block, "cidrBlock")):
            yield Finding(what=f"{where}.cidrBlocks[{index}].cidrBlock is {cidr}", fix="name the networks")
    for way, path in ANONYMOUS_WAYS.items():
        if dig(resource.props, *path) is True:
            yield Finding(what=f"{'.'.join(path)} is true", why=way, fix=f"leave {path[-1]} out")
    if dig(named, "gcpPublicCidrsAccessEnabled") is True:
        yield Finding(
            what=f"{where}.gcpPublicCidrsAccessEnabled is true",
            why="it admits every virtual machine of every Google Cloud customer",
            fix="gcpPublicCidrsAccessEnabled: false",
        )


LEAST_DAYS = 7
"""For which results and logs are kept. Assumed: somebody looks once a week."""
DEFAULT_SINK = "_Default"
"""Sink that keeps a project's logs. Source: Cloud Logging documentation, routing."""
_SPARES = re.compile(
    r"severity\s*(<|<=|=)\s*\"?(DEFAULT|DEBUG|INFO|NOTICE|WARNING)\"?|sample\([^,]+,\s*0?\.[0-9]+\)", re.IGNORECASE
)


def _unlogged(resource: Resource, _: Settings) -> Iterator[Finding]:
    if resource.type == "gcp:container/cluster:Cluster":
        kept = tuple(listed(dig(resource.props, "loggingConfig", "enableComponents")))
        missing = [one for one in ("SYSTEM_COMPONENTS", "WORKLOADS") if one not in kept]
        if has(resource.props, "loggingConfig") and missing:
            yield Finding(what=f"{' and '.join(missing)} missing in loggingConfig.enableComponents")
        if dig(resource.props, "loggingService") == "none":
            yield Finding(what="loggingService is none", fix="leave loggingService out")
    elif resource.type.startswith("gcp:logging/") and has(resource.props, "retentionDays"):
        if (number(dig(resource.props, "retentionDays")) or 0) < LEAST_DAYS:
            yield Finding(what=f"{resource.label} keeps logs for {shown(dig(resource.props, 'retentionDays'))} days")
    elif resource.type.startswith("gcp:logging/") and dig(resource.props, "disabled") is not True:
        exclusion = resource.kind.endswith("Exclusion")
        dropped = (resource.props,) if exclusion else tuple(listed(dig(resource.props, "exclusions")))
        for one in dropped if dig(resource.props, "name") == DEFAULT_SINK or exclusion else ():
            text = str(dig(one, "filter") or "")
            if dig(one, "disabled") is not True and (" OR " in text or not _SPARES.search(text)):
                yield Finding(
                    what=f"{resource.label} drops logs of every severity: {dig(one, 'filter')}", fix="severity<WARNING"
                )
    elif resource.type.startswith("gcp:logging/") and dig(resource.props, "name") == DEFAULT_SINK:
        yield Finding(what=f"{resource.label} is disabled, and keeps no log", fix="leave it enabled")


DELETION_PROTECTION = "vllm-fleet:infra:DeletionProtection"
"""Component that is protected for the whole stack: `pulumi destroy` must delete it first."""
PLATFORM = "vllm-fleet:infra:OwnPlatform"


def _unprotected_cluster(resources: Sequence[Resource], settings: Settings) -> Iterator[Finding]:
    kept = [one for one in resources if one.type in ("gcp:container/cluster:Cluster", DELETION_PROTECTION)]
    if not kept or not (because := why_production(resources, settings)):
        return
    for one in kept:
        # The provider's default is true.
        deletable = one.type != DELETION_PROTECTION and dig(one.props, "deletionProtection") is False
        if deletable or not one.protect:
            yield Finding(
                what=f"{one.label} is production ({because}) and "
                + ("deletionProtection is false" if deletable else "is not protected in Pulumi"),
                urn=one.urn,
            )
    order, locks = Order(resources), [one for one in kept if one.type == DELETION_PROTECTION]
    for lock, cluster in ((lock, one) for lock in locks for one in kept if one not in locks):
        if not order.is_before(cluster, lock):
            yield Finding(what=f"{lock.label} does not depend on {cluster.label}, which goes first", urn=lock.urn)
    if any(one.type == PLATFORM for one in resources) and not locks:
        yield Finding(what=f"the stack is production ({because}) and has no DeletionProtection", urn=kept[0].urn)


def _open_firewall(resource: Resource, _: Settings) -> Iterator[Finding]:
    if resource.type != "gcp:compute/firewall:Firewall" or dig(resource.props, "direction") == "EGRESS":
        return
    allows = tuple(listed(dig(resource.props, "allows")))
    sources = ("sourceRanges", "sourceTags", "sourceServiceAccounts")
    targets = ("destinationRanges", "targetTags", "targetServiceAccounts")
    if not allows or dig(resource.props, "disabled") is True:
        return
    if not any(tuple(listed(dig(resource.props, key))) for key in sources):
        yield Finding(what=f"{', '.join(sources)} are missing, which means any source")
    for key in ("sourceRanges", "destinationRanges"):
        for cidr in listed(dig(resource.props, key)):
            if _is_wide(cidr):
                yield Finding(what=f"{key} has {cidr}")
    if not any(tuple(listed(dig(resource.props, key))) for key in targets):
        yield Finding(what=f"{', '.join(targets)} are missing, which means every instance of the network")
    for index, one in enumerate(allows):
        protocol = str(dig(one, "protocol") or "")
        if protocol == "all" or (protocol in ("tcp", "udp") and not tuple(listed(dig(one, "ports")))):
            yield Finding(what=f"allows[{index}] allows every port of {protocol}")


def _wide_policy(resource: Resource, _: Settings) -> Iterator[Finding]:
    if not resource.is_kubernetes or resource.kind != "NetworkPolicy":
        return
    spec = dig(resource.props, "spec")
    for direction, peers in (("ingress", "from"), ("egress", "to")):
        for index, entry in enumerate(listed(dig(spec, direction))):
            where = f"spec.{direction}[{index}]"
            yield from _peers(where, peers, entry)
            ports = tuple(listed(dig(entry, "ports")))
            numbers = [dig(port, "port") for port in ports]
            if not ports or None in numbers:
                yield Finding(what=f"{where} allows every port", fix="name the ports")
            elif wide := [port for port in ports if _span(port) > WIDE_PORTS]:
                yield Finding(
                    what=f"{where} allows ports {shown(dig(wide[0], 'port'))} to {shown(dig(wide[0], 'endPort'))}",
                    fix="name the ports",
                )
            elif _selects_all(dig(spec, "podSelector")) and any(one != DNS_PORT for one in numbers):
                yield Finding(
                    what=f"spec.podSelector selects every pod of the namespace, and {where} allows "
                    + ", ".join(f"port {shown(one)}" for one in numbers),
                    fix="select the pods that need it",
                )


def _span(port: Any) -> float:
    first, last = number(dig(port, "port")), number(dig(port, "endPort"))
    return 1 if first is None or last is None else last - first + 1


def _peers(where: str, key: str, entry: Any) -> Iterator[Finding]:
    peers = tuple(listed(dig(entry, key)))
    if not peers:
        yield Finding(what=f"{where}.{key} is empty, which means any peer")
    for index, peer in enumerate(peers):
        path = f"{where}.{key}[{index}]"
        selectors = [dig(peer, one) for one in ("podSelector", "namespaceSelector") if has(peer, one)]
        if selectors and all(_selects_all(one) for one in selectors):
            yield Finding(what=f"{path} selects every pod" + (" of every namespace" if len(selectors) > 1 else ""))
        block = mapped(dig(peer, "ipBlock"))
        if not selectors and not has(block, "cidr"):
            yield Finding(what=f"{path} is empty, which means any peer")
        elif has(block, "cidr") and _is_wide(dig(block, "cidr")):
            excepted = {str(one) for one in listed(dig(block, "except"))}
            inside = [one for one in NOT_THE_INTERNET if one not in excepted]
            if key == "from":
                yield Finding(what=f"{path}.ipBlock.cidr is {dig(block, 'cidr')}")
            elif inside:
                yield Finding(
                    what=f"{path}.ipBlock.cidr is {dig(block, 'cidr')} and includes {', '.join(inside)}",
                    fix=f"except: [{', '.join(NOT_THE_INTERNET)}]",
                )


def _selects_all(selector: Any) -> bool:
    return selects(selector, {}) and not tuple(listed(dig(selector, "matchExpressions")))


def _open_routes(resource: Resource, _: Settings) -> Iterator[Finding]:
    if not resource.is_kubernetes or resource.kind != "Gateway":
        return
    for index, listener in enumerate(listed(dig(resource.props, "spec", "listeners"))):
        if dig(listener, "allowedRoutes", "namespaces", "from") == "All":
            yield Finding(what=f"spec.listeners[{index}].allowedRoutes.namespaces.from is All")


def _administrators(resource: Resource, _: Settings) -> Iterator[Finding]:
    if not resource.is_kubernetes or resource.kind not in ("RoleBinding", "ClusterRoleBinding"):
        return
    if dig(resource.props, "roleRef", "name") != "cluster-admin":
        return
    for index, subject in enumerate(listed(dig(resource.props, "subjects"))):
        kind, name = dig(subject, "kind"), str(dig(subject, "name") or "")
        if kind == "ServiceAccount" or name.startswith("system:"):
            yield Finding(what=f"subjects[{index}]: {kind} {name} becomes cluster-admin")


def _api_goes_along(resource: Resource, _: Settings) -> Iterator[Finding]:
    for key in ("disableOnDestroy", "disableDependentServices"):
        if resource.type == "gcp:projects/service:Service" and dig(resource.props, key) is True:
            yield Finding(what=f"{key} is true", fix=f"{key}: false")


def _ambient_provider(resource: Resource, _: Settings) -> Iterator[Finding]:
    # Presence only: before the first update the cluster's endpoint is unknown.
    if resource.type == "pulumi:providers:kubernetes" and not (
        has(resource.props, "kubeconfig") or has(resource.props, "renderYamlToDirectory")
    ):
        yield Finding(what="kubeconfig is missing")


def _forgetful_bucket(resources: Sequence[Resource], settings: Settings) -> Iterator[Finding]:
    caches, production = {bucket for _, bucket, _, _ in kept_caches(resources)}, why_production(resources, settings)
    for one in resources:
        if one.type != "gcp:storage/bucket:Bucket":
            continue
        # In production the label alone decides nothing: it may be new.
        scratch = dig(one.props, "labels", "scratch") == "true" and (not production or _name(one) in caches)
        if dig(one.props, "forceDestroy") is True and not scratch:
            yield Finding(
                what=f"{one.label}: forceDestroy is true",
                fix="forceDestroy: false; empty the bucket manually before deleting it",
                urn=one.urn,
            )
        for index, rule in enumerate(listed(dig(one.props, "lifecycleRules"))):
            if dig(rule, "action", "type") == "Delete" and not scratch and not _waits(mapped(dig(rule, "condition"))):
                yield Finding(
                    what=f"{one.label}: lifecycleRules[{index}] deletes objects in their first week",
                    fix="condition: {age: DAYS}",
                    urn=one.urn,
                )


def _name(bucket: Resource) -> str:
    return str(dig(bucket.props, "name") or bucket.name)


def _waits(condition: Mapping[str, Any]) -> bool:
    """Whether a lifecycle condition spares new objects: any condition except an age of less than a week."""
    return any(
        has(condition, key) and (key != "age" or (number(dig(condition, key)) or 0) >= LEAST_DAYS)
        for key in set(condition)
    )


RULES = (
    Rule(
        name="cluster-open",
        subject="security",
        statement="Nodes have no public address, and the control plane's IP endpoint is off or limited to named networks.",
        evidence="the endpoint is on by default and open to the whole internet, so one leaked token is enough. Source: GKE documentation, "
        "hardening. Mandatory: the DNS endpoint checks IAM first and needs no public address",
        fix="controlPlaneEndpointsConfig: {ipEndpointsConfig: {enabled: false}}",
        level="mandatory",
        severity="critical",
        judge=_open_cluster,
    ),
    Rule(
        name="cluster-logs-off",
        subject="security",
        statement="A cluster keeps its system and workload logs, and its project drops only unimportant ones.",
        evidence="components missing from the list are not logged, stock-outs and intrusions included. Source: Terraform google provider, "
        "container_cluster, logging_config. Advisory: another system may collect them",
        fix="enableComponents: [SYSTEM_COMPONENTS, WORKLOADS]; an exclusion with severity<WARNING",
        level="advisory",
        severity="medium",
        judge=_unlogged,
    ),
    StackRule(
        name="cluster-unprotected",
        subject="security",
        statement="A production cluster is protected from deletion, in Pulumi and in the provider, and so is this program's whole stack.",
        evidence="a cluster is deleted with its weights, its quota and every tenant, and one word destroys the wrong stack. Mandatory in "
        "production",
        fix="deletionProtection: true, and protect: true in the resource's options",
        level="mandatory",
        severity="high",
        settings=(ENVIRONMENT,),
        judge=_unprotected_cluster,
    ),
    Rule(
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
    Rule(
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
    Rule(
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
    Rule(
        name="provider-without-kubeconfig",
        subject="security",
        statement="A Kubernetes provider has an explicit kubeconfig.",
        evidence="without one it uses the current context of the machine that runs Pulumi, possibly another cluster. Source: "
        "pulumi-kubernetes, provider configuration. Mandatory: the update would go there",
        fix="kubeconfig, from the cluster's outputs",
        level="mandatory",
        severity="critical",
        judge=_ambient_provider,
    ),
    Rule(
        name="cluster-admin-bound",
        subject="security",
        statement="No service account and no system group is cluster-admin.",
        evidence="an intruder in such a pod controls the cluster, its secrets and its nodes' accounts. Source: Kubernetes, RBAC good "
        "practices. Mandatory: serving does not need it",
        fix="a Role with only the required verbs and resources",
        level="mandatory",
        severity="critical",
        judge=_administrators,
    ),
    Rule(
        name="api-off-on-destroy",
        subject="security",
        statement="Destroying a stack does not disable APIs of its project.",
        evidence="an API belongs to the whole project: without compute or container, its other clusters stop working. Source: Terraform "
        "google provider, google_project_service. Mandatory: one destroy breaks other stacks",
        fix="disableOnDestroy: false",
        level="mandatory",
        severity="high",
        judge=_api_goes_along,
    ),
    StackRule(
        name="bucket-loses-results",
        subject="storage",
        statement="A bucket keeps its objects, even when its stack is destroyed.",
        evidence="a measurement costs hundreds of dollars and exists once. Source: Cloud Storage documentation, lifecycle; pulumi-gcp, "
        "Bucket.forceDestroy. Advisory: a bucket labeled scratch=true may be deleted with its contents, in production only a compile cache",
        fix="forceDestroy: false, and no lifecycle rule that deletes in the first week",
        level="advisory",
        severity="medium",
        settings=(ENVIRONMENT,),
        judge=_forgetful_bucket,
    ),
)
