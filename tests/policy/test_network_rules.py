from __future__ import annotations

from typing import Any

import pytest

from rule import Resource
from tests.policy.manifests import CONTAINER, GONE, MODEL, changed, kubernetes, one, resource, said, server, urns

POOL = {"group": "inference.networking.k8s.io", "kind": "InferencePool", "name": "pool"}
EXTERNAL = "gke-l7-regional-external-managed"


def release(**changes: Any) -> Resource:
    amounts = {"cpu": "10", "memory": "16Gi"}
    values = {
        "inferencePool": {"modelServers": {"matchLabels": {"app": "server"}}},
        "inferenceExtension": {"replicas": 1, "resources": {"requests": amounts, "limits": amounts}},
        "provider": {"name": "none"},
    } | changes
    return resource(
        "kubernetes:helm.sh/v3:Release",
        "pool-release",
        {
            "name": "pool",
            "namespace": "llm",
            "chart": "oci://registry.k8s.io/gateway-api-inference-extension/charts/inferencepool",
            "values": values,
        },
    )


def gateway(class_name: str = "gke-l7-rilb", protocol: str = "HTTP") -> Resource:
    listener = {"name": "main", "protocol": protocol, "port": 80.0}
    return kubernetes(
        "gateway.networking.k8s.io/v1:Gateway",
        "gate",
        {"spec": {"gatewayClassName": class_name, "listeners": [listener]}},
    )


def route(path: str | None = None, backend: dict[str, Any] = POOL) -> Resource:
    rule: dict[str, Any] = {"backendRefs": [backend]}
    if path is not None:
        rule["matches"] = [{"path": {"type": "PathPrefix", "value": path}}]
    return kubernetes(
        "gateway.networking.k8s.io/v1:HTTPRoute",
        "route",
        {"spec": {"parentRefs": [{"name": "gate"}], "rules": [rule]}},
    )


def policy(kind: str, name: str, default: dict[str, Any], target: dict[str, Any] = POOL) -> Resource:
    return kubernetes(f"networking.gke.io/v1:{kind}", name, {"spec": {"targetRef": target, "default": default}})


def check(**http: Any) -> Resource:
    asked = {"requestPath": "/health", "port": 8000.0, "portSpecification": "USE_FIXED_PORT"} | http
    default = {"checkIntervalSec": 10.0, "timeoutSec": 10.0, "config": {"type": "HTTP", "httpHealthCheck": asked}}
    return policy("HealthCheckPolicy", "check", default)


BACKEND = policy("GCPBackendPolicy", "backend", {"timeoutSec": 3600.0})
SUBNET = resource(
    "gcp:compute/subnetwork:Subnetwork",
    "proxies",
    {"purpose": "REGIONAL_MANAGED_PROXY", "role": "ACTIVE", "region": "europe-west4", "ipCidrRange": "10.8.0.0/23"},
)
NODES = resource("gcp:compute/subnetwork:Subnetwork", "nodes", {"region": "europe-west4", "ipCidrRange": "10.0.0.0/20"})
CLUSTER = resource(
    "gcp:container/cluster:Cluster",
    "cluster",
    {"enableAutopilot": True, "location": "europe-west4", "gatewayApiConfig": {"channel": "CHANNEL_STANDARD"}},
)
COMPUTE = resource("gcp:projects/service:Service", "compute", {"service": "compute.googleapis.com"})
API = resource("gcp:projects/service:Service", "networkservices", {"service": "networkservices.googleapis.com"})

WHOLE = (COMPUTE, API, CLUSTER, NODES, SUBNET, release(), gateway(), route(), check(), BACKEND, server(replicas=8))
RULES = (
    "gateway-without-api",
    "gateway-without-proxy-only-subnet",
    "pool-behind-global-gateway",
    "gateway-without-health-check",
    "health-check-invalid",
    "gateway-cuts-streams",
    "gateway-timeout-short",
    "two-policies-on-one-target",
    "epp-undersized",
    "epp-replicas-are-standby",
    "open-to-the-internet",
    "unguarded-paths-public",
    "public-in-clear-text",
)


def whole(*replaced: Resource, without: tuple[str, ...] = ()) -> list[Resource]:
    by_name = {one.name: one for one in WHOLE} | {one.name: one for one in replaced}
    return [one for name, one in by_name.items() if name not in without]


def keyed(**changes: Any) -> Resource:
    return server(replicas=8, args=[MODEL, "--api-key=$(KEY)"], **changes)


@pytest.mark.parametrize("rule", RULES)
def test_a_whole_gateway_breaks_no_rule(rule: str) -> None:
    assert said(rule, *WHOLE) == []


@pytest.mark.parametrize("rule", RULES)
def test_a_guest_that_sees_neither_network_nor_cluster_is_not_judged_for_them(rule: str) -> None:
    assert said(rule, *whole(without=("compute", "networkservices", "cluster", "nodes", "proxies"))) == []


@pytest.mark.parametrize("rule", [one for one in RULES if one != "health-check-invalid"])
def test_gateways_of_other_implementations_are_not_judged(rule: str) -> None:
    assert said(rule, *whole(gateway("istio"), without=("proxies", "networkservices", "check", "backend"))) == []


def test_a_gateway_without_its_api_is_found() -> None:
    text = one(said("gateway-without-api", *whole(without=("networkservices",))))
    assert "Gateway gate (gke-l7-rilb): networkservices.googleapis.com is not among the 1 APIs" in text
    assert "stays at PROGRAMMED False and says nothing" in text


def test_a_cluster_with_its_gateway_api_off_is_found() -> None:
    off = changed(CLUSTER, "gatewayApiConfig.channel", "CHANNEL_DISABLED")
    assert "gatewayApiConfig.channel is CHANNEL_DISABLED" in one(said("gateway-without-api", *whole(off)))
    standard = changed(changed(CLUSTER, "enableAutopilot", False), "gatewayApiConfig", GONE)
    assert "left out, which a Standard cluster reads as" in one(said("gateway-without-api", *whole(standard)))


@pytest.mark.parametrize(
    ("path", "value"),
    [("purpose", "PRIVATE"), ("role", "BACKUP"), ("region", "us-central1")],
)
def test_a_gateway_without_an_active_proxy_only_subnet_of_its_region_is_found(path: str, value: str) -> None:
    text = one(said("gateway-without-proxy-only-subnet", *whole(changed(SUBNET, path, value))))
    assert "no subnet of this stack has purpose REGIONAL_MANAGED_PROXY and role ACTIVE in europe-west4" in text


def test_a_proxy_only_subnet_that_google_refuses_is_found() -> None:
    small = changed(SUBNET, "ipCidrRange", "10.8.0.0/27")
    text = one(said("gateway-without-proxy-only-subnet", *whole(small)))
    assert "ipCidrRange 10.8.0.0/27 is smaller than /26" in text
    assert "a /23, or a /26 at least" in text


def test_a_global_gateway_in_front_of_a_pool_is_found() -> None:
    text = one(said("pool-behind-global-gateway", *whole(gateway("gke-l7-global-external-managed"))))
    assert "has class gke-l7-global-external-managed and routes to InferencePool pool" in text
    assert "gatewayClassName: gke-l7-rilb" in text


def test_a_pool_without_a_health_check_is_found_unless_the_chart_brings_one() -> None:
    text = one(said("gateway-without-health-check", *whole(without=("check",))))
    assert "HTTPRoute route leads to InferencePool pool, which no HealthCheckPolicy of llm targets" in text
    assert "vLLM answers 404" in text
    assert "$260.88 an hour (8 A4 nodes, Spot" in text
    assert said("gateway-without-health-check", *whole(release(provider={"name": "gke"}), without=("check",))) == []


def test_a_health_check_of_the_wrong_path_is_found() -> None:
    assert "requestPath is /v1/models" in one(
        said("gateway-without-health-check", *whole(check(requestPath="/v1/models")))
    )


def test_a_health_check_that_the_crd_refuses_is_found() -> None:
    loose = changed(check(), "spec.default.config.httpHealthCheck.portSpecification", GONE)
    assert "httpHealthCheck has port 8000 and portSpecification left out" in one(said("health-check-invalid", loose))
    slow = changed(check(), "spec.default.timeoutSec", 30.0)
    assert "timeoutSec is 30, longer than checkIntervalSec 10" in one(said("health-check-invalid", slow))


def test_a_gateway_at_gkes_own_timeout_is_found_with_the_time_an_answer_takes() -> None:
    text = one(said("gateway-cuts-streams", *whole(without=("backend",))))
    assert "no GCPBackendPolicy gives InferencePool pool a time-out, so GKE's own 30 s holds" in text
    assert "49 s at both 99th percentiles (11.6 s + 512 x 72.9 ms)" in text
    unset = changed(BACKEND, "spec.default.timeoutSec", GONE)
    assert urns("gateway-cuts-streams", *whole(unset)) == ["backend"]


def test_a_timeout_below_long_answers_is_an_advice_of_its_own() -> None:
    short = changed(BACKEND, "spec.default.timeoutSec", 300.0)
    text = one(said("gateway-timeout-short", *whole(short)))
    assert "spec.default.timeoutSec is 300" in text
    assert "8,192 tokens at the record's 99th percentile take 609 s" in text
    assert said("gateway-cuts-streams", *whole(short)) == []
    assert said("gateway-timeout-short", *whole(short), timeoutSeconds=300) == []


def test_two_policies_of_a_kind_on_one_pool_are_found() -> None:
    second = policy("GCPBackendPolicy", "other", {"timeoutSec": 300})
    text = one(said("two-policies-on-one-target", *whole(second)))
    assert "InferencePool pool is the target of 2 GCPBackendPolicy objects: GCPBackendPolicy backend and" in text
    assert said("two-policies-on-one-target", *whole(changed(second, "metadata.namespace", "other"))) == []


def test_a_policy_beside_the_charts_own_is_found() -> None:
    both = said("two-policies-on-one-target", *whole(release(provider={"name": "gke"})))
    assert len(both) == 2
    assert all("the chart of Release pool-release (provider.name: gke)" in text for text in both)


def test_an_endpoint_picker_too_small_for_its_connections_is_found() -> None:
    small = release(inferenceExtension={"resources": {"requests": {"cpu": "500m"}}})
    text = one(said("epp-undersized", *whole(small)))
    assert "CPU is 0.5: 16,000 connections" in text
    assert said("epp-undersized", *whole(small, server(replicas=3))) == []
    assert said("epp-undersized", *whole(small), cpu=0.5) == []
    charts_own = release(inferenceExtension={})
    assert "CPU is 4: 16,000" in one(said("epp-undersized", *whole(charts_own)))


def test_an_endpoint_picker_without_the_chart_is_found_by_its_pool() -> None:
    pool = kubernetes(
        "inference.networking.k8s.io/v1:InferencePool",
        "pool",
        {"spec": {"selector": {"matchLabels": {"app": "server"}}}},
    )
    container = {"name": "epp", "args": ["--pool-name", "pool"], "resources": {"requests": {"cpu": "2"}}}
    picker = kubernetes(
        "apps/v1:Deployment", "epp", {"spec": {"replicas": 3, "template": {"spec": {"containers": [container]}}}}
    )
    text = one(said("epp-undersized", pool, picker, server(replicas=8)))
    assert text.startswith("Deployment epp, spec.template.spec.containers[0].resources: ")
    assert urns("epp-replicas-are-standby", pool, picker, server()) == ["epp"]


def test_replicas_of_the_picker_are_named_standby() -> None:
    text = one(said("epp-replicas-are-standby", *whole(release(inferenceExtension={"replicas": 3.0}))))
    assert text.split("\n")[0].endswith("is 3")
    assert said("epp-replicas-are-standby", *whole(release(inferenceExtension={"replicas": 1.0}))) == []


def test_a_public_gateway_without_a_key_is_found_with_the_money() -> None:
    text = one(said("open-to-the-internet", *whole(gateway(EXTERNAL))))
    assert f"Gateway gate ({EXTERNAL}) publishes Deployment server, container vllm, which asks for no key" in text
    assert "At stake: $260.88 an hour" in text


def test_a_key_iap_or_an_authorisation_policy_closes_a_public_gateway() -> None:
    iap = policy("GCPBackendPolicy", "backend", {"timeoutSec": 3600, "iap": {"enabled": True}})
    authorised = kubernetes("networking.gke.io/v1:GCPAuthzPolicy", "a", {"spec": {"targetRefs": [{"name": "gate"}]}})
    for guard in (keyed(), iap, authorised):
        assert said("open-to-the-internet", *whole(gateway(EXTERNAL), guard)) == []
    wrapped = server(replicas=8)
    changed_command = ["python3", "-c", "...", "VLLM_API_KEY", "/key", "vllm", "serve"]
    assert (
        said(
            "open-to-the-internet", *whole(gateway(EXTERNAL), changed(wrapped, f"{CONTAINER}.command", changed_command))
        )
        == []
    )


def service(**annotations: str) -> Resource:
    return kubernetes(
        "core/v1:Service",
        "front",
        {"spec": {"type": "LoadBalancer", "selector": {"app": "server"}, "ports": [{"port": 8000}]}},
        annotations=annotations,
    )


def test_a_load_balancer_on_the_internet_is_found_and_one_in_the_vpc_is_not() -> None:
    text = one(said("open-to-the-internet", service(), server()))
    assert "Service front: its external load balancer publishes Deployment server" in text
    internal = service(**{"networking.gke.io/load-balancer-type": "Internal"})
    for rule in ("open-to-the-internet", "unguarded-paths-public", "public-in-clear-text"):
        assert said(rule, internal, server()) == []


def test_an_ingress_on_the_internet_is_found_and_iap_closes_it() -> None:
    inner = changed(service(**{"cloud.google.com/backend-config": '{"default": "guard"}'}), "spec.type", "ClusterIP")
    spec = {"defaultBackend": {"service": {"name": "front", "port": {"number": 8000}}}}
    ingress = kubernetes("networking.k8s.io/v1:Ingress", "door", {"spec": spec})
    assert "Ingress door: an external Ingress publishes" in one(said("open-to-the-internet", ingress, inner, server()))
    guard = kubernetes("cloud.google.com/v1:BackendConfig", "guard", {"spec": {"iap": {"enabled": True}}})
    assert said("open-to-the-internet", ingress, inner, guard, server()) == []
    inside = changed(ingress, "spec.ingressClassName", "gce-internal")
    assert said("open-to-the-internet", inside, inner, server()) == []


def test_paths_that_no_key_guards_are_found_on_a_public_gateway() -> None:
    for path, shown in ((None, "/"), ("/", "/"), ("/v10", "/v10")):
        text = one(said("unguarded-paths-public", *whole(gateway(EXTERNAL), keyed(), route(path))))
        assert f"lets {shown} through to Deployment server" in text
        assert "/tokenize and /metrics answer, all without it" in text
    for path in ("/v1", "/v1/", "/v1/chat/completions"):
        assert said("unguarded-paths-public", *whole(gateway(EXTERNAL), keyed(), route(path))) == []


def test_a_guarded_server_behind_its_own_public_load_balancer_is_found() -> None:
    assert urns("unguarded-paths-public", service(), keyed()) == ["front"]
    assert said("open-to-the-internet", service(), keyed()) == []


def test_clear_text_on_the_internet_is_found() -> None:
    text = one(said("public-in-clear-text", *whole(gateway(EXTERNAL), keyed(), route("/v1"))))
    assert "listener main is HTTP on port 80, and HTTPRoute route hangs on it" in text
    assert said("public-in-clear-text", *whole(gateway(EXTERNAL, "HTTPS"), keyed(), route("/v1"))) == []
    assert "speaks HTTP with" in one(said("public-in-clear-text", service(), server()))


def test_a_route_to_a_service_of_model_servers_is_judged_like_one_to_a_pool() -> None:
    plain = changed(service(), "spec.type", "ClusterIP")
    to_service = route(backend={"name": "front", "port": 8000})
    found = [rule for rule in RULES if said(rule, gateway(), to_service, plain, server())]
    assert found == ["gateway-without-health-check", "gateway-cuts-streams"]
    other = changed(plain, "spec.selector.app", "website")
    assert [rule for rule in RULES if said(rule, gateway(), to_service, other, server())] == []
