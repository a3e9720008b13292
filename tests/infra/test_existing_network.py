"""A cluster in a VPC that exists: what is named, what is made beside it, what is never touched."""

from __future__ import annotations

from typing import Any

import pytest

from facts.finding import Finding
from settings.checks.platform import platform_problems
from settings.derived.google_cloud_needs import required_permissions
from tests.support.recorded import GATEWAY, goes_before, only, recorded_platform
from tests.support.rows import each_row
from tests.support.settings import make_settings

NAMES = {"vpc": "office", "subnet": "gke-west", "podRange": "gke-pods", "serviceRange": "gke-services"}
RANGES = {"nodeCidr": "10.1.0.0/20", "podCidr": "10.64.0.0/14", "serviceCidr": "10.32.0.0/20"}
OWN: dict[str, Any] = {**RANGES, "existing": NAMES}
SHARED: dict[str, Any] = {**RANGES, "existing": {**NAMES, "project": "host-project"}}
WITH_PROXIES: dict[str, Any] = {
    **RANGES,
    "existing": {**NAMES, "project": "host-project", "proxyOnlySubnet": "proxies"},
    "proxyOnly": {"cidr": "10.9.0.0/23"},
}


@pytest.mark.parametrize(("network", "project"), [(OWN, "fleet-tests"), (SHARED, "host-project")])
def test_the_cluster_names_the_vpc_its_subnet_and_its_ranges(network: dict[str, Any], project: str) -> None:
    cluster = only(recorded_platform(network=network), "container/cluster:Cluster").inputs
    assert cluster["network"] == f"projects/{project}/global/networks/office"
    assert cluster["subnetwork"] == f"projects/{project}/regions/europe-west4/subnetworks/gke-west"
    assert cluster["ipAllocationPolicy"] == {
        "clusterSecondaryRangeName": "gke-pods",
        "servicesSecondaryRangeName": "gke-services",
    }


@pytest.mark.parametrize("network", [OWN, SHARED, WITH_PROXIES])
def test_nothing_of_the_network_is_registered_so_nothing_of_it_can_be_changed_or_deleted(network: Any) -> None:
    recording = recorded_platform(network=network, gateway=GATEWAY if network is WITH_PROXIES else {"enabled": False})
    assert [one.name for one in recording.resources if one.type.startswith("gcp:compute/")] == []
    naming = {one.type for one in recording.resources if one.custom and "networks/office" in str(one.inputs)}
    assert naming == {"gcp:container/cluster:Cluster"}


def test_a_missing_proxy_only_subnet_is_made_with_its_rule_in_the_vpcs_project_and_outlives_the_gateway() -> None:
    recording = recorded_platform(network={**SHARED, "proxyOnly": {"cidr": "10.9.0.0/23"}}, gateway=GATEWAY)
    subnet = only(recording, "compute/subnetwork:Subnetwork")
    rule = only(recording, "compute/firewall:Firewall")
    for made in (subnet, rule):
        assert made.inputs["project"] == "host-project"
        assert made.inputs["network"] == "projects/host-project/global/networks/office"
    assert subnet.inputs["ipCidrRange"] == "10.9.0.0/23"
    assert rule.inputs["destinationRanges"] == ["10.64.0.0/14"]
    assert goes_before(recording, "cluster-kubernetes", subnet.name)
    assert recording.outputs["ranges"]["proxies"] == "10.9.0.0/23"


def test_guests_and_network_policies_learn_the_existing_ranges() -> None:
    ranges = recorded_platform(network=WITH_PROXIES, gateway=GATEWAY).outputs["ranges"]
    assert ranges == dict(zip(("nodes", "pods", "services", "proxies"), (*RANGES.values(), "10.9.0.0/23"), strict=True))


def _problems(network: dict[str, Any], **sections: Any) -> list[Finding]:
    written = {key: value for key, value in network.items() if value is not None}
    return [one for one in platform_problems(make_settings(network=written, **sections)) if one.severity == "error"]


@each_row(
    ("network", "id_", "subject"),
    [
        ({**OWN, "podCidr": None}, "existing-network-without-range", "vllm-fleet:network.podCidr"),
        ({**WITH_PROXIES, "proxyOnly": {}}, "existing-network-without-range", "vllm-fleet:network.proxyOnly.cidr"),
        # Pods inside nodes, and too few.
        ({**OWN, "podCidr": "10.1.8.0/21"}, "ranges-overlap", "vllm-fleet:network.podCidr"),
        ({**OWN, "podCidr": "10.64.0.0/26"}, "range-too-small", "vllm-fleet:network.podCidr"),
    ],
)
def test_an_incomplete_or_contradictory_network_is_one_finding(network: Any, id_: str, subject: str) -> None:
    assert (id_, subject) in [(one.id, one.subject) for one in _problems(network)]


@pytest.mark.parametrize("network", [OWN, SHARED, WITH_PROXIES])
def test_a_whole_one_is_none(network: dict[str, Any]) -> None:
    assert _problems(network) == []


def test_permissions_are_needed_where_the_network_is() -> None:
    ours = make_settings()
    assert "compute.networks.create" in required_permissions(ours)
    own = required_permissions(make_settings(network=OWN))
    assert "compute.subnetworks.use" in own
    assert "compute.networks.create" not in own
    shared = make_settings(network=SHARED, gateway=GATEWAY)
    assert not [one for one in required_permissions(shared) if one.startswith("compute.")]
