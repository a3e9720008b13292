"""The simulated Google Cloud: which APIs are enabled, and which names are taken, whatever a state says."""

from __future__ import annotations

from typing import Any

import pytest

from fleet.preview.record.synthesis import Cloud
from lab.providers.google.cloud import SERVICE, GoogleError, Made, SimulatedCloud

NETWORK = "gcp:compute/network:Network"
CONFIG = {"gcp:project": "my-project", "gcp:region": "europe-west4"}


@pytest.fixture
def cloud() -> SimulatedCloud:
    return SimulatedCloud()


def enabled(cloud: SimulatedCloud, stack: str) -> Made:
    inputs = {"service": "compute.googleapis.com", "project": "my-project", "disableOnDestroy": False}
    return cloud.create(SERVICE, "compute", inputs, Cloud.of("fixture", stack, CONFIG))


def network(cloud: SimulatedCloud, stack: str = "dev") -> Made:
    inputs: dict[str, Any] = {"name": "net", "project": "my-project", "autoCreateSubnetworks": False}
    return cloud.create(NETWORK, "net", inputs, Cloud.of("fixture", stack, CONFIG))


def test_a_resource_of_an_api_that_is_not_enabled_is_refused(cloud: SimulatedCloud) -> None:
    with pytest.raises(GoogleError, match=r"Error 403: compute.googleapis.com .*accessNotConfigured"):
        network(cloud)
    enabled(cloud, "dev")
    network(cloud)


def test_a_name_that_is_taken_is_refused_and_free_again_after_a_deletion(cloud: SimulatedCloud) -> None:
    enabled(cloud, "dev")
    first = network(cloud)
    with pytest.raises(GoogleError, match=r"Error 409: .*projects/my-project/global/networks/net.* already exists"):
        network(cloud, "other")
    cloud.delete(NETWORK, first.id)
    network(cloud, "other")


def test_two_stacks_may_enable_an_api_and_no_destroy_disables_it(cloud: SimulatedCloud) -> None:
    first = enabled(cloud, "dev")
    assert enabled(cloud, "other").id == first.id
    cloud.delete(SERVICE, first.id)
    network(cloud)
