"""Cases of what a resource opens by itself, and of what may be deleted by one word."""

from __future__ import annotations

from typing import Any

from rules.reach import NOT_THE_INTERNET
from tests.policy.case import (
    HERE,
    Edit,
    append,
    delete,
    drop,
    new,
    of_resource,
    options,
    put,
    sound,
)

_CLUSTER, _FIREWALL, _BUCKET = "cluster-autopilot", "proxies-firewall", "results-bucket"
_SERVER, _WRITER = "network-policies-server", "network-policies-weights-writer"
_NAMED = "masterAuthorizedNetworksConfig"
_BY_IP = put(_CLUSTER, "controlPlaneEndpointsConfig.ipEndpointsConfig.enabled", value=True)
_STACK_LOCK = "deletion-protection"
_CONTAINERS = 'resource.type="k8s_container"'
_PROVIDER = "cluster-kubernetes"
_NETWORK_POLICY = "kubernetes:networking.k8s.io/v1:NetworkPolicy"


def _networks(*cidrs: str, **more: Any) -> Edit:
    return put(_CLUSTER, _NAMED, value={"cidrBlocks": [{"cidrBlock": one} for one in cidrs], **more})


def _logging(kind: str, **props: Any) -> Edit:
    return new("a-route", f"gcp:logging/{kind}", {"name": "a-route"} | props, beside="network-vpc")


def _sink(**props: Any) -> Edit:
    return _logging(
        "projectSink:ProjectSink", **{"name": "_Default", "destination": "logging.googleapis.com/x"} | props
    )


def _allowing(direction: str, entry: Any, pods: Any = None) -> Edit:
    """One more NetworkPolicy."""
    spec = {"podSelector": {"matchLabels": {"app": "one"}} if pods is None else pods, direction: [entry]}
    return new("by-hand", _NETWORK_POLICY, {"metadata": {"name": "by-hand", "namespace": HERE}, "spec": spec})


_RBAC = "rbac.authorization.k8s.io"


def _bound(kind: str, name: str, role: str = "cluster-admin") -> Edit:
    """One more binding for the whole cluster."""
    reference = {"apiGroup": _RBAC, "kind": "ClusterRole", "name": role}
    subject = {"kind": kind, "name": name, "namespace": HERE}
    props = {"metadata": {"name": "by-hand"}, "roleRef": reference, "subjects": [subject]}
    return new("by-hand", f"kubernetes:{_RBAC}/v1:ClusterRoleBinding", props)


_HTTPS = [{"protocol": "TCP", "port": 443}]
_INTERNET = {"ipBlock": {"cidr": "0.0.0.0/0", "except": list(NOT_THE_INTERNET)}}
_POD = {"podSelector": {"matchLabels": {"app": "two"}}}

CASES = (
    of_resource(
        "cluster-open",
        "certificates for clients",
        put(_CLUSTER, "masterAuth.clientCertificateConfig", value={"issueClientCertificate": True}),
    ),
    of_resource(
        "cluster-open",
        "rights for everybody who has a name",
        put(_CLUSTER, "rbacBindingConfig", value={"enableInsecureBindingSystemAuthenticated": True}),
    ),
    of_resource("cluster-open", "no word of private nodes", drop(_CLUSTER, "privateClusterConfig")),
    of_resource("cluster-open", "endpoints as they come", drop(_CLUSTER, "controlPlaneEndpointsConfig")),
    of_resource("cluster-open", "the IP endpoint for everybody", _BY_IP),
    of_resource("cluster-open", "the IP endpoint for half the world", _BY_IP, _networks("128.0.0.0/1")),
    of_resource(
        "cluster-open", "every customer's machine", _BY_IP, _networks("192.0.2.0/24", gcpPublicCidrsAccessEnabled=True)
    ),
    sound("cluster-open", "an office", _BY_IP, _networks("192.0.2.0/24")),
    sound(
        "cluster-open",
        "nobody by IP from outside",
        _BY_IP,
        put(_CLUSTER, "privateClusterConfig.enablePrivateEndpoint", value=True),
    ),
    of_resource(
        "cluster-logs-off",
        "no logs at all",
        put(_CLUSTER, "loggingConfig.enableComponents", value=[]),
    ),
    of_resource("cluster-logs-off", "no logging", put(_CLUSTER, "loggingService", value="none")),
    of_resource("cluster-logs-off", "a sink's exclusion", _sink(exclusions=[{"name": "a", "filter": _CONTAINERS}])),
    of_resource("cluster-logs-off", "the sink off", _sink(disabled=True)),
    of_resource(
        "cluster-logs-off", "kept for a day", _logging("projectBucketConfig:ProjectBucketConfig", retentionDays=1)
    ),
    sound("cluster-logs-off", "an exclusion off", _logging("projectExclusion:ProjectExclusion", disabled=True)),
    sound(
        "cluster-logs-off",
        "details excluded",
        _logging("projectExclusion:ProjectExclusion", filter=f"{_CONTAINERS} severity<WARNING"),
    ),
    of_resource(
        "cluster-unprotected", "the provider's lock off", put(_CLUSTER, "deletionProtection", value=False), stack="cud"
    ),
    of_resource("cluster-unprotected", "Pulumi's lock off", options(_CLUSTER, protect=False), stack="cud"),
    of_resource("cluster-unprotected", "the stack's lock off", options(_STACK_LOCK, protect=False), stack="cud"),
    of_resource("cluster-unprotected", "a lock of nothing", options(_STACK_LOCK, dependencies=()), stack="cud"),
    of_resource("cluster-unprotected", "no lock of the stack", delete(_STACK_LOCK), stack="cud"),
    sound("cluster-unprotected", "the provider's default", drop(_CLUSTER, "deletionProtection"), stack="cud"),
    of_resource(
        "firewall-open", "from everywhere", put(_FIREWALL, "sourceRanges", value=["0.0.0.0/0"]), stack="gateway"
    ),
    of_resource("firewall-open", "to every instance", drop(_FIREWALL, "destinationRanges"), stack="gateway"),
    of_resource("firewall-open", "on every port", drop(_FIREWALL, "allows.0.ports"), stack="gateway"),
    of_resource(
        "firewall-open", "of every protocol", put(_FIREWALL, "allows.0.protocol", value="all"), stack="gateway"
    ),
    sound(
        "firewall-open",
        "from instances with a tag to instances with a tag",
        drop(_FIREWALL, "sourceRanges"),
        drop(_FIREWALL, "destinationRanges"),
        put(_FIREWALL, "sourceTags", value=["proxy"]),
        put(_FIREWALL, "targetTags", value=["server"]),
        stack="gateway",
    ),
    sound("firewall-open", "a ping", append(_FIREWALL, "allows", {"protocol": "icmp"}), stack="gateway"),
    of_resource("network-policy-wide", "a server for everybody", drop(_SERVER, "spec.ingress.0.from")),
    of_resource("network-policy-wide", "a server on every port", drop(_SERVER, "spec.ingress.0.ports")),
    of_resource(
        "network-policy-wide", "the internet comes in", _allowing("ingress", {"from": [_INTERNET], "ports": _HTTPS})
    ),
    of_resource(
        "network-policy-wide",
        "the metadata server with the internet",
        _allowing("egress", {"to": [{"ipBlock": {"cidr": "0.0.0.0/0", "except": ["10.0.0.0/8"]}}], "ports": _HTTPS}),
    ),
    of_resource(
        "network-policy-wide",
        "half of the addresses there are",
        _allowing("egress", {"to": [{"ipBlock": {"cidr": "0.0.0.0/1"}}], "ports": _HTTPS}),
    ),
    of_resource(
        "network-policy-wide",
        "any pod of any namespace",
        _allowing("ingress", {"from": [{"namespaceSelector": {}, "podSelector": {}}], "ports": _HTTPS}),
    ),
    of_resource("network-policy-wide", "a peer without a name", _allowing("ingress", {"from": [{}], "ports": _HTTPS})),
    of_resource(
        "network-policy-wide",
        "what one pod needs, for all",
        _allowing("egress", {"to": [_POD], "ports": _HTTPS}, {}),
    ),
    of_resource(
        "network-policy-wide",
        "a protocol without a port",
        _allowing("egress", {"to": [_POD], "ports": [{"protocol": "TCP"}]}),
    ),
    of_resource(
        "network-policy-wide",
        "every port, as a range",
        _allowing("egress", {"to": [_POD], "ports": [{"port": 1, "endPort": 65535}]}),
    ),
    sound(
        "network-policy-wide",
        "eight ranks",
        _allowing("egress", {"to": [_POD], "ports": [{"port": 8000, "endPort": 8007}]}),
    ),
    sound("network-policy-wide", "one pod to another", _allowing("egress", {"to": [_POD], "ports": _HTTPS})),
    sound("network-policy-wide", "one pod to the internet", _allowing("egress", {"to": [_INTERNET], "ports": _HTTPS})),
    sound(
        "network-policy-wide",
        "DNS for every pod",
        _allowing(
            "egress",
            {"to": [{"ipBlock": {"cidr": "169.254.20.10/32"}}], "ports": [{"protocol": "UDP", "port": 53}]},
            {},
        ),
    ),
    of_resource("service-open", "a port of each node", put("server-service", "spec.type", value="NodePort")),
    sound("service-open", "an address for each pod", put("server-service", "spec.clusterIP", value="None")),
    of_resource(
        "routes-from-anywhere",
        "routes of all namespaces, written manually",
        put("gateway-gateway", "spec.listeners.0.allowedRoutes.namespaces.from", value="All"),
        stack="gateway",
    ),
    of_resource("provider-without-kubeconfig", "no kubeconfig", drop(_PROVIDER, "kubeconfig")),
    of_resource("cluster-admin-bound", "a pod that administers the cluster", _bound("ServiceAccount", "vllm-server")),
    of_resource("cluster-admin-bound", "everybody administers the cluster", _bound("Group", "system:authenticated")),
    sound("cluster-admin-bound", "a person administers the cluster", _bound("User", "a@b.c")),
    sound("cluster-admin-bound", "a pod that reads", _bound("ServiceAccount", "vllm-server", role="view")),
    of_resource(
        "api-off-on-destroy",
        "Compute goes with the stack",
        put("services-compute", "disableOnDestroy", value=True),
    ),
    of_resource(
        "bucket-loses-results",
        "results go with their bucket, written manually",
        put(_BUCKET, "forceDestroy", value=True),
    ),
    sound(
        "bucket-loses-results",
        "a bucket of what is made again",
        put(_BUCKET, "forceDestroy", value=True),
        put(_BUCKET, "labels.scratch", value="true"),
    ),
    of_resource("bucket-loses-results", "gone whatever they are", drop(_BUCKET, "lifecycleRules.0.condition")),
    of_resource("bucket-loses-results", "gone in a day", put(_BUCKET, "lifecycleRules.0.condition.age", value=1)),
    of_resource(
        "bucket-loses-results",
        "production's results become scratch",
        put(_BUCKET, "forceDestroy", value=True),
        put(_BUCKET, "labels.scratch", value="true"),
        stack="prod",
    ),
)
