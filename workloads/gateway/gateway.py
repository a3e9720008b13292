"""The Inference Gateway: a regional load balancer whose endpoint picker selects a replica for each request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pulumi
import pulumi_kubernetes as k8s

from settings.sections.gateway import GATEWAY_NAME, STREAM_SECONDS
from settings.sections.gateway import Gateway as GatewaySection
from workloads import names
from workloads.gateway.picker import EndpointPicker, EndpointPickerArgs
from workloads.gateway.values import CHART, CHART_VERSION, chart_values
from workloads.router.router import Router
from workloads.server.server import Server

GATEWAY_API = "gateway.networking.k8s.io"
POLICY_API = "networking.gke.io/v1"
CERTIFICATES = "networking.gke.io/cert-manager-certs"
"""Listener option with certificates of Certificate Manager. Regional Gateways do not support certificate maps. Source: GKE docs, "Secure a
Gateway"."""
HTTP, HTTPS = "http", "https"
"""Names of the listeners."""

PROGRAMMING_MINUTES = 20
"""Minutes to wait for the load balancer. Assumed: two to five are usual; the first one in a network is slower."""
PICKER_SECONDS = 900
"""Seconds Helm waits for the endpoint picker. The provider ignores custom timeouts of a release.
Assumed: time to create a node. Source: pulumi-kubernetes, helm_release.go, helmCreate."""
HEALTH_PERIOD_SECONDS = 10
LOG_SAMPLE_RATE = 10_000
"""Share of requests logged, in millionths: 1 %. At the article's 640 requests a second, 100 % would be 55 million
log lines a day. Source of the unit: GKE's GCPBackendPolicy."""


class GatewayResource(pulumi.CustomResource):
    """A `Gateway` with a status output, which the SDK's generic CustomResource does not have."""

    status: pulumi.Output[dict[str, Any]]

    def __init__(
        self, name: str, metadata: dict[str, Any], spec: dict[str, Any], opts: pulumi.ResourceOptions | None = None
    ) -> None:
        inputs = {
            "apiVersion": f"{GATEWAY_API}/v1",
            "kind": "Gateway",
            "metadata": metadata,
            "spec": spec,
            "status": None,  # makes it an output
        }
        super().__init__(f"kubernetes:{GATEWAY_API}/v1:Gateway", name, inputs, opts)


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayArgs:
    """Arguments of `Gateway`."""

    server: Server
    """Servers behind the gateway; the pool selects their pods by label."""
    canary: Server | None = None
    """A canary's servers, with a pool and a picker of their own. None: the servers answer all users' requests."""
    canary_weight: int = 0
    """Percent of the users' requests for the canary."""
    endpoint_picker: bool = True
    """Whether an endpoint picker chooses a server of the pool. False: the load balancer sends requests to the routers, else to the
    servers' Service."""
    router: Router | None = None
    """Routers between the gateway and the servers, instead of a picker."""
    gateway: GatewaySection = field(default_factory=GatewaySection)
    """Names of Gateway and pool, Gateway class, host name, stream timeout, and size of the endpoint picker. `enabled` is
    ignored here."""
    address: pulumi.Input[str] | None = None
    """Name of the static address. None: `gateway.address`; without that, GKE chooses one."""
    certificate: pulumi.Input[str] | None = None
    """Name of the regional Certificate Manager certificate for `gateway.hostname`. None: `gateway.tls.certificate`."""


class Gateway(pulumi.ComponentResource):
    """Gateway, route, pool, endpoint picker, and the two policies that GKE's load balancer requires for streaming.

    It does not install the InferencePool CRD, which is part of GKE. `ProxyOnlySubnet` creates the proxy-only subnet; without it the
    Gateway is never programmed, so this component waits for `Programmed`.
    """

    endpoint: pulumi.Output[str]
    """URL of the host name, else of the load balancer's address, without a path."""
    address: pulumi.Output[str]
    """The load balancer's address."""
    pool: str | None
    """Name of the InferencePool; the endpoint picker's objects are named after it. None: a Service is behind the gateway."""
    canary_pool: str | None
    """Name of the canary's. None: the gateway does not reach a canary."""

    def __init__(self, name: str, args: GatewayArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("vllm-fleet:workloads:Gateway", name, None, opts)
        gateway, namespace, labels = args.gateway, args.server.namespace, names.own_labels(args.server.name)
        self.canary_pool = None if args.canary is None else gateway.pool_name + names.CANARY_ENDING
        releases, ready = list[pulumi.Resource](), list[pulumi.Resource]()
        backends: list[dict[str, Any]]
        if args.endpoint_picker:
            self.pool, backends = gateway.pool_name, [pool_reference(gateway.pool_name)]
            releases.append(self._backend(name, gateway.pool_name, args.server, args))
        else:
            service = args.server.name if args.router is None else names.ROUTER_APP
            drain = args.server.drain.grace_seconds if args.router is None else args.router.drain_seconds
            self.pool, target = None, service_reference(service)
            backends = [{**target, "port": names.HTTP_PORT}]
            self._policies(name, gateway.pool, target, drain, args)
        if args.canary is not None and self.canary_pool is not None:
            releases.append(self._backend(f"{name}-canary", self.canary_pool, args.canary, args))
            # A share sent to a canary that still loads would get 503 for as long as that takes.
            ready.append(args.canary.deployment)
            # One weight alone would be 1 of 1: a split names both.
            backends[0]["weight"] = 100 - args.canary_weight
            backends.append({**pool_reference(self.canary_pool), "weight": args.canary_weight})
        load_balancer = GatewayResource(
            f"{name}-gateway",
            {
                "name": GATEWAY_NAME,
                "namespace": namespace,
                "labels": labels,
                # A Gateway that cannot be programmed gives no reason; waiting makes the update fail visibly.
                "annotations": {"pulumi.com/waitFor": "condition=Programmed"},
            },
            gateway_spec(
                gateway.gateway_class,
                address=gateway.address if args.address is None else args.address,
                certificate=None
                if gateway.hostname is None
                else gateway.tls.certificate
                if args.certificate is None
                else args.certificate,
            ),
            pulumi.ResourceOptions(
                parent=self,
                custom_timeouts=pulumi.CustomTimeouts(
                    create=f"{PROGRAMMING_MINUTES}m", update=f"{PROGRAMMING_MINUTES}m", delete=f"{PROGRAMMING_MINUTES}m"
                ),
            ),
        )
        routes = {
            "route": (
                gateway.pool,
                route_spec(GATEWAY_NAME, backends, v1_only=args.server.key is not None, hostname=gateway.hostname),
            )
        }
        if gateway.hostname is not None:
            routes["redirect"] = (f"{gateway.pool}-redirect", redirect_spec(GATEWAY_NAME, gateway.hostname))
        for what, (route, spec) in routes.items():
            k8s.apiextensions.CustomResource(
                f"{name}-{what}",
                api_version=f"{GATEWAY_API}/v1",
                kind="HTTPRoute",
                metadata={
                    "name": route,
                    "namespace": namespace,
                    "labels": labels,
                    "annotations": {"pulumi.com/waitFor": ROUTE_RESOLVED},
                },
                spec=spec,
                opts=pulumi.ResourceOptions(
                    parent=self,
                    depends_on=[load_balancer, *releases, *ready],
                    custom_timeouts=pulumi.CustomTimeouts(
                        create=f"{PROGRAMMING_MINUTES}m", update=f"{PROGRAMMING_MINUTES}m"
                    ),
                ),
            )
        self.address = load_balancer.status.apply(lambda status: address_of(GATEWAY_NAME, status))
        self.endpoint = self.address.apply(
            lambda address: f"http://{address}" if gateway.hostname is None else f"https://{gateway.hostname}"
        )
        self.register_outputs({"endpoint": self.endpoint})

    def _backend(self, name: str, pool: str, server: Server, args: GatewayArgs) -> pulumi.Resource:
        """Pool and picker of these servers, with the two policies of their backend service."""
        picker = self._picker(name, pool, server, args)
        # After the pool: without it, the policy would report a missing target.
        self._policies(
            name, pool, pool_reference(pool), server.drain.grace_seconds, args, picker, port=server.status_port
        )
        return picker

    def _picker(self, name: str, pool: str, server: Server, args: GatewayArgs) -> pulumi.Resource:
        gateway, child = args.gateway, pulumi.ResourceOptions(parent=self)
        if gateway.has_llm_d:
            picker = EndpointPickerArgs(pool=pool, server=server, epp=gateway.epp)
            return EndpointPicker(f"{name}-picker", picker, child)
        return k8s.helm.v3.Release(
            f"{name}-pool",
            name=pool,
            namespace=args.server.namespace,
            chart=CHART,
            version=CHART_VERSION,
            values=chart_values(server.name, gateway.epp, server.ports),
            timeout=PICKER_SECONDS,
            atomic=False,
            # Standby pickers are not ready by design, so waiting for all replicas would never end.
            skip_await=gateway.epp.replicas > 1,
            opts=child,
        )

    def _policies(
        self,
        name: str,
        object_name: str,
        target: dict[str, Any],
        drain_seconds: int,
        args: GatewayArgs,
        *after: pulumi.Resource,
        port: int = names.HTTP_PORT,
    ) -> None:
        """The two policies of a backend service. Their names are the pool's for a Service too: a switch to GKE's picker updates them in
        place.
        """
        for kind, spec in (
            ("HealthCheckPolicy", health_check_policy(target, port)),
            ("GCPBackendPolicy", backend_policy(target, drain_seconds)),
        ):
            k8s.apiextensions.CustomResource(
                f"{name}-{_slug(kind)}",
                api_version=POLICY_API,
                kind=kind,
                metadata={
                    "name": object_name,
                    "namespace": args.server.namespace,
                    "labels": names.own_labels(args.server.name),
                },
                spec=spec,
                opts=pulumi.ResourceOptions(parent=self, depends_on=list(after)),
            )


ROUTE_RESOLVED = 'jsonpath={.status.parents[0].conditions[?(@.type=="ResolvedRefs")].status}=True'
"""Wait expression for a route, whose conditions are listed per parent. For `condition=` the provider also wants the condition's
observedGeneration to be the object's; a path cannot compare two fields, so the status of an earlier generation satisfies it in an update.
Source: pulumi-kubernetes, provider/pkg/await/condition, kubectl.go and jsonpath.go."""


def address_of(gateway: str, status: Mapping[str, Any] | None) -> str:
    """The load balancer's address. Unknown in previews while a Gateway whose wait timed out has none; the
    next update waits for it again. Raises pulumi.RunError if no wait was pending.
    """
    addresses = (status or {}).get("addresses")
    if addresses:
        return str(addresses[0]["value"])
    if pulumi.runtime.is_dry_run():
        unknown: str = pulumi.UNKNOWN  # type: ignore[assignment]
        return unknown
    raise pulumi.RunError(
        f"Gateway {gateway} has no address: the load balancer is not programmed, and `pulumi refresh` cleared the pending "
        f"wait. Once `kubectl get gateway {gateway}` shows PROGRAMMED True, run `pulumi refresh` and "
        "`pulumi up`; docs/gateway.md lists possible causes"
    )


def gateway_spec(
    gateway_class: str, *, address: pulumi.Input[str] | None = None, certificate: pulumi.Input[str] | None = None
) -> dict[str, Any]:
    """Spec of the Gateway: a plain HTTP listener for routes of this namespace, with a certificate also an HTTPS listener."""
    allowed = {"namespaces": {"from": "Same"}}
    listeners: list[dict[str, Any]] = [
        {"name": HTTP, "protocol": "HTTP", "port": names.GATEWAY_PORT, "allowedRoutes": allowed}
    ]
    if certificate is not None:
        tls = {"mode": "Terminate", "options": {CERTIFICATES: certificate}}
        listeners.append(
            {"name": HTTPS, "protocol": "HTTPS", "port": names.GATEWAY_TLS_PORT, "allowedRoutes": allowed, "tls": tls}
        )
    addresses = {} if address is None else {"addresses": [{"type": "NamedAddress", "value": address}]}
    return {"gatewayClassName": gateway_class, "listeners": listeners, **addresses}


def pool_reference(pool: str) -> dict[str, Any]:
    """An InferencePool as a route's backend or a policy's target."""
    return {"group": names.POOL_GROUP, "kind": "InferencePool", "name": pool}


def _attached(gateway: str, hostname: str | None, listener: str) -> dict[str, Any]:
    """Start of a route's spec: with a host name it is attached to one listener, for requests to that name."""
    parent = {"group": GATEWAY_API, "kind": "Gateway", "name": gateway}
    if hostname is None:
        return {"parentRefs": [parent]}
    return {"parentRefs": [{**parent, "sectionName": listener}], "hostnames": [hostname]}


def redirect_spec(gateway: str, hostname: str) -> dict[str, Any]:
    """Spec of the HTTPRoute of the HTTP listener: it serves nothing, and leads a browser that opened the bare name to HTTPS for good.

    Every other path gets 404 (Gateway API, HTTPRouteRule.matches: no rule matches). After a 301, clients repeat a POST as a GET, and its
    key has crossed the network in clear text each time: an error is noticed at the first call.
    """
    redirect = {"type": "RequestRedirect", "requestRedirect": {"scheme": "https", "statusCode": 301}}
    bare = {"path": {"type": "Exact", "value": "/"}}
    return {**_attached(gateway, hostname, HTTP), "rules": [{"matches": [bare], "filters": [redirect]}]}


def service_reference(service: str) -> dict[str, Any]:
    """A Service as a policy's target, and with a port as a route's backend."""
    return {"group": "", "kind": "Service", "name": service}


def route_spec(
    gateway: str, backends: Sequence[Mapping[str, Any]], *, v1_only: bool, hostname: str | None = None
) -> dict[str, Any]:
    """Spec of the HTTPRoute. `v1_only` with an API key: vLLM does not require the key on other paths."""
    return {
        **_attached(gateway, hostname, HTTPS),
        "rules": [
            {
                "matches": [{"path": {"type": "PathPrefix", "value": "/v1" if v1_only else "/"}}],
                "backendRefs": [dict(backend) for backend in backends],
            }
        ],
    }


def health_check_policy(pool: Mapping[str, str], port: int = names.HTTP_PORT) -> dict[str, Any]:
    """Spec of the HealthCheckPolicy. Without it the load balancer checks `/`, gets 404 and has no healthy replica.

    The interval is longer than the chart's two seconds: /health is slow on a busy server, and a replica removed
    for that would shift its load to the others.
    """
    return {
        "targetRef": dict(pool),
        "default": {
            "checkIntervalSec": HEALTH_PERIOD_SECONDS,
            "timeoutSec": HEALTH_PERIOD_SECONDS,
            "healthyThreshold": 1,
            "unhealthyThreshold": 3,
            "config": {
                "type": "HTTP",
                # GKE refuses a port unless it is declared as fixed.
                "httpHealthCheck": {
                    "requestPath": "/health",
                    "port": port,
                    "portSpecification": "USE_FIXED_PORT",
                },
            },
        },
    }


def backend_policy(pool: Mapping[str, str], drain_seconds: int) -> dict[str, Any]:
    """Spec of the GCPBackendPolicy: the stream timeout. GKE's default of 30 s cuts off most responses."""
    return {
        "targetRef": dict(pool),
        "default": {
            "timeoutSec": STREAM_SECONDS,
            "connectionDraining": {"drainingTimeoutSec": drain_seconds},
            "logging": {"enabled": True, "sampleRate": LOG_SAMPLE_RATE},
        },
    }


def _slug(kind: str) -> str:
    return {"HealthCheckPolicy": "health-check", "GCPBackendPolicy": "backend"}[kind]
