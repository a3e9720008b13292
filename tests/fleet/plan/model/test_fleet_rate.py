"""Tests of nodes, routing and rates above what a fleet can do."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from facts.workloads import named_workload
from fleet.plan.model.calibration import calibration
from fleet.plan.model.deployment import Deployment, OfferedLoad, measured_load, record_fleet
from fleet.plan.model.fleet_rate import (
    GATEWAY_CONSTANT,
    GATEWAY_GROWING,
    GATEWAY_HALFWAY,
    FleetLoad,
    GatewayReading,
    OverloadedError,
    fleet_load,
)
from fleet.plan.model.gpu_memory import budget

ARTICLE = named_workload("article")
PARAMETERS = calibration().parameters


def _load(deployment: Deployment, offered: OfferedLoad, gateway: GatewayReading = GATEWAY_HALFWAY) -> FleetLoad:
    return fleet_load(deployment, ARTICLE, offered, PARAMETERS, budget(deployment), gateway)


def test_nodes_lose_a_third_of_a_percent_for_each_further_2000_in_flight() -> None:
    one, twelve = (_load(record_fleet(nodes), measured_load(nodes)) for nodes in (1, 12))
    lost = 12 * one.requests_per_s / twelve.requests_per_s - 1
    assert lost == pytest.approx(11 * PARAMETERS.contention_per_node)
    assert twelve.engine == one.engine


@pytest.mark.parametrize("reading", [GATEWAY_CONSTANT, GATEWAY_GROWING, GATEWAY_HALFWAY])
def test_every_reading_of_the_gateway_fits_two_nodes(reading: GatewayReading) -> None:
    assert reading.added_share(PARAMETERS, 2) == pytest.approx(PARAMETERS.gateway_share)


def test_the_readings_of_the_gateway_part_at_other_numbers_of_nodes() -> None:
    for nodes, order in ((1, 1), (8, -1)):
        constant, growing, halfway = (
            reading.added_share(PARAMETERS, nodes) * order
            for reading in (GATEWAY_CONSTANT, GATEWAY_GROWING, GATEWAY_HALFWAY)
        )
        assert growing < halfway < constant


def test_behind_the_gateway_a_request_takes_longer_and_engines_run_fewer() -> None:
    direct, behind = (
        _load(record_fleet(2, routing=routing), measured_load(2)) for routing in ("cluster-ip", "inference-gateway")
    )
    assert direct.gateway_s == 0
    assert behind.gateway_s > 0
    assert behind.seconds_per_request / direct.seconds_per_request == pytest.approx(1 + PARAMETERS.gateway_share)
    assert behind.engine.running < direct.engine.running


def test_more_requests_than_a_fleet_answers_are_refused_with_what_it_can() -> None:
    with pytest.raises(OverloadedError, match=r"2 nodes .* 166\.8 .* 200\.0") as caught:
        _load(record_fleet(2), OfferedLoad(requests_per_s=200))
    most = OfferedLoad(requests_per_s=caught.value.capacity_per_s)
    assert _load(record_fleet(2), most).requests_per_s == pytest.approx(166.8, abs=0.1)


@pytest.mark.parametrize("routing", ["cluster-ip", "inference-gateway"])
@given(nodes=st.integers(2, 40), share=st.floats(0.001, 1))
def test_an_offered_rate_is_answered_with_no_more_in_flight_than_at_full_load(
    routing: str, nodes: int, share: float
) -> None:
    fleet = record_fleet(nodes, routing=routing)  # type: ignore[arg-type]
    full = _load(fleet, measured_load(nodes))
    part = _load(fleet, OfferedLoad(requests_per_s=full.requests_per_s * share))
    assert part.requests_per_s == pytest.approx(full.requests_per_s * share)
    assert part.in_flight <= full.in_flight * (1 + 1e-6)
    assert part.in_flight == pytest.approx(part.requests_per_s * part.seconds_per_request)


@given(nodes=st.integers(1, 60), users=st.floats(1, 2_000))
def test_more_nodes_never_answer_the_same_users_more_slowly(nodes: int, users: float) -> None:
    here, more = (_load(record_fleet(count), OfferedLoad(in_flight=users)) for count in (nodes, nodes + 1))
    assert more.requests_per_s >= here.requests_per_s * (1 - 1e-9)
    assert more.engine.step_s <= here.engine.step_s * (1 + 1e-9)
