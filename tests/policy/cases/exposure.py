"""Cases of what a resource opens by itself, of clusters and of their providers."""

from __future__ import annotations

from typing import Any

from tests.policy.case import (
    CLUSTER,
    DEPLOYMENT,
    FIREWALL,
    SERVICE,
    Edit,
    Rule,
    append,
    broken,
    delete,
    drop,
    google,
    new,
    options,
    put,
    sound,
)
from tokens import SERVICE_ATTACHMENT

_POLICY, _DENY = "NetworkPolicy/server", "NetworkPolicy/default-deny"
_NETWORKS = "masterAuthorizedNetworksConfig"
_BY_IP = put(CLUSTER, "controlPlaneEndpointsConfig.ipEndpointsConfig.enabled", value=True)
_STACK_LOCK = "deletion-protection"
_SCOPES = put(CLUSTER, "nodeConfig", value={"oauthScopes": ["https://www.googleapis.com/auth/cloud-platform"]})


def _networks(*cidrs: str, **more: Any) -> Edit:
    return put(CLUSTER, _NETWORKS, value={"cidrBlocks": [{"cidrBlock": one} for one in cidrs], **more})


def _from(*peers: Any) -> Edit:
    return put(_POLICY, "spec.ingress.0.from", value=list(peers))


_OPEN = Rule("cluster-open")
_SPACE = Rule("namespace-without-network-policy")
_ADMIN = Rule("cluster-admin-bound", stack="prod")

CASES = (
    _OPEN.broken(
        "certificates for clients",
        put(CLUSTER, "masterAuth.clientCertificateConfig", value={"issueClientCertificate": True}),
    ),
    _OPEN.broken("no word of private nodes", drop(CLUSTER, "privateClusterConfig")),
    _OPEN.broken("endpoints as they come", drop(CLUSTER, "controlPlaneEndpointsConfig")),
    _OPEN.broken("the IP endpoint for half the world", _BY_IP, _networks("128.0.0.0/1")),
    _OPEN.broken("Google's customers", _BY_IP, _networks("192.0.2.0/24", gcpPublicCidrsAccessEnabled=True)),
    _OPEN.broken(
        "a pool with public nodes",
        new("pool", "gcp:container/nodePool:NodePool", {"networkConfig": {"enablePrivateNodes": False}}),
    ),
    _OPEN.sound("an office", _BY_IP, _networks("192.0.2.0/24")),
    _OPEN.sound(
        "nobody by IP from outside", _BY_IP, put(CLUSTER, "privateClusterConfig.enablePrivateEndpoint", value=True)
    ),
    broken(
        "cluster-unprotected", "the provider's lock off", put(CLUSTER, "deletionProtection", value=False), stack="cud"
    ),
    broken("cluster-unprotected", "Pulumi's lock off", options(CLUSTER, protect=False), stack="cud"),
    broken("cluster-unprotected", "the stack's lock off", options(_STACK_LOCK, protect=False), stack="cud"),
    sound("cluster-unprotected", "the provider's default", drop(CLUSTER, "deletionProtection"), stack="cud"),
    broken("provider-without-kubeconfig", "no kubeconfig", drop("kubernetes", "kubeconfig")),
    sound(
        "provider-without-kubeconfig",
        "manifests in a folder",
        drop("kubernetes", "kubeconfig"),
        put("kubernetes", "renderYamlToDirectory", value="out"),
    ),
    broken("autopilot-node-config", "scopes of the nodes", _SCOPES),
    sound(
        "autopilot-node-config",
        "ignored after the first update",
        _SCOPES,
        options(CLUSTER, ignore_changes=("nodeConfig",)),
    ),
    sound("autopilot-node-config", "a Standard cluster", _SCOPES, put(CLUSTER, "enableAutopilot", value=False)),
    broken("firewall-open", "from everywhere", put(FIREWALL, "sourceRanges", value=["0.0.0.0/0"]), stack="gateway"),
    broken("firewall-open", "to every instance", drop(FIREWALL, "destinationRanges"), stack="gateway"),
    broken("firewall-open", "on every port", drop(FIREWALL, "allows.0.ports"), stack="gateway"),
    broken("firewall-open", "every protocol", put(FIREWALL, "allows.0.protocol", value="all"), stack="gateway"),
    sound(
        "firewall-open",
        "from instances with a tag to instances with a tag",
        drop(FIREWALL, "sourceRanges"),
        drop(FIREWALL, "destinationRanges"),
        put(FIREWALL, "sourceTags", value=["proxy"]),
        put(FIREWALL, "targetTags", value=["server"]),
        stack="gateway",
    ),
    sound("firewall-open", "a ping", append(FIREWALL, "allows", {"protocol": "icmp"}), stack="gateway"),
    broken("service-open", "a port of each node", put(SERVICE, "spec.type", value="NodePort")),
    broken("service-open", "an external load balancer", put(SERVICE, "spec.type", value="LoadBalancer")),
    broken("service-open", "a forwarding rule", google("compute/ForwardingRule", target="t")),
    broken("service-open", "an address", google("compute/Instance", networkInterfaces=[{"accessConfigs": [{}]}])),
    broken(
        "service-open",
        "any customer's project",
        new("a", SERVICE_ATTACHMENT, {"connectionPreference": "ACCEPT_AUTOMATIC"}),
    ),
    sound("service-open", "an address for each pod", put(SERVICE, "spec.clusterIP", value="None")),
    sound(
        "service-open", "a rule of the VPC", google("compute/ForwardingRule", loadBalancingScheme="INTERNAL_MANAGED")
    ),
    _SPACE.broken("the default deny deleted", delete(_DENY), stack="cud"),
    _SPACE.broken("one that lets all in", put(_DENY, "spec.ingress", value=[{}])),
    _SPACE.broken("a policy for some pods", put(_DENY, "spec.podSelector", value={"matchLabels": {"app": "server"}})),
    _SPACE.broken("elsewhere", put(_DENY, "metadata.namespace", value="other")),
    _SPACE.broken("servers in the namespace of everybody", put(DEPLOYMENT, "metadata.namespace", value="default")),
    _SPACE.sound("another stack's namespace", delete("Namespace", _DENY)),
    _SPACE.sound(
        "a namespace of the system",
        new("system", "kubernetes:core/v1:Namespace", {"metadata": {"name": "kube-system"}}),
    ),
    broken("network-policy-wide", "a server for everybody", drop(_POLICY, "spec.ingress.0.from")),
    broken("network-policy-wide", "a server on every port", drop(_POLICY, "spec.ingress.0.ports")),
    broken("network-policy-wide", "the internet comes in", _from({"ipBlock": {"cidr": "0.0.0.0/0"}})),
    broken("network-policy-wide", "any pod of any namespace", _from({"namespaceSelector": {}, "podSelector": {}})),
    broken("network-policy-wide", "a peer without a name", _from({})),
    sound("network-policy-wide", "pods of the namespace", _from({"podSelector": {}})),
    sound("network-policy-wide", "one network", _from({"ipBlock": {"cidr": "10.0.0.0/8"}}), stack="cud"),
    _ADMIN.broken(
        "a pod that administers the cluster", put("ClusterRoleBinding", "roleRef.name", value="cluster-admin")
    ),
    _ADMIN.broken(
        "everyone with a name",
        put("ClusterRoleBinding", "subjects.0", value={"kind": "Group", "name": "system:authenticated"}),
    ),
    _ADMIN.broken(
        "all of everything",
        put("ClusterRole", "rules.0.verbs", value=["*"]),
        put("ClusterRole", "rules.0.resources", value=["*"]),
    ),
    _ADMIN.broken("a role for itself", put("ClusterRole", "rules.0.verbs", value=["bind"])),
    _ADMIN.sound(
        "a person administers the cluster",
        put("ClusterRoleBinding", "roleRef.name", value="cluster-admin"),
        put("ClusterRoleBinding", "subjects.0", value={"kind": "User", "name": "a@b.c"}),
    ),
    _ADMIN.sound("a pod that reads", put("ClusterRoleBinding", "roleRef.name", value="view")),
)
