"""Cases of the gateway, of the endpoint picker, and of what the internet can reach."""

from __future__ import annotations

from functools import partial
from typing import Any

from tests.policy.case import (
    CLUSTER,
    CONTAINER,
    DEPLOYMENT,
    HERE,
    PROXY_SUBNET,
    SERVICE,
    Edit,
    Props,
    Rule,
    append,
    broken,
    delete,
    drop,
    flag,
    new,
    put,
    sound,
    twin,
    variable,
)

_broken, _sound = (partial(one, stack="gateway") for one in (broken, sound))
_GATEWAY, _POOL, _ROUTE, _BACKEND = "Gateway", "Release/pool", "HTTPRoute", "GCPBackendPolicy"
_NETWORK_API = "Service/networkservices"
_EXTERNAL = "gke-l7-regional-external-managed"
_EPP = "values.inferenceExtension"


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
_BALANCED = put(SERVICE, "spec.type", value="LoadBalancer")
_INTERNAL = put(SERVICE, "metadata.annotations", "networking.gke.io/load-balancer-type", value="Internal")
_SMALL_PICKER = put(_POOL, f"{_EPP}.resources.requests.cpu", value="500m")
_TOSERVICE = put(_ROUTE, "spec.rules.0.backendRefs", value=[{"name": "qwen35-server", "port": 8000}])
_NAMED = (
    append(_GATEWAY, "spec.listeners", {"name": "https", "protocol": "HTTPS", "port": 443}),
    append(_ROUTE, "spec.parentRefs", {"name": "inference-gateway", "sectionName": "https"}),
)
_ON_HTTPS = put(_ROUTE, "spec.parentRefs", value=[{"name": "inference-gateway", "sectionName": "https"}])
_INGRESS = _kubernetes(
    "door", "networking.k8s.io/v1:Ingress", {"defaultBackend": {"service": {"name": "qwen35-server"}}}
)


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


_ROUTER = _router("haproxy", SERVERS="qwen35-server-pods.vllm-gateway.svc.cluster.local")
_ROUTERSSERVICES = (
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
    "gateway-without-apis",
    "gateway-cuts-streams",
    "epp-undersized",
    "epp-replicas-are-standby",
    "open-to-the-internet",
    "unguarded-paths-public",
    "public-in-clear-text",
)
_PLATFORM = delete(_NETWORK_API, CLUSTER, "Subnetwork/nodes", PROXY_SUBNET)
_WITHOUT_POLICIES = delete("HealthCheckPolicy", _BACKEND)


_INTERNET = Rule("open-to-the-internet", stack="gateway")
_CLEAR_TEXT = Rule("public-in-clear-text", stack="gateway")

CASES = (
    *(_sound(rule, "a guest of another stack's platform", _PLATFORM) for rule in _RULES),
    *(
        _sound(rule, "a gateway of another implementation", _class("istio"), delete(PROXY_SUBNET), _WITHOUT_POLICIES)
        for rule in _RULES
    ),
    *(
        _sound(rule, "a load balancer of the VPC", _BALANCED, _INTERNAL, stack="dev")
        for rule in ("open-to-the-internet", "unguarded-paths-public", "public-in-clear-text")
    ),
    *(
        _sound(rule, "a route to what serves no model", _TOSERVICE, put(SERVICE, "spec.selector.app", value="website"))
        for rule in _RULES
    ),
    _broken("gateway-without-proxy-only-subnet", "no subnet", delete(PROXY_SUBNET)),
    _broken("gateway-without-proxy-only-subnet", "one that waits", put(PROXY_SUBNET, "role", value="BACKUP")),
    _broken(
        "gateway-without-proxy-only-subnet", "a subnet elsewhere", put(PROXY_SUBNET, "region", value="us-central1")
    ),
    _broken("gateway-without-apis", "an API that is not enabled", delete(_NETWORK_API)),
    _broken(
        "gateway-without-apis", "no controller", put(CLUSTER, "gatewayApiConfig.channel", value="CHANNEL_DISABLED")
    ),
    _sound("gateway-without-apis", "Autopilot's own controller", drop(CLUSTER, "gatewayApiConfig")),
    _broken("gateway-cuts-streams", "30 seconds", put(_BACKEND, "spec.default.timeoutSec", value=30)),
    _broken("gateway-cuts-streams", "no policy, so GKE's own", delete(_BACKEND)),
    _broken("gateway-cuts-streams", "a route to a Service", _TOSERVICE),
    _broken("epp-undersized", "half a CPU", _SMALL_PICKER),
    _broken(
        "epp-undersized",
        "a pool without the chart",
        *_OWN_POOL,
        stack="spot",
    ),
    _sound("epp-undersized", "half a CPU, agreed", _SMALL_PICKER, cpu=0.5),
    _broken("epp-replicas-are-standby", "three pickers", put(_POOL, f"{_EPP}.replicas", value=3)),
    _broken("epp-replicas-are-standby", "a pool without the chart", *_OWN_POOL, stack="dev"),
    _INTERNET.broken(
        "an external load balancer, written manually", put(SERVICE, "spec.type", value="LoadBalancer"), stack="spot"
    ),
    _INTERNET.broken("a second, public Service", twin("server-service-by-hand", SERVICE, _public_twin), stack="cud"),
    _INTERNET.broken("an external class, written manually", _PUBLIC),
    _INTERNET.broken("an Ingress", _INGRESS, stack="dev"),
    _INTERNET.broken("routers before servers without a key", _PUBLIC, _ROUTER, _TO_ROUTER, *_ROUTERSSERVICES),
    _INTERNET.sound("routers before servers with a key", _PUBLIC, _KEYED, _ROUTER, _TO_ROUTER, *_ROUTERSSERVICES),
    _INTERNET.sound("a key", _PUBLIC, _KEYED),
    _INTERNET.sound("a key behind a load balancer", _BALANCED, _KEYED, stack="dev"),
    _INTERNET.sound(
        "a key that a script reads",
        _PUBLIC,
        put(
            DEPLOYMENT, f"{CONTAINER}.command", value=["python3", "-c", "...", "VLLM_API_KEY", "/key", "vllm", "serve"]
        ),
    ),
    _INTERNET.sound("Google's proxy asks", _PUBLIC, put(_BACKEND, "spec.default.iap", value={"enabled": True})),
    _INTERNET.sound(
        "an authorisation policy asks",
        _PUBLIC,
        _kubernetes("a", "networking.gke.io/v1:GCPAuthzPolicy", {"targetRefs": [{"name": "inference-gateway"}]}),
    ),
    _INTERNET.sound(
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
        put(SERVICE, "spec.type", value="LoadBalancer"),
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
    _CLEAR_TEXT.broken(
        "an external class, written manually",
        put(_GATEWAY, "spec.gatewayClassName", value=_EXTERNAL),
        append(_GATEWAY, "spec.listeners", {"name": "https", "protocol": "HTTPS", "port": 443}),
    ),
    _CLEAR_TEXT.broken("a load balancer of its own", _BALANCED, stack="dev"),
    _CLEAR_TEXT.broken("a route on both listeners of a host name", _PUBLIC, *_NAMED),
    _CLEAR_TEXT.sound("a route on the HTTPS listener, a redirect on the other", _PUBLIC, *_NAMED, _ON_HTTPS),
    _CLEAR_TEXT.sound("HTTPS", _PUBLIC, put(_GATEWAY, "spec.listeners.0.protocol", value="HTTPS")),
)
