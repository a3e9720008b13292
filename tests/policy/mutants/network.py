"""Mutants of the gateway, of the endpoint picker, and of what the internet can reach."""

from __future__ import annotations

from tests.policy.mutant import (
    DEPLOYMENT,
    Patch,
    Props,
    append,
    delete,
    drop,
    of_program,
    of_resource,
    put,
    result,
    set_at,
    twin,
    variable,
)

_GATEWAY, _POOL = "gateway-gateway", "gateway-pool"
_BACKEND, _HEALTH = "gateway-backend", "gateway-health-check"
_EXTERNAL = "gke-l7-regional-external-managed"
_HTTP_CHECK = "spec.default.config.httpHealthCheck"
_EPP = "values.inferenceExtension"


def _publish(spec: Props) -> None:
    spec["type"] = "LoadBalancer"


def _rename(kind: str) -> Patch:
    """The gateway's policy of a kind, at a target that is not there."""
    return result(
        f"workloads.gateway.gateway.{kind}", lambda spec: set_at(spec, "targetRef.name", value="another-pool")
    )


def _another(props: Props) -> None:
    props["metadata"]["name"] = "by-hand"


def _public_twin(props: Props) -> None:
    _another(props)
    _publish(props["spec"])


MUTANTS = (
    of_program(
        "gateway-without-api",
        "an API less",
        result(
            "settings.derived.google_cloud_needs.required_apis",
            lambda apis: tuple(api for api in apis if not api.startswith("networkservices")),
        ),
        stack="gateway",
    ),
    of_resource(
        "gateway-without-api",
        "the cluster's Gateway API switched off",
        put("platform-cluster-autopilot", "gatewayApiConfig.channel", value="CHANNEL_DISABLED"),
        stack="gateway",
    ),
    of_resource(
        "gateway-without-api",
        "the API's resource deleted",
        delete("platform-services-networkservices"),
        stack="gateway",
    ),
    of_program(
        "gateway-without-proxy-only-subnet",
        "the subnet switched off",
        stack="gateway",
        settings={"network": {"proxyOnly": {"enabled": False}}},
    ),
    of_resource(
        "gateway-without-proxy-only-subnet",
        "a subnet that is only a backup",
        put("platform-network-proxy-only", "role", value="BACKUP"),
        stack="gateway",
    ),
    of_resource(
        "gateway-without-proxy-only-subnet",
        "a subnet of sixteen addresses",
        put("platform-network-proxy-only", "ipCidrRange", value="10.8.0.0/28"),
        stack="gateway",
    ),
    of_program(
        "pool-behind-global-gateway",
        "a global class",
        result("workloads.gateway.gateway.gateway_spec", lambda spec: spec.update(gatewayClassName="gke-l7-gxlb")),
        stack="gateway",
    ),
    of_resource(
        "pool-behind-global-gateway",
        "a global class, by hand",
        put(_GATEWAY, "spec.gatewayClassName", value="gke-l7-global-external-managed"),
        stack="gateway",
    ),
    of_program(
        "gateway-without-health-check",
        "a check of another pool",
        _rename("health_check_policy"),
        stack="gateway",
    ),
    of_resource("gateway-without-health-check", "the check deleted", delete(_HEALTH), stack="gateway"),
    of_resource(
        "gateway-without-health-check",
        "the check asks for /",
        put(_HEALTH, f"{_HTTP_CHECK}.requestPath", value="/"),
        stack="gateway",
    ),
    of_program(
        "health-check-invalid",
        "a time-out longer than the interval",
        result(
            "workloads.gateway.gateway.health_check_policy", lambda spec: set_at(spec, "default.timeoutSec", value=30)
        ),
        stack="gateway",
    ),
    of_resource(
        "health-check-invalid",
        "a port that nobody says is fixed",
        drop(_HEALTH, f"{_HTTP_CHECK}.portSpecification"),
        stack="gateway",
    ),
    of_program("gateway-cuts-streams", "30 seconds", stack="gateway", settings={"gateway": {"timeoutSeconds": 30}}),
    of_resource("gateway-cuts-streams", "no policy, so GKE's own", delete(_BACKEND), stack="gateway"),
    of_resource(
        "gateway-cuts-streams", "no time-out in the policy", drop(_BACKEND, "spec.default.timeoutSec"), stack="gateway"
    ),
    of_program("gateway-timeout-short", "five minutes", stack="gateway", settings={"gateway": {"timeoutSeconds": 300}}),
    of_resource(
        "gateway-timeout-short",
        "the policy's default is short for answers of an hour",
        put(_BACKEND, "spec.default.timeoutSec", value=1_800),
        stack="gateway",
        policy_config={"timeoutSeconds": 3_600},
    ),
    of_program(
        "two-policies-on-one-target",
        "the chart writes policies of its own, too",
        result("workloads.gateway.values.ChartValues.rendered", lambda values: values["provider"].update(name="gke")),
        stack="gateway",
    ),
    of_resource(
        "two-policies-on-one-target",
        "a second time-out for the pool",
        twin("gateway-backend-by-hand", _BACKEND, _another),
        stack="gateway",
    ),
    of_program("epp-undersized", "one CPU", stack="gateway", settings={"gateway": {"epp": {"cpu": 1}}}),
    of_resource(
        "epp-undersized",
        "the chart's default",
        drop(_POOL, f"{_EPP}.resources"),
        stack="gateway",
    ),
    of_program(
        "epp-replicas-are-standby", "three pickers", stack="gateway", settings={"gateway": {"epp": {"replicas": 3}}}
    ),
    of_resource(
        "epp-replicas-are-standby",
        "eight pickers, for scale",
        put(_POOL, f"{_EPP}.replicas", value=8),
        stack="gateway",
    ),
    of_program(
        "open-to-the-internet",
        "an external gateway without a key",
        stack="gateway",
        settings={"gateway": {"gatewayClass": _EXTERNAL}},
    ),
    of_program(
        "open-to-the-internet",
        "an external load balancer for the Service",
        result("workloads.server.server.service_spec", _publish),
    ),
    of_resource(
        "open-to-the-internet",
        "an external load balancer, by hand",
        put("server-service", "spec.type", value="LoadBalancer"),
        stack="spot",
    ),
    of_resource(
        "open-to-the-internet",
        "a second, public Service",
        twin("server-service-by-hand", "server-service", _public_twin),
        stack="cud",
    ),
    of_program(
        "unguarded-paths-public",
        "every path of a guarded server",
        result(
            "workloads.gateway.gateway.route_spec", lambda spec: set_at(spec, "rules.0.matches.0.path.value", value="/")
        ),
        stack="gateway",
        settings={"gateway": {"gatewayClass": _EXTERNAL}, "server": {"apiKeySecret": "vllm-api-key"}},
    ),
    of_resource(
        "unguarded-paths-public",
        "a guarded server behind its own load balancer",
        put("server-service", "spec.type", value="LoadBalancer"),
        variable(DEPLOYMENT, "VLLM_API_KEY", "$(KEY)"),
        stack="cud",
    ),
    of_program(
        "public-in-clear-text",
        "an external gateway with plain HTTP",
        stack="gateway",
        settings={"gateway": {"gatewayClass": _EXTERNAL}, "server": {"apiKeySecret": "vllm-api-key"}},
    ),
    of_resource(
        "public-in-clear-text",
        "an external class, by hand",
        put(_GATEWAY, "spec.gatewayClassName", value=_EXTERNAL),
        append(_GATEWAY, "spec.listeners", {"name": "https", "protocol": "HTTPS", "port": 443}),
        stack="gateway",
    ),
)
