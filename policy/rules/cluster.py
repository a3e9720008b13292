"""Rules for clusters, their node pools and providers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from addresses import wide
from environment import ENVIRONMENT, why_production
from facts.finding import Finding
from rule import Resource, ResourceRule, Settings, StackRule, dig, finding, has, listed
from tokens import CLUSTER, DELETION_PROTECTION, KUBERNETES_PROVIDER, NODE_POOL

_BY_IP: Final = ("controlPlaneEndpointsConfig", "ipEndpointsConfig", "enabled")
_BY_DNS: Final = ("controlPlaneEndpointsConfig", "dnsEndpointConfig")
_RBAC: Final = "rbacBindingConfig"
_NETWORKS: Final = "masterAuthorizedNetworksConfig"
ANONYMOUS_WAYS: Final = {
    (
        _RBAC,
        "enableInsecureBindingSystemAuthenticated",
    ): "anyone who reaches the cluster gets what is bound to system:authenticated",
    (
        _RBAC,
        "enableInsecureBindingSystemUnauthenticated",
    ): "anonymous callers get what is bound to system:unauthenticated",
    ("enableLegacyAbac",): "ABAC rules have no verbs or subresources",
    (*_BY_DNS, "enableK8sTokensViaDns"): "a leaked token of a pod works from the internet, without IAM",
    (*_BY_DNS, "enableK8sCertsViaDns"): "a leaked certificate works from the internet, without IAM",
    ("masterAuth", "clientCertificateConfig", "issueClientCertificate"): "a client certificate cannot be revoked",
    (_NETWORKS, "gcpPublicCidrsAccessEnabled"): "it admits every virtual machine of every Google Cloud customer",
}
"""Cluster settings that must not be true, with the reason against each. Source: GKE documentation, hardening."""


def _open_cluster(resource: Resource, _: Settings) -> Iterator[Finding]:
    props = resource.props
    if resource.type == NODE_POOL and dig(props, "networkConfig", "enablePrivateNodes") is False:
        yield finding(
            "networkConfig.enablePrivateNodes is false",
            why="each node of the pool gets a public address, whatever its cluster says",
            write="networkConfig: {enablePrivateNodes: true}",
        )
    if resource.type != CLUSTER:
        return
    if dig(props, "privateClusterConfig", "enablePrivateNodes") is not True:
        yield finding(
            "privateClusterConfig.enablePrivateNodes is not true",
            why="each node gets a public address, protected only by firewall rules",
            write="privateClusterConfig: {enablePrivateNodes: true}, and Cloud NAT for downloads",
        )
    private = dig(props, "privateClusterConfig", "enablePrivateEndpoint") is True
    if dig(props, *_BY_IP) is not False and not private and dig(props, _NETWORKS) is None:
        yield finding(
            f"the control plane's IP endpoint is on, and {_NETWORKS} is missing",
            write=f"controlPlaneEndpointsConfig: {{ipEndpointsConfig: {{enabled: false}}}}, or {_NETWORKS} with your networks",
        )
    if cidr := wide(dig(block, "cidrBlock") for block in listed(dig(props, _NETWORKS, "cidrBlocks"))):
        yield finding(f"{_NETWORKS}.cidrBlocks has {cidr}", write="name the networks")
    for path, why in ANONYMOUS_WAYS.items():
        if dig(props, *path) is True:
            yield finding(f"{'.'.join(path)} is true", why=why, write=f"leave {path[-1]} out")


def _unprotected_cluster(resources: Sequence[Resource], settings: Settings) -> Iterator[Finding]:
    kept = [resource for resource in resources if resource.type in (CLUSTER, DELETION_PROTECTION)]
    because = why_production(resources, settings) if kept else ""
    for one in kept if because else ():
        # The provider's default is true.
        deletable = dig(one.props, "deletionProtection") is False
        if deletable or not one.protect:
            yield finding(
                f"{one.label} is production ({because}) and "
                + ("deletionProtection is false" if deletable else "is not protected in Pulumi"),
                urn=one.urn,
            )


def _ambient_provider(resource: Resource, _: Settings) -> Iterator[Finding]:
    # Presence only: before the first update the cluster's endpoint is unknown.
    goes_nowhere = has(resource.props, "kubeconfig") or has(resource.props, "renderYamlToDirectory")
    if resource.type == KUBERNETES_PROVIDER and not goes_nowhere:
        yield finding("kubeconfig is missing")


def _node_config(resource: Resource, _: Settings) -> Iterator[Finding]:
    if resource.type != CLUSTER or "nodeConfig" in resource.ignore_changes or not has(resource.props, "nodeConfig"):
        return
    if dig(resource.props, "enableAutopilot") is True:
        yield finding("nodeConfig is set, and enableAutopilot is true")


RULES: Final = (
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
        name="autopilot-node-config",
        subject="rollout",
        statement="An Autopilot cluster has no nodeConfig.",
        evidence="Google's API does not keep it, so every later update replaces the cluster, with all that runs on it. Source: "
        "pulumi/pulumi-gcp#2247 (open), hashicorp/terraform-provider-google#12064; GKE API, NodeConfig. Mandatory: the first update works, "
        "the second deletes the cluster",
        fix="remove nodeConfig; clusterAutoscaling.autoProvisioningDefaults has the nodes' service account and scopes. If the cluster was "
        "made with it, ignoreChanges: [nodeConfig]",
        level="mandatory",
        severity="critical",
        judge=_node_config,
    ),
)
