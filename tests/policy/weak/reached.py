"""What is reached from outside."""

from __future__ import annotations

from typing import Any

from tests.policy.samples import server
from tests.policy.weak import Row, rows

_SERVICE = "kubernetes:core/v1:Service"
_PORTS = [{"port": 8000}]
_FIREWALL = {"allows": [{"protocol": "tcp", "ports": ["8000"]}], "targetTags": ["server"]}
_INTERNET = {"ipBlock": {"cidr": "0.0.0.0/0", "except": ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "169.254.0.0/16"]}}  # fmt: skip
_APP = {"matchLabels": {"app": "client"}}


def _policy(direction: str, *entries: Any, pods: Any = None) -> dict[str, Any]:
    return {"spec": {"podSelector": pods or {"matchLabels": {"app": "server"}}, direction: list(entries)}}


def _in(*peers: Any, ports: Any = _PORTS, **more: Any) -> dict[str, Any]:
    return _policy("ingress", {"from": list(peers), "ports": ports}, **more)


def _out(*peers: Any, ports: Any = _PORTS) -> dict[str, Any]:
    return _policy("egress", {"to": list(peers), "ports": ports})


def _blocks(*cidrs: str) -> list[Any]:
    return [{"ipBlock": {"cidr": one}} for one in cidrs]


def _by(operator: str, key: str = "app", **more: Any) -> Any:
    return {"matchExpressions": [{"key": key, "operator": operator, **more}]}


def _each(direction: str, cidrs: list[str]) -> dict[str, Any]:
    """One entry for each block."""
    key = "from" if direction == "ingress" else "to"
    return _policy(direction, *({key: _blocks(one), "ports": _PORTS} for one in cidrs))


def _rule(**match: Any) -> dict[str, Any]:
    layers = match.pop("layers", [{"ipProtocol": "tcp", "ports": ["8000"]}])
    return {
        "action": "allow",
        "direction": "INGRESS",
        "targetServiceAccounts": ["a"],
        "match": {"layer4Configs": layers, **match},
    }


def _published(what: str, variable: dict[str, Any], *flags: str) -> Row:
    """A server behind an external load balancer."""
    deployment = dict(server(*flags, container={"env": [{"name": "VLLM_API_KEY", **variable}]}).props)
    deployment["spec"]["template"]["metadata"]["labels"] = {"app": "server"}
    metadata = {"name": "server", "namespace": "vllm"}
    service = {"metadata": metadata, "spec": {"type": "LoadBalancer", "selector": {"app": "server"}}}
    return Row("open-to-the-internet", what, ((_SERVICE, service), ("kubernetes:apps/v1:Deployment", deployment)))


def _key(**more: Any) -> dict[str, Any]:
    return {"valueFrom": {"secretKeyRef": {"name": "s", "key": "k", **more}}}


_EIGHTS = [f"{first}.0.0.0/8" for first in range(256)]
_HALVES = ["0.0.0.0/1", "128.0.0.0/1"]
_SIX_HALVES = ["::/1", "8000::/1"]
_NINES = [f"{first}.{half}.0.0/9" for first in range(256) for half in (0, 128)]

WEAK = (
    _published("a key that is empty", {"value": ""}),
    _published("a key that may be missing", _key(optional=True)),
    _published("an option without a key", {"value": ""}, "--api-key="),
    *rows(
        "network-policy-wide",
        "kubernetes:networking.k8s.io/v1:NetworkPolicy",
        ("256 blocks of /8", _in(*_blocks(*_EIGHTS))),
        ("512 blocks of /9", _in(*_blocks(*_NINES))),
        ("half a block and the other half", _in(*_blocks(*_HALVES))),
        ("a block in each entry", _each("ingress", _EIGHTS)),
        ("a few public blocks of /12", _in(*_blocks("20.0.0.0/12", "34.64.0.0/12"))),
        ("all of IPv6", _in(*_blocks("::/0"))),
        ("IPv6 in halves", _in(*_blocks(*_SIX_HALVES))),
        ("the public IPv6 addresses", _in(*_blocks("2000::/3"))),
        ("IPv4 as IPv6", _in(*_blocks("::ffff:0.0.0.0/96"))),
        ("IPv4 through NAT64", _in(*_blocks("64:ff9b::/96"))),
        ("all but one address", _in({"ipBlock": {"cidr": "0.0.0.0/0", "except": ["1.2.3.4/32"]}})),
        ("out to 256 blocks", _out(*_blocks(*_EIGHTS))),
        ("out to a block in each entry", _each("egress", _EIGHTS)),
        ("out to IPv6", _out(*_blocks("::/0"))),
        ("out to the internet, and to the VPC beside", _out(_INTERNET, *_blocks("10.0.0.0/8"))),
        ("pods that have the label", _in({"podSelector": _by("Exists")})),
        ("pods that lack a label", _in({"podSelector": _by("DoesNotExist", "quarantined")})),
        ("pods of another name", _in({"podSelector": _by("NotIn", values=["nobody"])})),
        ("namespaces that have a name", _in({"namespaceSelector": _by("Exists", "kubernetes.io/metadata.name")})),
        ("namespaces of another name", _in({"namespaceSelector": _by("NotIn", "team", values=["x"])})),
        ("a label in any namespace", _in({"namespaceSelector": {}, "podSelector": _APP})),
        ("a label in namespaces by Exists", _in({"namespaceSelector": _by("Exists", "team"), "podSelector": _APP})),
        ("whatever Pulumi made", _in({"podSelector": {"matchLabels": {"app.kubernetes.io/managed-by": "pulumi"}}})),
        ("for pods that have a label", _in({"podSelector": _APP}, pods=_by("Exists"))),
        ("ports in pieces", _in({"podSelector": _APP}, ports=[{"port": 1 + 90 * n, "endPort": 90 * n + 90} for n in range(9)])),
        ("out to any namespace", _out({"namespaceSelector": {}, "podSelector": _APP})),
    ),
    *rows(
        "network-policy-wide",
        "kubernetes:cilium.io/v2:CiliumClusterwideNetworkPolicy",
        ("Cilium's world", {"spec": {"endpointSelector": _APP, "ingress": [{"fromEntities": ["world"], "toPorts": [{"ports": [{"port": "8000"}]}]}]}}),
        ("Cilium's every endpoint", {"spec": {"endpointSelector": _APP, "ingress": [{"fromEndpoints": [{}], "toPorts": [{"ports": [{"port": "8000"}]}]}]}}),
        ("Cilium without ports", {"spec": {"endpointSelector": _APP, "ingress": [{"fromEndpoints": [_APP]}]}}),
        ("Cilium's empty rule", {"specs": [{"endpointSelector": _APP, "egress": [{}]}]}),
        ("Cilium's blocks", {"spec": {"endpointSelector": _APP, "egress": [{"toCIDRSet": [{"cidr": "0.0.0.0/0"}], "toPorts": [{"ports": [{"port": "443"}]}]}]}}),
    ),
    *rows(
        "network-policy-wide",
        "kubernetes:networking.gke.io/v1alpha1:FQDNNetworkPolicy",
        ("every name", {"spec": {"podSelector": _APP, "egress": [{"matches": [{"pattern": "*"}], "ports": [{"port": 443}]}]}}),
        ("every name of .com", {"spec": {"podSelector": _APP, "egress": [{"matches": [{"pattern": "*.com"}], "ports": [{"port": 443}]}]}}),
    ),
    *rows(
        "firewall-open",
        "gcp:compute/firewall:Firewall",
        ("halves", {**_FIREWALL, "sourceRanges": _HALVES}),
        ("256 blocks", {**_FIREWALL, "sourceRanges": _EIGHTS}),
        ("IPv6", {**_FIREWALL, "sourceRanges": ["::/0"]}),
        ("TCP by number", {"sourceRanges": ["10.0.0.0/8"], "targetTags": ["s"], "allows": [{"protocol": "6"}]}),
        ("all ports by numbers", {"sourceRanges": ["10.0.0.0/8"], "targetTags": ["s"], "allows": [{"protocol": "TCP", "ports": ["0-65535"]}]}),
        ("all ports in pieces", {"sourceRanges": ["10.0.0.0/8"], "targetTags": ["s"], "allows": [{"protocol": "tcp", "ports": ["1-90", "91-180"]}]}),
    ),
    *rows(
        "firewall-open",
        "gcp:compute/networkFirewallPolicyRule:NetworkFirewallPolicyRule",
        ("a policy's rule", _rule(srcIpRanges=["0.0.0.0/0"])),
        ("a policy's rule of no source", _rule()),
        ("a policy's rule for a country", _rule(srcRegionCodes=["US"])),
        ("a policy's rule on every port", _rule(srcIpRanges=["10.0.0.0/8"], layers=[{"ipProtocol": "all"}])),
    ),
    *rows(
        "firewall-open",
        "gcp:compute/regionNetworkFirewallPolicyRule:RegionNetworkFirewallPolicyRule",
        ("a regional policy's rule", _rule(srcIpRanges=_HALVES)),
    ),
    *rows(
        "firewall-open",
        "gcp:compute/networkFirewallPolicyWithRules:NetworkFirewallPolicyWithRules",
        ("the second rule of a policy", {"rules": [{"action": "deny"}, _rule(srcIpRanges=["0.0.0.0/0"])]}),
    ),
    *rows(
        "firewall-open",
        "gcp:compute/organizationSecurityPolicyRule:OrganizationSecurityPolicyRule",
        ("an organization's rule", {"action": "allow", "direction": "INGRESS", "targetServiceAccounts": ["a"], "match": {"config": {"srcIpRanges": ["0.0.0.0/0"], "layer4Configs": [{"ipProtocol": "tcp", "ports": ["8000"]}]}}}),
    ),
    *rows(
        "cluster-open",
        "gcp:container/cluster:Cluster",
        ("tokens by DNS", {"privateClusterConfig": {"enablePrivateNodes": True}, "controlPlaneEndpointsConfig": {"ipEndpointsConfig": {"enabled": False}, "dnsEndpointConfig": {"enableK8sTokensViaDns": True}}}),
        ("authorized networks in blocks", {"privateClusterConfig": {"enablePrivateNodes": True}, "masterAuthorizedNetworksConfig": {"cidrBlocks": [{"cidrBlock": one} for one in _EIGHTS]}}),
    ),
    *rows(
        "cluster-open",
        "gcp:container/nodePool:NodePool",
        ("a pool with public nodes", {"networkConfig": {"enablePrivateNodes": False}}),
    ),
    *rows(
        "routes-from-anywhere",
        "kubernetes:gateway.networking.k8s.io/v1:Gateway",
        *(
            (what, {"spec": {"listeners": [{"allowedRoutes": {"namespaces": {"from": "Selector", **more}}}]}})
            for what, more in (("no selector", {}), ("any selector", {"selector": {}}), ("Exists", {"selector": _by("Exists")}))
        ),
    ),
    *rows(
        "service-open",
        "kubernetes:core/v1:Service",
        ("a load balancer", {"spec": {"type": "LoadBalancer"}}),
        ("a load balancer for half the world", {"spec": {"type": "LoadBalancer", "loadBalancerSourceRanges": _HALVES}}),
        ("an external class that says Internal", {"metadata": {"annotations": {"networking.gke.io/load-balancer-type": "Internal"}}, "spec": {"type": "LoadBalancer", "loadBalancerClass": "networking.gke.io/l4-regional-external"}}),
        ("a port of each node", {"spec": {"type": "NodePort"}}),
        ("external addresses", {"spec": {"externalIPs": ["34.1.2.3"]}}),
        ("another host", {"spec": {"type": "ExternalName", "externalName": "models.example.com"}}),
    ),
    *rows(
        "service-open",
        "gcp:compute/forwardingRule:ForwardingRule",
        ("Google's default", {"target": "t"}),
        ("external", {"loadBalancingScheme": "EXTERNAL_MANAGED"}),
    ),
    *rows("service-open", "gcp:compute/instance:Instance", ("a public machine", {"networkInterfaces": [{"accessConfigs": [{}]}]})),
    *rows("service-open", "kubernetes:networking.gke.io/v1:ServiceAttachment", ("everybody's project", {"spec": {"connectionPreference": "ACCEPT_AUTOMATIC"}})),
)  # fmt: skip

SOUND = (
    _published("a key", _key()),
    *rows(
        "network-policy-wide",
        "kubernetes:networking.k8s.io/v1:NetworkPolicy",
        ("private networks", _in(*_blocks("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10"))),
        ("Google's health checks", _in(*_blocks("35.191.0.0/16", "130.211.0.0/22"))),
        ("a company's networks", _in(*_blocks(*(f"34.0.{n}.0/24" for n in range(200))))),
        ("an IPv6 VPC", _in(*_blocks("fd20::/20"))),
        ("the internet and a private network in entries of their own", _policy("egress", {"to": [_INTERNET], "ports": _PORTS}, {"to": _blocks("10.0.0.0/8"), "ports": _PORTS})),
        ("the internet in halves, without what is private", _out({"ipBlock": {"cidr": "0.0.0.0/1", "except": ["10.0.0.0/8", "100.64.0.0/10"]}}, {"ipBlock": {"cidr": "128.0.0.0/1", "except": ["172.16.0.0/12", "192.168.0.0/16", "169.254.0.0/16"]}})),
        ("pods by In", _in({"podSelector": _by("In", values=["a", "b"])})),
        ("pods of a named namespace", _in({"namespaceSelector": {"matchLabels": {"team": "a"}}, "podSelector": {}})),
        ("pods by name and by label", _in({"podSelector": {"matchLabels": {"app": "a"}, **_by("Exists", "version")}})),
        ("DNS in any namespace", _out({"namespaceSelector": {}, "podSelector": {"matchLabels": {"k8s-app": "kube-dns"}}}, ports=[{"port": 53}])),
    ),
    *rows(
        "network-policy-wide",
        "kubernetes:cilium.io/v2:CiliumNetworkPolicy",
        ("Cilium's API server", {"spec": {"endpointSelector": _APP, "egress": [{"toEntities": ["kube-apiserver"], "toPorts": [{"ports": [{"port": "443"}]}]}]}}),
        ("Cilium's endpoints", {"spec": {"endpointSelector": _APP, "ingress": [{"fromEndpoints": [_APP], "toPorts": [{"ports": [{"port": "8000"}]}]}]}}),
    ),
    *rows(
        "network-policy-wide",
        "kubernetes:networking.gke.io/v1alpha1:FQDNNetworkPolicy",
        ("Google's names", {"spec": {"podSelector": _APP, "egress": [{"matches": [{"pattern": "*.googleapis.com"}], "ports": [{"port": 443}]}]}}),
    ),
    *rows(
        "firewall-open",
        "gcp:compute/networkFirewallPolicyRule:NetworkFirewallPolicyRule",
        ("a named source", _rule(srcIpRanges=["10.0.0.0/8"])),
        ("a deny", {**_rule(), "action": "deny"}),
        ("on the way out", {**_rule(), "direction": "EGRESS"}),
        ("switched off", {**_rule(), "disabled": True}),
    ),
    *rows(
        "service-open",
        "kubernetes:core/v1:Service",
        ("an internal class", {"spec": {"type": "LoadBalancer", "loadBalancerClass": "networking.gke.io/l4-regional-internal"}}),
        ("an office", {"spec": {"type": "LoadBalancer", "loadBalancerSourceRanges": ["34.1.2.0/24"]}}),
        ("no address", {"spec": {"clusterIP": "None"}}),
    ),
    *rows("service-open", "gcp:compute/globalForwardingRule:GlobalForwardingRule", ("Private Service Connect", {"loadBalancingScheme": ""})),
    *rows("service-open", "gcp:compute/instance:Instance", ("a private machine", {"networkInterfaces": [{"network": "n"}]})),
)  # fmt: skip
