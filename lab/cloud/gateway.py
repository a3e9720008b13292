"""Simulated GKE Gateway controller: Gateways, routes, pools and policies become ready when their prerequisites exist.

As in GKE, a Gateway without its prerequisites stays unprogrammed without a message.
"""

from __future__ import annotations

import contextlib
import threading
from typing import Final

from lab.cloud import gateway_status
from lab.cloud.agenda import Agenda
from lab.cloud.disk_reports import timestamp
from lab.cloud.gateway_prerequisites import (
    CLASSES,
    GLOBAL,
    REGIONAL,
    GatewayPrerequisites,
    Names,
    missing_names,
    named_address,
)
from lab.cloud.gateway_status import CONTROLLER, GOOD, POOL_GROUP, Verdict
from lab.cloud.timings import Timings
from lab.cloud.world import World
from lab.control_plane.api import GATEWAY, SERVICE, ApiUnreachableError, ClusterApi, Kind, Manifest
from lab.control_plane.mirror import Change, Mirror

GATEWAY_CLASS: Final = Kind("gateway.networking.k8s.io/v1", "GatewayClass")
HTTP_ROUTE: Final = Kind("gateway.networking.k8s.io/v1", "HTTPRoute")
INFERENCE_POOL: Final = Kind("inference.networking.k8s.io/v1", "InferencePool")
HEALTH_CHECK_POLICY: Final = Kind("networking.gke.io/v1", "HealthCheckPolicy")
BACKEND_POLICY: Final = Kind("networking.gke.io/v1", "GCPBackendPolicy")
POLICIES: Final = (HEALTH_CHECK_POLICY, BACKEND_POLICY)

FIELD_MANAGER: Final = "gke-platform-stand-in"
INTERNAL_ADDRESSES: Final = "10.0.15"
"""For internal classes. Assumed: the upper end of the nodes' subnet."""
EXTERNAL_ADDRESSES: Final = "203.0.113"
"""For external classes: reserved for documentation (RFC 5737)."""
ROUTE_SECONDS: Final = 60.0
"""From a programmed Gateway to its route's status, and from a changed route to its effect. Assumed: a minute for the URL map."""

Key = tuple[str, str]


class GatewayController:
    """A context manager: on entry it creates the GatewayClasses and starts; on exit it stops."""

    def __init__(
        self, world: World, prerequisites: GatewayPrerequisites, timings: Timings, names: Names | None = None
    ) -> None:
        self._world, self._timings, self._prerequisites, self._names = world, timings, prerequisites, names
        api: ClusterApi = world.api
        self._agenda = Agenda(world.clock, "gateway", workers=1)  # One at a time: statuses depend on each other.
        self._gateways = Mirror(api, GATEWAY, listeners=(self._on_change,))
        self._routes = Mirror(api, HTTP_ROUTE, listeners=(self._on_change,))
        self._pools = Mirror(api, INFERENCE_POOL, listeners=(self._on_change,))
        self._policies = {kind: Mirror(api, kind, listeners=(self._on_change,)) for kind in POLICIES}
        self._services = Mirror(api, SERVICE, listeners=(self._on_service,))
        self._stack = contextlib.ExitStack()
        self._programmed: dict[Key, str] = {}
        """Address of each programmed Gateway."""
        self._served: dict[Key, Manifest] = {}
        """Routes in effect, as they were when they took effect."""
        self._under_way: set[tuple[str, Key]] = set()
        self._classes: list[str] = []
        """GatewayClasses created here."""
        self._lock = threading.Lock()

    def __enter__(self) -> GatewayController:
        if self._prerequisites.gateway_channel:
            for name in CLASSES:
                self._make_class(name)
        for mirror in (self._services, self._pools, *self._policies.values(), self._gateways, self._routes):
            self._stack.enter_context(mirror)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()
        self._agenda.close()
        with contextlib.suppress(ApiUnreachableError):  # The cluster may be gone already.
            while self._classes:
                self._world.api.delete(GATEWAY_CLASS, self._classes.pop())

    def set_prerequisites(self, prerequisites: GatewayPrerequisites) -> None:
        """Change the prerequisites; waiting Gateways continue."""
        self._prerequisites = prerequisites
        self._agenda.soon(self._look)

    def why_not_programmed(self) -> str:
        """Why Gateways are not programmed, one line each; empty if none is blocked."""
        lines = []
        for gateway in self._gateways.all():
            name = gateway["metadata"]["name"]
            if _key(gateway) in self._programmed:
                continue
            missing = self._missing(gateway)
            if missing:
                lines.append(f"Gateway {name} is not programmed, and GKE does not report why: {'; '.join(missing)}")
        return "\n".join(lines)

    def _missing(self, gateway: Manifest) -> tuple[str, ...]:
        return (
            *self._prerequisites.missing(gateway["spec"]["gatewayClassName"]),
            *(() if self._names is None else missing_names(gateway, self._names)),
        )

    # Reconciliation

    def _on_change(self, change: Change, manifest: Manifest, before: Manifest | None) -> None:
        if change == "deleted":
            with self._lock:
                key = _key(manifest)
                if manifest["kind"] == GATEWAY.kind:
                    self._programmed.pop(key, None)
                self._served.pop(key, None)
        elif before is not None and before["metadata"].get("generation") == manifest["metadata"].get("generation"):
            return  # Only the status changed.
        self._agenda.soon(self._look)

    def _on_service(self, change: Change, service: Manifest, before: Manifest | None) -> None:  # noqa: ARG002
        if change != "modified":
            self._agenda.soon(self._look)

    def _look(self) -> None:
        """Update all statuses and start what is ready to start."""
        for gateway in self._gateways.all():
            self._look_at_gateway(gateway)
        for route in self._routes.all():
            self._look_at_route(route)
        for pool in self._pools.all():
            self._look_at_pool(pool)
        for kind in POLICIES:
            policies = self._policies[kind].all()
            for policy in policies:
                verdict = self._judge_policy(kind, policy, policies)
                self._write(kind, policy, gateway_status.policy_status(policy, verdict, now=timestamp()))

    def _look_at_gateway(self, gateway: Manifest) -> None:
        key, class_name = _key(gateway), gateway["spec"]["gatewayClassName"]
        if class_name not in CLASSES or not self._prerequisites.gateway_channel:
            return  # No controller: the object keeps the CRD's default status "Waiting for controller".
        if key not in self._programmed and not self._missing(gateway):
            self._start("program", key, self._timings.gateway_program_seconds)
        every = self._routes.all()
        routes = {
            listener["name"]: sum(self._is_parent(gateway, route, listener["name"]) for route in every)
            for listener in gateway["spec"].get("listeners") or ()
        }
        address = self._programmed.get(key, "")
        status = gateway_status.gateway_status(gateway, address=address, routes=routes, now=timestamp())
        self._write(GATEWAY, gateway, status)

    def _look_at_route(self, route: Manifest) -> None:
        key = _key(route)
        parents = [gateway for gateway in self._gateways.all() if self._is_parent(gateway, route)]
        if not any(_key(gateway) in self._programmed for gateway in parents):
            return
        served = self._served.get(key)
        if served is None or served["metadata"]["generation"] != route["metadata"]["generation"]:
            self._start("serve", key, ROUTE_SECONDS)
        if served is None:
            return
        verdict = self._judge_route(route, parents)
        references = list(route["spec"].get("parentRefs") or ())
        self._write(HTTP_ROUTE, route, gateway_status.route_status(route, references, verdict, now=timestamp()))

    def _look_at_pool(self, pool: Manifest) -> None:
        routes = [route for route in self._routes.all() if _key(route) in self._served and _leads_to(route, pool)]
        gateways = [
            gateway for gateway in self._gateways.all() if any(self._is_parent(gateway, route) for route in routes)
        ]
        if gateways:
            verdict = self._judge_pool(pool)
            self._write(INFERENCE_POOL, pool, gateway_status.pool_status(pool, gateways, verdict, now=timestamp()))

    # Checks

    def _judge_route(self, route: Manifest, parents: list[Manifest]) -> Verdict:
        for backend in _backends(route):
            name, namespace = backend["name"], _namespace_of(backend, route)
            if backend.get("kind", "Service") == "InferencePool":
                if any(gateway["spec"]["gatewayClassName"] in GLOBAL for gateway in parents):
                    return Verdict("InvalidKind", f"InferencePool is served by {', '.join(REGIONAL)} only")
                found = self._pools.get(name, namespace)
            else:
                found = self._services.get(name, namespace)
            if found is None:
                return Verdict("BackendNotFound", f"{backend.get('kind', 'Service')} {namespace}/{name} not found")
        return GOOD

    def _judge_pool(self, pool: Manifest) -> Verdict:
        picker = pool["spec"].get("endpointPickerRef") or {}
        namespace = pool["metadata"]["namespace"]
        if self._services.get(picker.get("name", ""), namespace) is None:
            return Verdict("InvalidExtensionRef", f"Service {namespace}/{picker.get('name')} not found")
        return GOOD

    def _judge_policy(self, kind: Kind, policy: Manifest, policies: list[Manifest]) -> Verdict:
        """Per target only the oldest policy of a kind is attached; the target must exist."""
        target, namespace = policy["spec"]["targetRef"], policy["metadata"]["namespace"]
        mirror = self._pools if target["kind"] == "InferencePool" else self._services
        if mirror.get(target["name"], namespace) is None:
            return Verdict("TargetNotFound", f"{target['kind']} {namespace}/{target['name']} does not exist")
        rivals = [
            one for one in policies if one["metadata"]["namespace"] == namespace and one["spec"]["targetRef"] == target
        ]
        oldest = min(rivals, key=lambda rival: (rival["metadata"]["creationTimestamp"], rival["metadata"]["name"]))
        if oldest["metadata"]["name"] != policy["metadata"]["name"]:
            other = oldest["metadata"]["name"]
            return Verdict("Conflicted", f"{target['kind']} {target['name']} has a {kind} already: {other}")
        return GOOD

    def _is_parent(self, gateway: Manifest, route: Manifest, listener: str | None = None) -> bool:
        """Whether the route refers to this Gateway, or to this listener of it, and the Gateway allows its namespace."""
        namespace = route["metadata"]["namespace"]
        named = any(
            ref["name"] == gateway["metadata"]["name"]
            and ref.get("namespace", namespace) == gateway["metadata"]["namespace"]
            and (listener is None or ref.get("sectionName", listener) == listener)
            for ref in route["spec"].get("parentRefs") or ()
        )
        if not named:
            return False
        allowed = {
            ((listener.get("allowedRoutes") or {}).get("namespaces") or {}).get("from", "Same")
            for listener in gateway["spec"].get("listeners") or ()
        }
        return "All" in allowed or namespace == gateway["metadata"]["namespace"]

    # Actions

    def _start(self, what: str, key: Key, seconds: float) -> None:
        with self._lock:
            if (what, key) in self._under_way:
                return
            self._under_way.add((what, key))
        self._agenda.after(seconds, self._done, what, key)

    def _done(self, what: str, key: Key) -> None:
        namespace, name = key
        with self._lock:
            self._under_way.discard((what, key))
        mirror = self._gateways if what == "program" else self._routes
        found = mirror.get(name, namespace)
        if found is None:
            return
        if what == "serve":
            with self._lock:
                self._served[key] = found
        elif not self._missing(found):
            self._programmed[key] = self._new_address(found)
        self._look()

    def _new_address(self, gateway: Manifest) -> str:
        name = named_address(gateway)
        if name is not None and self._names is not None and (reserved := self._names.address(name)):
            return reserved
        inside = gateway["spec"]["gatewayClassName"] == "gke-l7-rilb"
        prefix = INTERNAL_ADDRESSES if inside else EXTERNAL_ADDRESSES
        taken = set(self._programmed.values())
        return next(f"{prefix}.{last}" for last in range(200, 255) if f"{prefix}.{last}" not in taken)

    def _write(self, kind: Kind, manifest: Manifest, status: Manifest) -> None:
        metadata = manifest["metadata"]
        mirrored = manifest.get("status") or {}
        if gateway_status.same(mirrored, status):
            return
        body = {"status": gateway_status.with_old_times(mirrored, status)}
        self._world.api.patch(kind, metadata["name"], metadata["namespace"], body, subresource="status")

    def _make_class(self, name: str) -> None:
        self._classes.append(name)
        made = self._world.api.apply(
            {
                "apiVersion": GATEWAY_CLASS.api_version,
                "kind": GATEWAY_CLASS.kind,
                "metadata": {"name": name},
                "spec": {"controllerName": CONTROLLER},
            },
            field_manager=FIELD_MANAGER,
            force=True,
        )
        accepted = gateway_status.condition(made, "Accepted", "True", "Accepted", now=timestamp())
        body = {"status": {"conditions": [accepted]}}
        self._world.api.patch(GATEWAY_CLASS, name, None, body, subresource="status")


def _key(manifest: Manifest) -> Key:
    return manifest["metadata"]["namespace"], manifest["metadata"]["name"]


def _namespace_of(backend: Manifest, route: Manifest) -> str:
    return str(backend.get("namespace", route["metadata"]["namespace"]))


def _backends(route: Manifest) -> list[Manifest]:
    return [backend for rule in route["spec"].get("rules") or () for backend in rule.get("backendRefs") or ()]


def _leads_to(route: Manifest, pool: Manifest) -> bool:
    return any(
        backend.get("group") == POOL_GROUP
        and backend["name"] == pool["metadata"]["name"]
        and _namespace_of(backend, route) == pool["metadata"]["namespace"]
        for backend in _backends(route)
    )
