from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fleet.preview.offline import open_stack, record_stack
from fleet.preview.record.recording import STACK_REFERENCE_TYPE, RecordedResource, Recording
from lab.cloud.gateway_prerequisites import GatewayPrerequisites, prerequisites_of

NETWORK = "https://www.googleapis.com/compute/v1/projects/p/global/networks/vllm"
SERVICE = ("gcp:projects/service:Service", {"service": "networkservices.googleapis.com"})
SUBNET = (
    "gcp:compute/subnetwork:Subnetwork",
    {"purpose": "REGIONAL_MANAGED_PROXY", "role": "ACTIVE", "region": "europe-west4", "network": NETWORK},
)
CLUSTER = (
    "gcp:container/cluster:Cluster",
    {"location": "europe-west4", "network": NETWORK, "gatewayApiConfig": {"channel": "CHANNEL_STANDARD"}},
)
Resource = tuple[str, dict[str, Any]]


def recording(*resources: Resource) -> Recording:
    made = tuple(
        RecordedResource(urn=f"urn:{number}", type=type_, name=str(number), inputs=inputs)
        for number, (type_, inputs) in enumerate(resources)
    )
    return Recording(project="p", stack="s", mode="known", resources=made, outputs={}, diagnostics=())


def changed(resource: Resource, **inputs: Any) -> Resource:
    return resource[0], {**resource[1], **inputs}


def test_a_platform_with_everything_lacks_nothing() -> None:
    found = prerequisites_of(recording(SERVICE, SUBNET, CLUSTER))
    assert found == GatewayPrerequisites()
    assert found.missing("gke-l7-rilb") == ()


@pytest.mark.parametrize(
    ("resources", "says"),
    [
        ((SUBNET, CLUSTER), "networkservices.googleapis.com"),
        ((changed(SERVICE, service="compute.googleapis.com"), SUBNET, CLUSTER), "networkservices.googleapis.com"),
        ((SERVICE, CLUSTER), "no proxy-only subnet"),
        ((SERVICE, changed(SUBNET, role="BACKUP"), CLUSTER), "no proxy-only subnet"),
        ((SERVICE, changed(SUBNET, purpose="PRIVATE"), CLUSTER), "no proxy-only subnet"),
        ((SERVICE, changed(SUBNET, region="us-central1"), CLUSTER), "no proxy-only subnet"),
        ((SERVICE, changed(SUBNET, network="projects/p/global/networks/other"), CLUSTER), "no proxy-only subnet"),
        (
            (SERVICE, SUBNET, changed(CLUSTER, gatewayApiConfig={"channel": "CHANNEL_DISABLED"})),
            "no Gateway controller",
        ),
    ],
)
def test_what_is_missing_is_named(resources: tuple[Resource, ...], says: str) -> None:
    (lack,) = prerequisites_of(recording(*resources)).missing("gke-l7-rilb")
    assert says in lack


def test_an_existing_network_may_have_the_subnet() -> None:
    named = changed(CLUSTER, network="projects/host/global/networks/office")
    assert prerequisites_of(recording(SERVICE, named)).proxy_only_subnet


def test_an_autopilot_cluster_that_says_nothing_has_the_controller() -> None:
    silent = changed(CLUSTER, gatewayApiConfig=None)
    assert prerequisites_of(recording(SERVICE, SUBNET, silent)).gateway_channel


def test_a_global_class_needs_no_proxy_only_subnet_and_an_unknown_one_is_never_programmed() -> None:
    without = GatewayPrerequisites(proxy_only_subnet=False)
    assert without.missing("gke-l7-global-external-managed") == ()
    (lack,) = without.missing("nginx")
    assert "gke-l7-rilb" in lack


def test_somebody_elses_platform_is_taken_to_have_what_is_needed() -> None:
    guest = recording((STACK_REFERENCE_TYPE, {"name": "platform"}))
    assert prerequisites_of(guest) == GatewayPrerequisites()
    assert prerequisites_of(recording()) != GatewayPrerequisites()


def test_the_gateway_stack_brings_its_own() -> None:
    opened = open_stack(Path(__file__).parents[3], "gateway")
    assert prerequisites_of(record_stack(opened, "known")) == GatewayPrerequisites()
