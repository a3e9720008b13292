"""The Gateway controller over mirrors that a test feeds: when a route's weights hold, and objects that go while it looks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from lab.cloud.gateway import HEALTH_CHECK_POLICY, HTTP_ROUTE, INFERENCE_POOL, GatewayController
from lab.cloud.gateway_prerequisites import GatewayPrerequisites
from lab.cloud.timings import Timings
from lab.control_plane.api import GATEWAY, Kind, Manifest
from tests.lab.cloud.fake_world import FakeApi, feed, make_world, until

Both = tuple[GatewayController, FakeApi]


@pytest.fixture
def both() -> Iterator[Both]:
    """A controller that is not started: nothing but the test feeds its mirrors."""
    world, api = make_world()
    controller = GatewayController(world, GatewayPrerequisites(), Timings())
    yield controller, api
    controller._agenda.close()


def made(kind: Kind, name: str, generation: int = 1, **spec: Any) -> Manifest:
    metadata = {
        "name": name,
        "namespace": "vllm",
        "uid": f"{kind.kind}-{name}",
        "generation": generation,
        "creationTimestamp": "2026-04-01T00:00:00Z",
    }
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, "spec": spec}


def pool(name: str) -> Manifest:
    return made(INFERENCE_POOL, name, selector={"matchLabels": {"app": name}})


def route(generation: int, **weights: int) -> Manifest:
    backends = [{"kind": "InferencePool", "name": name, "weight": weight} for name, weight in weights.items()]
    return made(HTTP_ROUTE, "a", generation, parentRefs=[{"name": "door"}], rules=[{"backendRefs": backends}])


def test_weights_hold_from_when_the_changed_route_takes_effect(both: Both) -> None:
    controller, _ = both

    def weights() -> dict[str, tuple[int, Any]]:
        split = controller.split("door", "vllm", "/v1/completions")
        return {backend.name: (backend.weight, backend.selector) for backend in split}

    assert weights() == {}
    feed(controller._pools, "added", pool("servers"))
    feed(controller._routes, "added", route(1, servers=95, canary=5))
    feed(controller._gateways, "added", made(GATEWAY, "door", gatewayClassName="gke-l7-rilb", listeners=[]))
    until(lambda: weights() == {"servers": (95, {"app": "servers"}), "canary": (5, None)}, "the route's weights")
    feed(controller._pools, "added", pool("canary"))
    feed(controller._routes, "modified", route(2, servers=100, canary=0))
    until(lambda: weights() == {"servers": (100, {"app": "servers"}), "canary": (0, {"app": "canary"})}, "the halt's")
    feed(controller._routes, "deleted", route(2))
    until(lambda: weights() == {}, "no route")


def test_a_policy_that_goes_while_it_is_looked_at_is_judged_by_what_was_listed(
    both: Both, monkeypatch: pytest.MonkeyPatch
) -> None:
    controller, api = both
    policies = controller._policies[HEALTH_CHECK_POLICY]
    policy = made(HEALTH_CHECK_POLICY, "servers", targetRef={"kind": "InferencePool", "name": "servers"})
    feed(controller._pools, "added", pool("servers"))
    listings = iter([[policy]])
    monkeypatch.setattr(policies, "all", lambda: next(listings, []))
    controller._look()
    [(_, name, body, _)] = [patch for patch in api.patches if patch[0] == str(HEALTH_CHECK_POLICY)]
    [condition] = body["status"]["conditions"]
    assert (name, condition["status"]) == ("servers", "True")
