from __future__ import annotations

from tests.support.recorded import GATEWAY, all_of, named, only, recorded_platform

RANGES = {
    "nodeCidr": "10.1.0.0/20",
    "podCidr": "10.96.0.0/14",
    "serviceCidr": "10.40.0.0/20",
    "proxyOnly": {"cidr": "10.9.0.0/24"},
}


def test_the_node_subnet_carries_the_stack_files_ranges_and_reaches_googles_apis_privately() -> None:
    nodes = named(recorded_platform(network=RANGES), "network-nodes").inputs
    assert nodes["ipCidrRange"] == "10.1.0.0/20"
    assert nodes["secondaryIpRanges"] == [
        {"rangeName": "pods", "ipCidrRange": "10.96.0.0/14"},
        {"rangeName": "services", "ipCidrRange": "10.40.0.0/20"},
    ]
    assert nodes["privateIpGoogleAccess"] is True
    assert "purpose" not in nodes


def test_nat_serves_the_node_subnet_alone_with_ports_that_grow_and_errors_logged() -> None:
    nat = only(recorded_platform(network=RANGES), "routerNat:RouterNat").inputs
    assert nat["enableDynamicPortAllocation"] is True
    assert (nat["minPortsPerVm"], nat["maxPortsPerVm"]) == (1_024, 16_384)
    # The API refuses endpoint-independent mapping beside dynamic ports.
    assert nat["enableEndpointIndependentMapping"] is False
    assert nat["logConfig"] == {"enable": True, "filter": "ERRORS_ONLY"}
    assert nat["sourceSubnetworkIpRangesToNat"] == "LIST_OF_SUBNETWORKS"
    (subnet,) = nat["subnetworks"]
    assert subnet["name"].endswith("/subnetworks/test-vllm-nodes")
    assert subnet["sourceIpRangesToNats"] == ["ALL_IP_RANGES"]


def test_with_a_gateway_the_proxies_have_a_range_of_their_own() -> None:
    proxy = named(recorded_platform(gateway=GATEWAY, network=RANGES), "proxies-subnet")
    assert proxy.inputs["role"] == "ACTIVE"
    assert proxy.inputs["ipCidrRange"] == "10.9.0.0/24"
    # The provider does not repeat a delete that is refused because the subnet is in use: a longer timeout would say otherwise.
    assert not proxy.custom_timeouts


def test_the_subnet_can_be_asked_for_without_a_gateway_and_refused_with_one() -> None:
    asked = recorded_platform(network={"proxyOnly": {"enabled": True}})
    assert named(asked, "proxies-subnet").inputs["role"] == "ACTIVE"
    refused = recorded_platform(gateway=GATEWAY, network={"proxyOnly": {"enabled": False}})
    assert len(all_of(refused, "compute/subnetwork:Subnetwork")) == 1


def test_the_firewall_opens_vllm_and_the_picker_on_pods_to_the_proxies_and_nothing_else() -> None:
    rule = only(recorded_platform(gateway=GATEWAY, network=RANGES), "compute/firewall:Firewall").inputs
    assert rule["direction"] == "INGRESS"
    assert rule["sourceRanges"] == ["10.9.0.0/24"]
    assert rule["destinationRanges"] == ["10.96.0.0/14"]
    assert rule["allows"] == [{"protocol": "tcp", "ports": ["8000", "9002"]}]
