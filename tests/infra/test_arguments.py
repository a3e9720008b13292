"""What the components' arguments refuse by themselves."""

from __future__ import annotations

from typing import Any

import pytest

from infra.cluster import ClusterArgs
from infra.identity import NodeIdentity
from infra.naming import Place
from infra.network import ExistingNetwork, NetworkArgs, ProxyOnlySubnetArgs
from infra.network import Network as Vpc
from infra.services import ServicesArgs
from settings.sections.cluster import AuthorizedNetwork, Cluster, IpEndpoint, Maintenance
from settings.sections.network import ExistingVpc, Nat, Network, ProxyOnly

PLACE = Place(project="a-project", region="europe-west4", name_prefix="mine")
UNMADE: Any = (object.__new__(Vpc), object.__new__(NodeIdentity))
"""Components of the right types that registered nothing."""


@pytest.mark.parametrize(
    ("field", "network"),
    [
        ("node_cidr", Network(node_cidr="10.0.0.1/20")),
        ("service_cidr", Network(service_cidr="10.0.0.0/24")),  # inside the nodes'
        ("nat.min_ports_per_vm", Network(nat=Nat(min_ports_per_vm=1_000))),
        ("nat.max_ports_per_vm", Network(nat=Nat(max_ports_per_vm=1_024))),  # not above the least
    ],
    ids=lambda one: one if isinstance(one, str) else "",
)
def test_a_network_of_impossible_ranges_or_ports_is_refused(field: str, network: Network) -> None:
    with pytest.raises(ValueError, match=rf"^✗ NetworkArgs\.network\.{field}: "):
        NetworkArgs(place=PLACE, network=network)


def test_the_range_of_a_subnet_that_is_not_made_may_overlap() -> None:
    NetworkArgs(place=PLACE, network=Network(proxy_only=ProxyOnly(cidr="10.64.0.0/23")))


OFFICE = {
    "node_cidr": "10.1.0.0/20",
    "pod_cidr": "10.64.0.0/14",
    "service_cidr": "10.32.0.0/20",
    "existing": ExistingVpc(vpc="office", subnet="gke", pod_range="pods", service_range="services"),
}


@pytest.mark.parametrize("cidr", ["10.64.0.0/23", "10.1.8.0/23", "10.9.0.1/23"])
def test_a_proxy_only_subnet_inside_another_range_or_of_no_range_is_refused(cidr: str) -> None:
    existing = ExistingNetwork(place=PLACE, network=Network(**OFFICE))
    with pytest.raises(ValueError, match=r"^✗ ProxyOnlySubnetArgs\.cidr: "):
        ProxyOnlySubnetArgs(network=existing, cidr=cidr)
    ProxyOnlySubnetArgs(network=existing, cidr="10.9.0.0/23")


@pytest.mark.parametrize(
    ("changed", "path"),
    [
        ({"existing": None}, "existing"),
        ({"pod_cidr": "10.1.8.0/21"}, "network.pod_cidr"),
        ({"nat": Nat()}, "network.nat"),
    ],
)
def test_an_existing_network_that_is_incomplete_or_contradictory_is_refused(changed: dict[str, Any], path: str) -> None:
    with pytest.raises(ValueError, match=rf"^✗ ExistingNetwork\.(network\.)?{path}"):
        ExistingNetwork(place=PLACE, network=Network(**{**OFFICE, **changed}))


@pytest.mark.parametrize(
    ("field", "wrong"),
    [
        ("ip_endpoint", IpEndpoint(enabled=True)),
        (
            "ip_endpoint",
            IpEndpoint(enabled=True, authorized_networks=(AuthorizedNetwork(name="all", cidr="0.0.0.0/0"),)),
        ),
        ("maintenance", Maintenance(end_time="2026-01-03T05:00:00Z")),
    ],
    ids=["nobody named", "everybody", "too short"],
)
def test_a_cluster_that_gke_would_refuse_or_everybody_could_reach_is_refused(field: str, wrong: Any) -> None:
    with pytest.raises(ValueError, match=rf"^✗ ClusterArgs\.cluster\.{field}"):
        ClusterArgs(network=UNMADE[0], nodes=UNMADE[1], cluster=Cluster(**{field: wrong}))


def test_an_api_is_given_by_its_full_name() -> None:
    with pytest.raises(ValueError, match=r"ServicesArgs\.apis: \[\"container\"\][^✗]*container\.googleapis\.com"):
        ServicesArgs(project="a-project", apis=["container"])
