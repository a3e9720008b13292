"""The Gateway's part against the real definitions, and the chart's objects under the namespace's own rules."""

from __future__ import annotations

import dataclasses
import zlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from lab.cloud.chart import MODULE, Release
from lab.cloud.gateway import (
    BACKEND_POLICY,
    GATEWAY_CLASS,
    HEALTH_CHECK_POLICY,
    HTTP_ROUTE,
    INFERENCE_POOL,
    GatewayController,
)
from lab.cloud.gateway_prerequisites import CLASSES, GatewayPrerequisites
from lab.cloud.timings import Timings
from lab.cloud.world import World
from lab.control_plane.api import EVENT, GATEWAY, NAMESPACE, POD, ApiRefusedError, ClusterApi, Kind, Manifest
from lab.control_plane.mirror import Mirror
from lab.control_plane.modules import pinned
from lab.results.clock import Clock
from settings.derived.drain import drain
from settings.derived.traffic import traffic
from settings.sections.gateway import GATEWAY_NAME
from tests.support.settings import make_settings
from workloads.gateway.gateway import backend_policy, gateway_spec, health_check_policy, route_spec
from workloads.gateway.values import CHART, chart_values
from workloads.names import POOL_GROUP
from workloads.namespace import pod_security_labels

if TYPE_CHECKING:
    from lab.cloud.chart import Charts
    from lab.control_plane.cluster import ControlPlane

pytestmark = pytest.mark.slow
WAIT = 30.0
SETTINGS = make_settings("gateway", gateway={"enabled": True})
POOL = SETTINGS.gateway.pool
TARGET = {"group": POOL_GROUP, "kind": "InferencePool", "name": POOL}
DRAIN = drain(SETTINGS.server.drain_seconds, SETTINGS.serving.engine.api_servers)


@pytest.fixture(scope="module")
def platform(control_plane: ControlPlane, custom_resources: object) -> ClusterApi:
    assert custom_resources
    return control_plane.api


Start = Callable[..., GatewayController]


class Place:
    """A namespace with the program's own pod security, and a Gateway controller on demand."""

    def __init__(self, api: ClusterApi, charts: Charts, name: str) -> None:
        self.api, self.charts, self.name = api, charts, name
        self.clock = Clock(600.0)
        labels = pod_security_labels(traffic(SETTINGS).pod_security)
        api.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}})

    def controller(self, **missing: bool) -> GatewayController:
        world = World(self.api, self.clock)
        return GatewayController(world, dataclasses.replace(GatewayPrerequisites(), **missing), Timings())

    def apply(self, kind: Kind, name: str, spec: Manifest) -> Manifest:
        metadata = {"name": name, "namespace": self.name}
        return self.api.apply({"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, "spec": spec})

    def chart(self, **values: Any) -> None:
        for one in self.chart_of(**values):
            self.api.apply(one, field_manager="helm")

    def chart_of(self, **values: Any) -> list[Manifest]:
        given = {**chart_values(SETTINGS.server.name, SETTINGS.gateway.epp), **values}
        inputs = {"chart": CHART, "version": pinned()[MODULE], "values": given}
        return self.charts.objects(Release(name=POOL, namespace=self.name, inputs=inputs))

    def everything(self) -> None:
        self.apply(GATEWAY, "inference-gateway", gateway_spec(SETTINGS.gateway.gateway_class))
        self.chart()
        self.apply(HEALTH_CHECK_POLICY, POOL, health_check_policy(TARGET))
        self.apply(BACKEND_POLICY, POOL, backend_policy(TARGET, DRAIN.grace_seconds))
        self.apply(HTTP_ROUTE, POOL, route_spec(GATEWAY_NAME, [TARGET], v1_only=False))

    def until(self, kind: Kind, name: str, holds: Callable[[Manifest], bool]) -> Manifest:
        with Mirror(self.api, kind, namespace=self.name) as mirror:

            def look(_: Mirror) -> Manifest | None:
                one = mirror.get(name, self.name)
                return one if one is not None and holds(one) else None

            found = mirror.wait_for(look, WAIT)
        assert found is not None, self.api.get(kind, name, self.name)
        return found


@pytest.fixture
def place(platform: ClusterApi, charts: Charts, request: pytest.FixtureRequest) -> Iterator[Place]:
    name = f"gateway-{zlib.crc32(request.node.name.encode()) % 10**6}"
    yield Place(platform, charts, name)
    platform.delete(NAMESPACE, name)


def holds(type_: str, status: str = "True") -> Callable[[Manifest], bool]:
    def check(manifest: Manifest) -> bool:
        conditions = (manifest.get("status") or {}).get("conditions") or ()
        return any(found["type"] == type_ and found["status"] == status for found in conditions)

    return check


def parent_holds(type_: str, status: str = "True") -> Callable[[Manifest], bool]:
    def check(manifest: Manifest) -> bool:
        parents = (manifest.get("status") or {}).get("parents") or ()
        return any(holds(type_, status)({"status": parent}) for parent in parents)

    return check


def test_with_all_it_needs_gateway_route_pool_and_policies_come_to_life(place: Place) -> None:
    with place.controller() as controller:
        began = place.clock.now_seconds()
        place.everything()
        gateway = place.until(GATEWAY, "inference-gateway", holds("Programmed"))
        assert place.clock.now_seconds() - began >= 240
        assert gateway["status"]["addresses"][0]["value"].startswith("10.")
        route = place.until(HTTP_ROUTE, POOL, parent_holds("ResolvedRefs"))
        assert route["status"]["parents"][0]["controllerName"] == "networking.gke.io/gateway"
        place.until(INFERENCE_POOL, POOL, parent_holds("ResolvedRefs"))
        for kind in (HEALTH_CHECK_POLICY, BACKEND_POLICY):
            place.until(kind, POOL, holds("Attached"))
        assert controller.why_not_programmed() == ""


def test_without_the_subnet_it_stays_silent_until_the_subnet_comes(place: Place) -> None:
    with place.controller(proxy_only_subnet=False) as controller:
        place.everything()
        gateway = place.until(GATEWAY, "inference-gateway", holds("Programmed", "False"))
        assert all(condition["message"] == "" for condition in gateway["status"]["conditions"])
        assert not gateway["status"].get("addresses")
        why = controller.why_not_programmed()
        assert "GKE" in why
        assert "proxy-only subnet" in why
        controller.set_prerequisites(GatewayPrerequisites())
        place.until(GATEWAY, "inference-gateway", holds("Programmed"))
        assert controller.why_not_programmed() == ""


def test_without_the_api_nothing_is_programmed_and_without_the_channel_nobody_looks(place: Place) -> None:
    with place.controller(network_services_api=False) as controller:
        place.apply(GATEWAY, "inference-gateway", gateway_spec(SETTINGS.gateway.gateway_class))
        place.until(GATEWAY, "inference-gateway", holds("Programmed", "False"))
        assert "networkservices.googleapis.com is not enabled" in controller.why_not_programmed()
        assert place.api.get(GATEWAY_CLASS, "gke-l7-rilb") is not None
    assert [place.api.get(GATEWAY_CLASS, name) for name in CLASSES] == [None] * len(CLASSES)
    with place.controller(gateway_channel=False) as controller:
        place.apply(GATEWAY, "other-gateway", gateway_spec(SETTINGS.gateway.gateway_class))
        place.until(GATEWAY, "other-gateway", holds("Programmed", "Unknown"))
        assert "gatewayApiConfig.channel" in controller.why_not_programmed()
        assert place.api.get(GATEWAY_CLASS, "gke-l7-rilb") is None


def test_the_charts_own_policies_and_the_programs_get_into_each_others_way(place: Place) -> None:
    with place.controller():
        # Its health check has a port without portSpecification, which GKE's definition refuses since April 2026.
        with pytest.raises(ApiRefusedError, match="USE_FIXED_PORT go together"):
            place.chart(provider={"name": "gke"})
        for one in place.chart_of(provider={"name": "gke"}):
            if one["kind"] != "HealthCheckPolicy":
                place.api.apply(one, field_manager="helm")
        place.until(BACKEND_POLICY, POOL, holds("Attached"))
        place.apply(BACKEND_POLICY, "streams", backend_policy(TARGET, DRAIN.grace_seconds))
        place.until(BACKEND_POLICY, "streams", holds("Attached", "False"))


def test_a_route_to_a_missing_pool_is_not_resolved(place: Place) -> None:
    with place.controller():
        place.apply(GATEWAY, "inference-gateway", gateway_spec(SETTINGS.gateway.gateway_class))
        place.apply(HTTP_ROUTE, POOL, route_spec(GATEWAY_NAME, [TARGET], v1_only=False))
        place.until(HTTP_ROUTE, POOL, parent_holds("ResolvedRefs", "False"))
        place.chart()
        place.until(HTTP_ROUTE, POOL, parent_holds("ResolvedRefs"))


def test_the_picker_is_let_in_by_the_gateway_stacks_pod_security_and_not_by_the_other(place: Place) -> None:
    place.chart()
    with Mirror(place.api, POD, namespace=place.name) as pods:
        found = pods.wait_for(lambda mirror: mirror.all(), WAIT)
    assert found
    assert found[0]["metadata"]["labels"]["inferencepool"] == f"{POOL}-epp"
    restricted = f"{place.name}-restricted"
    labels = pod_security_labels(traffic(make_settings("plain")).pod_security)
    assert labels["pod-security.kubernetes.io/enforce"] == "restricted"
    place.api.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": restricted, "labels": labels}})
    place.name = restricted
    place.chart()
    with Mirror(place.api, EVENT, namespace=restricted) as events:
        refused = events.wait_for(
            lambda m: [one["message"] for one in m.all() if one["reason"] == "FailedCreate"], WAIT
        )
    place.api.delete(NAMESPACE, restricted)
    place.name = restricted.removesuffix("-restricted")
    assert refused
    assert 'violates PodSecurity "restricted' in refused[0]
