"""Cases of the gateway, of the endpoint picker, and of what the internet can reach."""

from __future__ import annotations

from functools import partial
from typing import Any

from tests.policy.case import (
    CONTAINER,
    DEPLOYMENT,
    HERE,
    POD,
    Edit,
    Props,
    append,
    delete,
    drop,
    flag,
    new,
    of_program,
    of_resource,
    put,
    sound,
    twin,
    variable,
)

_program, _broken, _sound = (partial(one, stack="gateway") for one in (of_program, of_resource, sound))
_GATEWAY, _POOL, _ROUTE, _SERVICE = "gateway-gateway", "gateway-pool", "gateway-route", "server-service"
_CLUSTER, _PROXIES = "cluster-autopilot", "proxies-subnet"
_BACKEND, _HEALTH = "gateway-backend", "gateway-health-check"
_EXTERNAL = "gke-l7-regional-external-managed"
_EPP = "values.inferenceExtension"
_LLM_D = {"release": "llm-d-router-v0.10.0"}


def _publish(spec: Props) -> None:
    spec["type"] = "LoadBalancer"


def _another(props: Props) -> None:
    props["metadata"]["name"] = "by-hand"


def _public_twin(props: Props) -> None:
    _another(props)
    _publish(props["spec"])


def _class(name: str) -> Edit:
    return put(_GATEWAY, "spec.gatewayClassName", value=name)


def _path(value: str) -> Edit:
    return put(_ROUTE, "spec.rules.0.matches.0.path.value", value=value)


def _kubernetes(name: str, kind: str, spec: Props, **metadata: Any) -> Edit:
    return new(name, f"kubernetes:{kind}", {"metadata": {"name": name, "namespace": HERE, **metadata}, "spec": spec})


_PUBLIC = _class(_EXTERNAL)
_KEYED = flag(DEPLOYMENT, "--api-key=$(KEY)")
_BALANCED = put(_SERVICE, "spec.type", value="LoadBalancer")
_INTERNAL = put(_SERVICE, "metadata.annotations", "networking.gke.io/load-balancer-type", value="Internal")
_SMALL_PICKER = put(_POOL, f"{_EPP}.resources.requests.cpu", value="500m")
_TO_SERVICE = put(_ROUTE, "spec.rules.0.backendRefs", value=[{"name": "qwen35-server", "port": 8000}])
_NAMED = (
    append(_GATEWAY, "spec.listeners", {"name": "https", "protocol": "HTTPS", "port": 443}),
    append(_ROUTE, "spec.parentRefs", {"name": "inference-gateway", "sectionName": "https"}),
)
_ON_HTTPS = put(_ROUTE, "spec.parentRefs", value=[{"name": "inference-gateway", "sectionName": "https"}])
_INGRESS = _kubernetes(
    "door", "networking.k8s.io/v1:Ingress", {"defaultBackend": {"service": {"name": "qwen35-server"}}}
)
_GUARD = put(_SERVICE, "metadata.annotations", "cloud.google.com/backend-config", value='{"default": "guard"}')


def _router(*command: str, **variables: str) -> Edit:
    container = {
        "name": "router",
        "image": "router:1",
        "command": [*command],
        "env": [{"name": name, "value": value} for name, value in variables.items()],
    }
    template = {"metadata": {"labels": {"app": "router"}}, "spec": {"containers": [container]}}
    return _kubernetes(
        "router", "apps/v1:Deployment", {"selector": {"matchLabels": {"app": "router"}}, "template": template}
    )


def _split(*options: str) -> Edit:
    command = ["vllm-router", "--host=0.0.0.0", "--vllm-pd-disaggregation", *options]
    return append(DEPLOYMENT, f"{POD}.containers", {"name": "vllm-router", "image": "router:1", "command": command})


_SPLIT = _split()
_ON_LOOPBACK = flag(DEPLOYMENT, "--host=127.0.0.1")
_SERVERS_POLICY = "network-policies-server"


_FROM_CLIENTS = {"podSelector": {"matchLabels": {"app": "client"}}}
_FROM_COLLECTORS = {
    "namespaceSelector": {
        "matchExpressions": [
            {"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["gke-gmp-system", "gmp-system"]}
        ]
    }
}


def _entry(peer: Props, *ports: Props) -> Props:
    return {"from": [peer], "ports": [{**port, "protocol": "TCP"} for port in ports]}


def _only_from(app: str, *others: Props) -> Edit:
    entry = _entry({"podSelector": {"matchLabels": {"app": app}}}, {"port": 8000})
    return put(_SERVERS_POLICY, "spec.ingress", value=[entry, *others])


def _split_open_to(peer: Props, *ports: Props) -> tuple[Edit, ...]:
    return _SPLIT, _ON_LOOPBACK, _ROUTER, _only_from("router", _entry(peer, *ports))


_ROUTER = _router("haproxy", SERVERS="qwen35-server-pods.vllm-gateway.svc.cluster.local")
_ROUTERS_SERVICES = (
    _kubernetes("routers", "core/v1:Service", {"selector": {"app": "router"}}),
    _kubernetes("qwen35-server-pods", "core/v1:Service", {"clusterIP": "None", "selector": {"app": "qwen35-server"}}),
)
_TO_ROUTER = put(_ROUTE, "spec.rules.0.backendRefs", value=[{"name": "routers", "port": 8000}])
_OWN_POOL = (
    _kubernetes(
        "pool", "inference.networking.k8s.io/v1:InferencePool", {"selector": {"matchLabels": {"app": "qwen35-server"}}}
    ),
    _kubernetes(
        "epp",
        "apps/v1:Deployment",
        {
            "replicas": 3,
            "template": {
                "spec": {
                    "containers": [
                        {"name": "epp", "args": ["--pool-name", "pool"], "resources": {"requests": {"cpu": "2"}}}
                    ]
                }
            },
        },
    ),
)
"""A pool without the chart."""
_RULES = (
    "gateway-without-proxy-only-subnet",
    "gateway-cuts-streams",
    "gateway-timeout-short",
    "epp-undersized",
    "epp-replicas-are-standby",
    "open-to-the-internet",
    "unguarded-paths-public",
    "public-in-clear-text",
)
_PLATFORM = delete("services-networkservices", _CLUSTER, "network-nodes", _PROXIES)
_WITHOUT_POLICIES = delete(_HEALTH, _BACKEND)


CASES = (
    *(_sound(rule, "a guest of another stack's platform", _PLATFORM) for rule in _RULES),
    *(
        _sound(rule, "a gateway of another implementation", _class("istio"), delete(_PROXIES), _WITHOUT_POLICIES)
        for rule in _RULES
    ),
    *(
        _sound(rule, "a load balancer of the VPC", _BALANCED, _INTERNAL, stack="dev")
        for rule in ("open-to-the-internet", "unguarded-paths-public", "public-in-clear-text")
    ),
    *(
        _sound(
            rule, "a route to what serves no model", _TO_SERVICE, put(_SERVICE, "spec.selector.app", value="website")
        )
        for rule in _RULES
    ),
    _program(
        "gateway-without-proxy-only-subnet",
        "the subnet switched off",
        settings={"network": {"proxyOnly": {"enabled": False}}},
    ),
    _broken(
        "gateway-without-proxy-only-subnet",
        "a subnet of sixteen addresses",
        put(_PROXIES, "ipCidrRange", value="10.8.0.0/28"),
    ),
    _broken("gateway-without-proxy-only-subnet", "a subnet elsewhere", put(_PROXIES, "region", value="us-central1")),
    _program("gateway-cuts-streams", "30 seconds", settings={"gateway": {"timeoutSeconds": 30}}),
    _broken("gateway-cuts-streams", "no policy, so GKE's own", delete(_BACKEND)),
    _broken("gateway-cuts-streams", "a route to a Service", _TO_SERVICE),
    _program("gateway-timeout-short", "five minutes", settings={"gateway": {"timeoutSeconds": 300}}),
    _broken(
        "gateway-timeout-short",
        "five minutes, written manually",
        put(_BACKEND, "spec.default.timeoutSec", value=300),
    ),
    _program("epp-undersized", "one CPU", settings={"gateway": {"epp": {"cpu": 1}}}),
    _program("epp-undersized", "one CPU for llm-d's picker", settings={"gateway": {"epp": {**_LLM_D, "cpu": 1}}}),
    _broken(
        "epp-undersized",
        "a pool without the chart",
        *_OWN_POOL,
        stack="spot",
    ),
    _sound("epp-undersized", "half a CPU, agreed", _SMALL_PICKER, cpu=0.5),
    _program("epp-replicas-are-standby", "three pickers", settings={"gateway": {"epp": {"replicas": 3}}}),
    _program("epp-replicas-are-standby", "three of llm-d's", settings={"gateway": {"epp": {**_LLM_D, "replicas": 3}}}),
    _broken("epp-replicas-are-standby", "a pool without the chart", *_OWN_POOL, stack="dev"),
    _program(
        "open-to-the-internet", "an external gateway without a key", settings={"gateway": {"gatewayClass": _EXTERNAL}}
    ),
    _broken(
        "open-to-the-internet",
        "an external load balancer, written manually",
        put(_SERVICE, "spec.type", value="LoadBalancer"),
        stack="spot",
    ),
    _broken(
        "open-to-the-internet",
        "a second, public Service",
        twin("server-service-by-hand", _SERVICE, _public_twin),
        stack="cud",
    ),
    _broken(
        "open-to-the-internet",
        "an external class, written manually",
        _PUBLIC,
    ),
    _broken("open-to-the-internet", "an Ingress", _INGRESS, stack="dev"),
    _broken(
        "open-to-the-internet", "routers before servers without a key", _PUBLIC, _ROUTER, _TO_ROUTER, *_ROUTERS_SERVICES
    ),
    _sound(
        "open-to-the-internet",
        "routers before servers with a key",
        _PUBLIC,
        _KEYED,
        _ROUTER,
        _TO_ROUTER,
        *_ROUTERS_SERVICES,
    ),
    _sound(
        "split-pod-reachable",
        "its router on the loopback address, in two words",
        _split("--host", "127.0.0.1"),
        _ON_LOOPBACK,
        stack="dev",
    ),
    _broken("split-pod-reachable", "clients call the pods", _SPLIT, _ON_LOOPBACK, stack="dev"),
    _broken(
        "split-pod-reachable",
        "engines on every address",
        _SPLIT,
        _ROUTER,
        _only_from("router"),
        stack="dev",
    ),
    _broken(
        "split-pod-reachable",
        "no network policies",
        _SPLIT,
        _ON_LOOPBACK,
        delete(_SERVERS_POLICY, "network-policies-default-deny", "network-policies-every-pod"),
        stack="dev",
    ),
    *(
        _broken("split-pod-reachable", what, *_split_open_to(_FROM_CLIENTS, *ports), stack="dev")
        for what, ports in (
            ("a range of ports", ({"port": 7000, "endPort": 9000},)),
            ("a port by its name", ({"port": "http"},)),
            ("the second of two ports", ({"port": 22}, {"port": 8000})),
            ("the status port", ({"port": 9256},)),
        )
    ),
    _broken(
        "split-pod-reachable",
        "the router's port, by its option",
        _split("--port=8100"),
        _ON_LOOPBACK,
        _ROUTER,
        _only_from("router", _entry(_FROM_CLIENTS, {"port": 8100})),
        stack="dev",
    ),
    _broken(
        "split-pod-reachable",
        "collectors at the router",
        *_split_open_to(_FROM_COLLECTORS, {"port": 8000}, {"port": 9256}),
        stack="dev",
    ),
    _broken(
        "split-pod-reachable",
        "a namespace at the status port",
        *_split_open_to({"namespaceSelector": {"matchLabels": {"team": "other"}}}, {"port": 9256}),
        stack="dev",
    ),
    *(
        _sound("split-pod-reachable", what, *_split_open_to(peer, port), stack="dev")
        for what, peer, port in (
            ("collectors at the status port", _FROM_COLLECTORS, {"port": 9256}),
            ("clients at another port", _FROM_CLIENTS, {"port": 9000, "endPort": 9255}),
        )
    ),
    _sound("split-pod-reachable", "routers alone", _SPLIT, _ON_LOOPBACK, _ROUTER, _only_from("router"), stack="dev"),
    _sound("open-to-the-internet", "a key", _PUBLIC, _KEYED),
    _sound("open-to-the-internet", "a key behind a load balancer", _BALANCED, _KEYED, stack="dev"),
    _sound(
        "open-to-the-internet",
        "a key that a script reads",
        _PUBLIC,
        put(
            DEPLOYMENT, f"{CONTAINER}.command", value=["python3", "-c", "...", "VLLM_API_KEY", "/key", "vllm", "serve"]
        ),
    ),
    _sound(
        "open-to-the-internet",
        "Google's proxy asks",
        _PUBLIC,
        put(_BACKEND, "spec.default.iap", value={"enabled": True}),
    ),
    _sound(
        "open-to-the-internet",
        "an authorisation policy asks",
        _PUBLIC,
        _kubernetes("a", "networking.gke.io/v1:GCPAuthzPolicy", {"targetRefs": [{"name": "inference-gateway"}]}),
    ),
    _sound(
        "open-to-the-internet",
        "Google's proxy asks before an Ingress",
        _INGRESS,
        _GUARD,
        _kubernetes("guard", "cloud.google.com/v1:BackendConfig", {"iap": {"enabled": True}}),
        stack="dev",
    ),
    _sound(
        "open-to-the-internet",
        "an Ingress of the VPC",
        _kubernetes(
            "door",
            "networking.k8s.io/v1:Ingress",
            {"ingressClassName": "gce-internal", "defaultBackend": {"service": {"name": "qwen35-server"}}},
        ),
        stack="dev",
    ),
    _broken(
        "unguarded-paths-public",
        "a guarded server behind its own load balancer",
        put(_SERVICE, "spec.type", value="LoadBalancer"),
        variable(DEPLOYMENT, "VLLM_API_KEY", "$(KEY)"),
        stack="cud",
    ),
    _broken("unguarded-paths-public", "every path", _PUBLIC, _KEYED),
    _broken("unguarded-paths-public", "no path", _PUBLIC, _KEYED, drop(_ROUTE, "spec.rules.0.matches")),
    _broken("unguarded-paths-public", "a path that begins alike", _PUBLIC, _KEYED, _path("/v10")),
    *(
        _sound("unguarded-paths-public", path, _PUBLIC, _KEYED, _path(path))
        for path in ("/v1", "/v1/", "/v1/chat/completions")
    ),
    _program(
        "public-in-clear-text",
        "an external gateway with plain HTTP",
        settings={"gateway": {"gatewayClass": _EXTERNAL}, "server": {"apiKeySecret": "vllm-api-key"}},
    ),
    _broken(
        "public-in-clear-text",
        "an external class, written manually",
        put(_GATEWAY, "spec.gatewayClassName", value=_EXTERNAL),
        append(_GATEWAY, "spec.listeners", {"name": "https", "protocol": "HTTPS", "port": 443}),
    ),
    _broken("public-in-clear-text", "a load balancer of its own", _BALANCED, stack="dev"),
    _broken("public-in-clear-text", "a route on both listeners of a host name", _PUBLIC, *_NAMED),
    _sound(
        "public-in-clear-text", "a route on the HTTPS listener, a redirect on the other", _PUBLIC, *_NAMED, _ON_HTTPS
    ),
    _sound("public-in-clear-text", "HTTPS", _PUBLIC, put(_GATEWAY, "spec.listeners.0.protocol", value="HTTPS")),
)
