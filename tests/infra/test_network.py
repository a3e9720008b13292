from __future__ import annotations

from tests.support.recorded import GATEWAY, all_of, named, only, recorded_platform

RANGES = {
    "nodeCidr": "10.1.0.0/20",
    "podCidr": "10.96.0.0/14",
    "serviceCidr": "10.40.0.0/20",
    "proxyOnly": {"cidr": "10.9.0.0/24"},
}


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


def test_the_subnet_can_be_asked_for_without_a_gateway_and_refused_with_one() -> None:
    asked = recorded_platform(network={"proxyOnly": {"enabled": True}})
    assert named(asked, "proxies-subnet").inputs["role"] == "ACTIVE"
    refused = recorded_platform(gateway=GATEWAY, network={"proxyOnly": {"enabled": False}})
    assert len(all_of(refused, "compute/subnetwork:Subnetwork")) == 1
