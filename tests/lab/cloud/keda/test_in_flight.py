"""Requests in flight as the autoscaler meets them."""

from __future__ import annotations

import pytest

from lab.cloud.keda.in_flight import LAG_SECONDS, STEP_SECONDS, InFlight
from lab.cloud.keda.triggers import TriggerError
from lab.cloud.keda.wall_time import on_the_wall
from lab.stage.meter import Series
from workloads.autoscaling import in_flight

OF = '{app="fleet",namespace="serving"}'
QUERY = in_flight("fleet", "serving")


class Hand:
    """A clock that a test moves."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def hand() -> Hand:
    return Hand()


@pytest.fixture
def model(hand: Hand) -> InFlight:
    ready = Series()
    ready.add(0, 2)
    return InFlight(hand, ready.at, capacity_per_server=100, request_seconds=10, app="fleet", namespace="serving")


def test_what_servers_hold_is_seen_later(hand: Hand, model: InFlight) -> None:
    model.offer(150)
    hand.now = LAG_SECONDS - 10
    assert model.query(QUERY) == []
    hand.now = LAG_SECONDS + 200
    assert model.query(QUERY) == [pytest.approx(150)]
    assert model.delayed_share(STEP_SECONDS) == 0


def test_what_servers_do_not_hold_waits_and_counts(hand: Hand, model: InFlight) -> None:
    model.offer(300)
    hand.now = 600
    assert model.at(600).running == 200
    assert model.query(QUERY)[0] > 300
    assert model.query(f"sum(vllm:num_requests_waiting{OF})")[0] > 100
    assert model.delayed_share(300) == 1
    model.calm()
    assert model.query(QUERY) == [0]


def test_a_query_that_finds_nothing_is_empty_and_one_per_engine_has_many_elements(hand: Hand, model: InFlight) -> None:
    hand.now = 300
    assert model.query('sum(vllm:num_requests_waiting{model="fleet"})') == []
    assert len(model.query(f"vllm:num_requests_waiting{OF}")) > 1
    assert model.query(f"sum(last_over_time(vllm:num_requests_waiting{OF}[60s]))") == []  # nothing is that new
    with pytest.raises(TriggerError, match="only adds sums"):
        model.query("avg(up)")


def test_windows_and_periods_shrink_with_the_clock_to_a_second_at_least() -> None:
    given = {
        "scaleUp": {"stabilizationWindowSeconds": 0, "policies": [{"type": "Pods", "value": 2, "periodSeconds": 60}]},
        "scaleDown": {"stabilizationWindowSeconds": 2400},
    }
    found = on_the_wall(given, 120)
    assert found["scaleUp"]["stabilizationWindowSeconds"] == 0
    assert found["scaleUp"]["policies"] == [{"type": "Pods", "value": 2, "periodSeconds": 1}]
    assert found["scaleDown"]["stabilizationWindowSeconds"] == 20
    assert on_the_wall(None, 10)["scaleDown"]["stabilizationWindowSeconds"] == 30
