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


@pytest.mark.parametrize("name", ["gpu_nodes", "services"])
def test_a_negative_count_is_refused_by_name(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} must be 0 or more, got -1"):
        smallest_ranges(**{"gpu_nodes": 1, name: -1})


@pytest.mark.parametrize(("connections", "ports"), [(8, 64), (65, 128), (300, 512)])
def test_a_download_needs_a_power_of_two_of_ports(connections: int, ports: int) -> None:
    assert ranges.nat_ports_per_vm(concurrent_connections=connections) == ports


def test_more_ports_than_a_vm_can_have_are_refused() -> None:
    with pytest.raises(ValueError, match="open fewer connections"):
        ranges.nat_ports_per_vm(concurrent_connections=65_537)


@given(gpu_nodes=st.integers(0, 5000))
def test_the_ranges_hold_every_node_and_half_of_the_pods_would_not(gpu_nodes: int) -> None:
    sizes = smallest_ranges(gpu_nodes=gpu_nodes)
    assert (1 << 32 - sizes.nodes_prefix) - ranges.RESERVED_SUBNET_ADDRESSES >= sizes.nodes
    assert 1 << ranges.AUTOPILOT_NODE_POD_PREFIX - sizes.pods_prefix >= sizes.nodes
    assert 1 << ranges.AUTOPILOT_NODE_POD_PREFIX - sizes.pods_prefix - 1 < sizes.nodes
