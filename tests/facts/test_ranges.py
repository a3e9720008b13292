"""Tests of address ranges and NAT ports."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from facts import ranges
from facts.ranges import smallest_ranges


def test_the_record_fleet_fits_a_27_for_nodes_and_a_21_for_pods() -> None:
    ranges = smallest_ranges(gpu_nodes=12)
    assert (ranges.nodes_prefix, ranges.pods_prefix, ranges.services_prefix) == (27, 21, 26)
    assert ranges.nodes == 28


def test_only_a_gateway_needs_a_proxy_only_range() -> None:
    assert smallest_ranges(gpu_nodes=8).proxy_only_prefix is None
    assert smallest_ranges(gpu_nodes=8, gateway=True).proxy_only_prefix == 26


def test_autopilot_defaults_of_google_agree_with_the_arithmetic() -> None:
    assert ranges.nodes_a_pod_range_holds(17) == 512
    assert ranges.nodes_a_subnet_holds(23) == 508
    assert ranges.nodes_a_pod_range_holds(27) == 0


@pytest.mark.parametrize("name", ["gpu_nodes", "other_nodes", "services"])
def test_a_negative_count_is_refused_by_name(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} must be 0 or more, got -1"):
        smallest_ranges(**{"gpu_nodes": 1, name: -1})


@pytest.mark.parametrize(("connections", "per_s", "ports"), [(8, 0, 64), (65, 0, 128), (8, 1, 128), (200, 0.5, 512)])
def test_a_download_needs_a_power_of_two_of_ports(connections: int, per_s: float, ports: int) -> None:
    assert ranges.nat_ports_per_vm(concurrent_connections=connections, connections_per_s=per_s) == ports


def test_more_ports_than_a_vm_can_have_are_refused() -> None:
    with pytest.raises(ValueError, match="open fewer connections"):
        ranges.nat_ports_per_vm(concurrent_connections=65_537)


@given(gpu_nodes=st.integers(0, 5000), other_nodes=st.integers(0, 100))
def test_the_ranges_hold_every_node_and_half_of_them_would_not(gpu_nodes: int, other_nodes: int) -> None:
    sizes = smallest_ranges(gpu_nodes=gpu_nodes, other_nodes=other_nodes)
    assert ranges.nodes_a_subnet_holds(sizes.nodes_prefix) >= sizes.nodes
    assert ranges.nodes_a_pod_range_holds(sizes.pods_prefix) >= sizes.nodes
    assert ranges.nodes_a_pod_range_holds(sizes.pods_prefix + 1) < sizes.nodes
