"""What stands around the servers, sized within documented limits."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from facts.disks import check_volume
from facts.machines import DEFAULT_MACHINE, find
from facts.sizing import (
    Sizing,
    benchmark_clients,
    benchmark_machine,
    size,
    volume_size_gib,
    volume_throughput_mibps,
)

RECORD: dict[str, Any] = {
    "nodes": 12,
    "weights_gb": 29.0,
    "output_tokens_per_s": 367_980.0,
    "tokens_per_chunk": 1.9,
    "in_flight": 24_000.0,
    "gateway": False,
}


def sized(**changes: Any) -> Sizing:
    return size(**{**RECORD, **changes})


def test_the_record_takes_the_articles_24_clients_and_96_gpus() -> None:
    found = sized()
    assert (found.benchmark_clients, found.benchmark_connections) == (24, 24_000)
    assert found.benchmark_machine == "c4-standard-32"
    assert found.quota_gpus == 96
    assert found.volume_copies == 1
    assert found.ranges.proxy_only_prefix is None


def test_every_reader_has_the_weights_in_about_75_seconds() -> None:
    found = sized()
    assert 29e9 / 2**20 / (found.volume_mibps / 12) <= 75
    assert found.volume_mibps == 4_800


def test_a_reader_is_not_given_more_than_its_node_can_read() -> None:
    assert volume_throughput_mibps(1_000, 1_024, 1) <= DEFAULT_MACHINE.read_mibps + 400
    assert volume_throughput_mibps(1_000, 1_024, 1, find("g2-standard-12")) == 2_400


def test_the_volume_holds_the_model_and_a_tenth_in_steps_of_16_gib() -> None:
    assert volume_size_gib(29) == 32
    assert volume_size_gib(31) == 32
    assert volume_size_gib(32) == 48


def test_a_volume_with_hundreds_of_readers_is_as_large_as_their_throughput_asks() -> None:
    assert volume_size_gib(29, 500) == 32
    assert volume_size_gib(29, 1_000) == 64


def test_fast_answers_take_more_clients_than_their_connections_do() -> None:
    # A chunk costs 35 microseconds of a core, and half a core is the most that keeps a client honest.
    assert benchmark_clients(1_000_000, 1, 1_000) == 70
    assert benchmark_clients(1_000_000, 2, 1_000) == 35
    assert benchmark_clients(1, 1, 10) == 1


def test_tokens_come_in_chunks_of_one_or_more() -> None:
    with pytest.raises(ValueError, match="tokens_per_chunk must be 1 or more"):
        benchmark_clients(1, 0.5, 1)


def test_a_client_has_a_connection_and_no_more_than_it_is_given() -> None:
    assert benchmark_clients(1_000_000, 1, 3) == 3
    assert benchmark_clients(1, 1, 1_000, connections_per_client=250) == 4


def test_every_client_has_a_vcpu_as_far_as_machines_have_them() -> None:
    assert [benchmark_machine(clients) for clients in (1, 16, 17, 33, 99)] == [
        f"c4-standard-{vcpus}" for vcpus in (16, 16, 32, 48, 48)
    ]


def test_no_node_is_no_fleet() -> None:
    with pytest.raises(ValueError, match="nodes must be 1 or more"):
        sized(nodes=0)


def test_the_gateway_takes_a_proxy_only_range() -> None:
    assert sized(gateway=True).ranges.proxy_only_prefix == 26


sizings = st.fixed_dictionaries(
    {
        "nodes": st.integers(1, 4_000),
        "weights_gb": st.floats(1, 1_500),
        "output_tokens_per_s": st.floats(0, 1e8),
        "tokens_per_chunk": st.floats(1, 6),
        "in_flight": st.floats(0, 1e6),
        "gateway": st.booleans(),
    }
)


@given(sizings)
def test_no_sizing_breaks_a_limit_of_google_and_none_is_negative(question: dict[str, Any]) -> None:
    found = size(**question)
    readers = -(-question["nodes"] // found.volume_copies)
    assert check_volume(size_gib=found.volume_gib, throughput_mibps=found.volume_mibps, readers=readers) == ()
    assert found.volume_gib * 2**30 >= question["weights_gb"] * 1e9
    assert found.quota_gpus == 8 * question["nodes"]
    assert found.benchmark_clients * 1_000 >= found.benchmark_connections - 1_000
    assert found.nat_ports_per_vm >= 64


@given(sizings, st.integers(1, 500))
def test_more_nodes_never_need_less_around_them(question: dict[str, Any], more: int) -> None:
    small, large = size(**question), size(**{**question, "nodes": question["nodes"] + more})
    assert large.quota_gpus > small.quota_gpus
    assert large.ranges.pods_prefix <= small.ranges.pods_prefix
    assert large.ranges.nodes_prefix <= small.ranges.nodes_prefix
    assert large.volume_copies >= small.volume_copies
    if large.volume_copies == small.volume_copies:
        assert large.volume_mibps >= small.volume_mibps
