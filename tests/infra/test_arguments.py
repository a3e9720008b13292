"""What the components' arguments refuse by themselves."""

from __future__ import annotations

from typing import Any

import pytest

from infra.cluster import ClusterArgs
from infra.identity import NodeIdentity
from infra.naming import Place
from infra.network import ExistingNetwork
from infra.network import Network as Vpc
from settings.sections.cluster import AuthorizedNetwork, Cluster, IpEndpoint
from settings.sections.network import ExistingVpc, Network

PLACE = Place(project="a-project", region="europe-west4", name_prefix="mine")
UNMADE: Any = (object.__new__(Vpc), object.__new__(NodeIdentity))
"""Components of the right types that registered nothing."""


OFFICE = {
    "node_cidr": "10.1.0.0/20",
    "pod_cidr": "10.64.0.0/14",
    "service_cidr": "10.32.0.0/20",
    "existing": ExistingVpc(vpc="office", subnet="gke", pod_range="pods", service_range="services"),
}


@pytest.mark.parametrize(
    ("changed", "path"),
    [
        ({"pod_cidr": "10.1.8.0/21"}, "network.pod_cidr"),
    ],
)
def test_an_existing_network_of_contradictory_ranges_is_refused(changed: dict[str, Any], path: str) -> None:
    with pytest.raises(ValueError, match=rf"^✗ ExistingNetwork\.(network\.)?{path}"):
        ExistingNetwork(place=PLACE, network=Network(**{**OFFICE, **changed}))


@pytest.mark.parametrize(
    "wrong",
    [
        IpEndpoint(enabled=True),
        IpEndpoint(enabled=True, authorized_networks=(AuthorizedNetwork(name="all", cidr="0.0.0.0/0"),)),
    ],
    ids=["nobody named", "everybody"],
)
def test_a_cluster_that_nobody_or_everybody_could_reach_is_refused(wrong: IpEndpoint) -> None:
    with pytest.raises(ValueError, match=r"^✗ ClusterArgs\.cluster\.ip_endpoint"):
        ClusterArgs(network=UNMADE[0], nodes=UNMADE[1], cluster=Cluster(ip_endpoint=wrong))
