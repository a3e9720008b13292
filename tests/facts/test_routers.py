"""Tests of the routers' size."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from facts import routers
from facts.ledger import LedgerError
from facts.routers import RouterCost, size


def test_cost_adds_up() -> None:
    cost = RouterCost(request_us=100, kib_us=10, chunk_us=20)
    assert cost.cores(1_000, 3, 10_000) == pytest.approx(0.1 + 0.03 + 0.2)


def test_a_program_that_was_not_measured_has_no_cost() -> None:
    with pytest.raises(LedgerError, match="haproxy"):
        routers.cost("other")


def test_a_small_fleet_has_two_of_the_smallest() -> None:
    found = size(requests_per_s=1, prompt_kib=3, chunks_per_s=200, in_flight=10)
    assert found is not None
    assert (found.replicas, found.cpu, found.memory_gib) == (2, 2, 2)


def test_what_no_router_carries_has_no_size() -> None:
    assert size(requests_per_s=1e6, prompt_kib=3, chunks_per_s=1e9, in_flight=10) is None


@pytest.mark.parametrize("name", ["requests_per_s", "prompt_kib", "chunks_per_s", "in_flight"])
def test_a_negative_load_is_refused(name: str) -> None:
    load = {"requests_per_s": 1.0, "prompt_kib": 1.0, "chunks_per_s": 1.0, "in_flight": 1.0, name: -1.0}
    with pytest.raises(ValueError, match=name):
        size(**load)


@settings(deadline=None)
@given(
    requests=st.floats(0, 2_000),
    chunks=st.floats(0, 200_000),
    in_flight=st.floats(0, 100_000),
)
def test_the_load_fits_with_one_router_away(requests: float, chunks: float, in_flight: float) -> None:
    found = size(requests_per_s=requests, prompt_kib=3, chunks_per_s=chunks, in_flight=in_flight)
    if found is not None:
        left = found.replicas - 1
        assert found.busy_cores <= routers.BUSY_SHARE * left * found.cpu * (1 + 1e-9)
        assert in_flight <= left * found.memory_gib * routers.STREAMS_PER_GIB
        assert found.replicas <= routers.MOST_REPLICAS
