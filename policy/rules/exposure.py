"""Rules for access to the control plane, for clusters, providers and buckets."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from addresses import wide_ranges
from environment import ENVIRONMENT, why_production
from facts.finding import Finding
from objects import Order, number, shown
from rule import Resource, ResourceRule, Settings, StackRule, dig, finding, has, listed, mapped
from rules.access import kept_caches

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
    "a leaked token of a pod works from the internet, without IAM": (
        "controlPlaneEndpointsConfig",
        "dnsEndpointConfig",
        "enableK8sTokensViaDns",
    ),
    "a leaked certificate works from the internet, without IAM": (
        "controlPlaneEndpointsConfig",
        "dnsEndpointConfig",
        "enableK8sCertsViaDns",
    ),
    "a client certificate cannot be revoked": ("masterAuth", "clientCertificateConfig", "issueClientCertificate"),
}
"""Cluster settings that bypass IAM, with the reason against each. Source: GKE documentation, hardening."""


def _open_cluster(resource: Resource, _: Settings) -> Iterator[Finding]:
    is_pool = resource.type == "gcp:container/nodePool:NodePool"
    if is_pool and dig(resource.props, "networkConfig", "enablePrivateNodes") is False:
        yield finding(
            "networkConfig.enablePrivateNodes is false",
            why="each node of the pool gets a public address, whatever its cluster says",
            write="networkConfig: {enablePrivateNodes: true}",
        )
    if resource.type != "gcp:container/cluster:Cluster":
        return
    if dig(resource.props, "privateClusterConfig", "enablePrivateNodes") is not True:
        yield finding(
            "privateClusterConfig.enablePrivateNodes is not true",
            why="each node gets a public address, protected only by firewall rules",
            write="privateClusterConfig: {enablePrivateNodes: true}, and Cloud NAT for downloads",
        )
    named = dig(resource.props, "masterAuthorizedNetworksConfig")
    by_ip = dig(resource.props, "controlPlaneEndpointsConfig", "ipEndpointsConfig", "enabled") is not False
    private = dig(resource.props, "privateClusterConfig", "enablePrivateEndpoint") is True
    if by_ip and not private and named is None:
        yield finding(
            "the control plane's IP endpoint is on, and masterAuthorizedNetworksConfig is missing",
            write="controlPlaneEndpointsConfig: {ipEndpointsConfig: {enabled: false}}, or masterAuthorizedNetworksConfig "
            "with your networks",
        )
    where = "masterAuthorizedNetworksConfig"
    blocks = [dig(block, "cidrBlock") for block in listed(dig(named, "cidrBlocks"))]
    if told := wide_ranges(f"{where}.cidrBlocks", blocks):
        yield finding(told, write="name the networks")
    for way, path in ANONYMOUS_WAYS.items():
        if dig(resource.props, *path) is True:
            yield finding(f"{'.'.join(path)} is true", why=way, write=f"leave {path[-1]} out")
    if dig(named, "gcpPublicCidrsAccessEnabled") is True:
        yield finding(
            f"{where}.gcpPublicCidrsAccessEnabled is true",
            why="it admits every virtual machine of every Google Cloud customer",
            write="gcpPublicCidrsAccessEnabled: false",
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
            yield finding(f"{' and '.join(missing)} missing in loggingConfig.enableComponents")
        if dig(resource.props, "loggingService") == "none":
            yield finding("loggingService is none", write="leave loggingService out")
    elif resource.type.startswith("gcp:logging/") and has(resource.props, "retentionDays"):
        if (number(dig(resource.props, "retentionDays")) or 0) < LEAST_DAYS:
            yield finding(f"{resource.label} keeps logs for {shown(dig(resource.props, 'retentionDays'))} days")
    elif resource.type.startswith("gcp:logging/") and dig(resource.props, "disabled") is not True:
        exclusion = resource.kind.endswith("Exclusion")
        dropped = (resource.props,) if exclusion else tuple(listed(dig(resource.props, "exclusions")))
        for one in dropped if dig(resource.props, "name") == DEFAULT_SINK or exclusion else ():
            text = str(dig(one, "filter") or "")
            if dig(one, "disabled") is not True and (" OR " in text or not _SPARES.search(text)):
                yield finding(
                    f"{resource.label} drops logs of every severity: {dig(one, 'filter')}", write="severity<WARNING"
                )
    elif resource.type.startswith("gcp:logging/") and dig(resource.props, "name") == DEFAULT_SINK:
        yield finding(f"{resource.label} is disabled, and keeps no log", write="leave it enabled")


DELETION_PROTECTION = "vllm-fleet:infra:DeletionProtection"
"""Component that is protected for the whole stack: `pulumi destroy` must delete it first."""
PROJECT = ":vllm-fleet::"
"""This program, in a URN: only its own stacks must have that component."""


def _unprotected_cluster(resources: Sequence[Resource], settings: Settings) -> Iterator[Finding]:
    kept = [
        resource for resource in resources if resource.type in ("gcp:container/cluster:Cluster", DELETION_PROTECTION)
    ]
    if not kept or not (because := why_production(resources, settings)):
        return
    for one in kept:
        # The provider's default is true.
        deletable = one.type != DELETION_PROTECTION and dig(one.props, "deletionProtection") is False
        if deletable or not one.protect:
            yield finding(
                f"{one.label} is production ({because}) and "
                + ("deletionProtection is false" if deletable else "is not protected in Pulumi"),
                urn=one.urn,
            )
    order, locks = Order(resources), [one for one in kept if one.type == DELETION_PROTECTION]
    for lock, cluster in ((lock, one) for lock in locks for one in kept if one not in locks):
        if not order.is_before(cluster, lock):
            yield finding(f"{lock.label} does not depend on {cluster.label}, which goes first", urn=lock.urn)
    if not locks and any(PROJECT in one.urn for one in kept):
        yield finding(f"the stack is production ({because}) and has no DeletionProtection", urn=kept[0].urn)


def _api_goes_along(resource: Resource, _: Settings) -> Iterator[Finding]:
    for key in ("disableOnDestroy", "disableDependentServices"):
        if resource.type == "gcp:projects/service:Service" and dig(resource.props, key) is True:
            yield finding(f"{key} is true", write=f"{key}: false")


def _ambient_provider(resource: Resource, _: Settings) -> Iterator[Finding]:
    # Presence only: before the first update the cluster's endpoint is unknown.
    if resource.type == "pulumi:providers:kubernetes" and not (
        has(resource.props, "kubeconfig") or has(resource.props, "renderYamlToDirectory")
    ):
        yield finding("kubeconfig is missing")


def _forgetful_bucket(resources: Sequence[Resource], settings: Settings) -> Iterator[Finding]:
    caches, production = {bucket for _, bucket, _, _ in kept_caches(resources)}, why_production(resources, settings)
    for resource in resources:
        if resource.type != "gcp:storage/bucket:Bucket":
            continue
        # In production the label alone decides nothing: it may be new.
        scratch = dig(resource.props, "labels", "scratch") == "true" and (not production or _name(resource) in caches)
        if dig(resource.props, "forceDestroy") is True and not scratch:
            yield finding(
                f"{resource.label}: forceDestroy is true",
                write="forceDestroy: false; empty the bucket manually before deleting it",
                urn=resource.urn,
            )
        for index, rule in enumerate(listed(dig(resource.props, "lifecycleRules"))):
            if dig(rule, "action", "type") == "Delete" and not scratch and not _waits(mapped(dig(rule, "condition"))):
                yield finding(
                    f"{resource.label}: lifecycleRules[{index}] deletes objects in their first week",
                    write="condition: {age: DAYS}",
                    urn=resource.urn,
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
    ResourceRule(
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
    ResourceRule(
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
    ResourceRule(
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
    ResourceRule(
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
