"""The Gateway controller over mirrors that a test feeds: what a Gateway waits for, and objects that go while it looks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from lab.cloud.gateway import HEALTH_CHECK_POLICY, INFERENCE_POOL, GatewayController
from lab.cloud.gateway_prerequisites import CertificateState, GatewayPrerequisites
from lab.cloud.timings import Timings
from lab.control_plane.api import GATEWAY, Kind, Manifest
from tests.lab.cloud.fake_world import FakeApi, feed, make_world, until
from workloads.gateway.gateway import gateway_spec

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


class Names:
    """Addresses and certificates that a test sets."""

    def __init__(self) -> None:
        self.addresses: dict[str, str] = {}
        self.certificates: dict[str, CertificateState] = {}

    def address(self, name: str) -> str | None:
        return self.addresses.get(name)

    def certificate(self, name: str) -> CertificateState | None:
        return self.certificates.get(name)


@pytest.fixture
def named() -> Iterator[tuple[GatewayController, FakeApi, Names]]:
    """A controller whose project has addresses and certificates."""
    (world, api), names = make_world(), Names()
    controller = GatewayController(world, GatewayPrerequisites(), Timings(), names)
    yield controller, api, names
    controller._agenda.close()


def secure(name: str = "door") -> Manifest:
    spec = gateway_spec("gke-l7-rilb", address="door-address", certificate="door-certificate")
    return made(GATEWAY, name, **spec)


def test_a_gateway_waits_for_the_address_and_the_certificate_that_it_names(
    named: tuple[GatewayController, FakeApi, Names],
) -> None:
    controller, _, names = named
    feed(controller._gateways, "added", secure())
    until(lambda: "no static address door-address" in controller.why_not_programmed(), "the missing address")
    names.addresses["door-address"] = "10.0.0.9"
    assert "no certificate door-certificate" in controller.why_not_programmed()
    names.certificates["door-certificate"] = "PROVISIONING"
    feed(controller._gateways, "modified", {**secure(), "metadata": secure()["metadata"] | {"generation": 2}})
    until(lambda: controller._programmed.get(("vllm", "door")) == "10.0.0.9", "the address that was reserved")


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
