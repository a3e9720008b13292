"""The simulated fleet under loads that can be worked out by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from facts.day import Load
from fleet.plan.day.fleet import IDLE_SECONDS, Fleet, Serving, Span
from fleet.plan.day.simulate import DayResult, floors, simulate
from settings.derived.scaling import PolicyWindow, ScalingPolicy

# A node of 10 requests/s, each of which takes 10 s whatever the load.
FLEET = Fleet(
    serving=Serving(full_requests_per_s=10, curve=(0.0, 50.0, 100.0)),
    start_seconds=1080,
    usd_per_node_hour=30.0,
    usd_per_hour_around=2.0,
)
LOAD = ScalingPolicy(
    mode="load",
    mechanism="keda",
    min=1,
    max=6,
    target_in_flight=70,
    lead_seconds=1200,
    windows=(),
    timezone="UTC",
    down_window_seconds=2400,
    fallback_replicas=2,
)
NINE_TO_FIVE = PolicyWindow(days=(0, 1, 2, 3, 4, 5, 6), start_minute=540, end_minute=1020, replicas=4)


def steady(rate: float, hours: float, step: int = 60) -> Load:
    return Load(requests_per_s=(rate,) * int(hours * 3600 / step), step_seconds=step)


def then(*loads: Load) -> Load:
    return replace(loads[0], requests_per_s=tuple(rate for load in loads for rate in load.requests_per_s))


def at(result: DayResult, minute: int) -> tuple[int, int]:
    """Servers ready and asked for."""
    point = next(one for one in result.timeline if one.second == 60 * minute)
    return point.ready, point.asked


def test_a_fleet_that_is_large_enough_answers_everything_at_its_price() -> None:
    result = simulate(3, steady(25, 24), FLEET)
    assert result.slo_attainment == 1
    assert result.node_hours == 72
    assert result.usd == 72 * 30 + 24 * 2
    assert (result.starts, result.requests_lost) == (0, 0)


@pytest.mark.parametrize(("servers", "reserved", "billed"), [(3, 2, 3), (3, 3, 3), (3, 5, 5)])
def test_reserved_nodes_are_billed_whether_they_run_or_not(servers: int, reserved: int, billed: int) -> None:
    result = simulate(servers, steady(25, 24), replace(FLEET, reserved_nodes=reserved))
    assert result.node_hours == 24 * billed
    assert result.usd == 24 * billed * 30 + 24 * 2


def test_a_server_that_leaves_a_reserved_node_has_no_idle_minutes_of_its_own() -> None:
    load = then(steady(40, 4), steady(1, 20))
    none, some, every = (simulate(LOAD, load, replace(FLEET, reserved_nodes=reserved)) for reserved in (0, 1, LOAD.max))
    assert none.most_nodes > LOAD.min
    # One node always runs.
    assert some.node_hours == none.node_hours
    assert every.node_hours == LOAD.max * every.hours


def test_what_exceeds_full_load_waits_and_then_gives_up() -> None:
    result = simulate(2, steady(25, 1), FLEET)
    # 60 s of 20 requests/s may wait; the rest of the hour's 5 a second too many is lost.
    assert result.requests_lost == pytest.approx(5 * 3600 - 20 * 60)
    assert result.requests_late == pytest.approx(result.requests - result.requests_lost)
    assert result.slo_attainment == pytest.approx(0.0)


def test_a_jump_is_followed_after_lag_and_start() -> None:
    result = simulate(LOAD, then(steady(14, 2), steady(40, 3)), FLEET)
    # 140 in flight are two servers of 70. The jump fills both, 200 and what waits; the autoscaler sees it two minutes later.
    assert at(result, 110) == (2, 2)
    assert at(result, 130) == (2, 6)
    assert at(result, 150)[0] == 6
    assert result.slo_attainment == pytest.approx(1 - 40 * 60 * 21 / result.requests, abs=0.01)
    assert result.worst_hour == 2


def test_removing_waits_for_the_window_and_pays_idle_nodes() -> None:
    result = simulate(LOAD, then(steady(40, 1), steady(5, 5)), FLEET)
    assert at(result, 60 + 30) == (6, 6)
    assert at(result, 60 + 50)[0] == 5
    assert at(result, 60 + 120)[0] == 1
    removed = simulate(replace(LOAD, down_pods_per_period=9), then(steady(40, 1), steady(5, 1)), FLEET)
    held = 6 * 3600 + 6 * (120 + 2400 + 60) + 1 * (3600 - 120 - 2400 - 60)
    assert removed.node_hours * 3600 == pytest.approx(held + 5 * IDLE_SECONDS, abs=6 * 120)


def test_windows_are_asked_for_early_and_closed_slowly() -> None:
    schedule = replace(LOAD, mode="schedule", target_in_flight=None, windows=(NINE_TO_FIVE,))
    result = simulate(schedule, steady(5, 24), FLEET)
    assert at(result, 500) == (1, 1)
    assert at(result, 520)[1] == 4
    assert at(result, 540)[0] == 4
    assert at(result, 1020)[0] == 4
    assert at(result, 1120)[0] == 1


def test_floors_are_the_policys_at_every_minute_of_the_week() -> None:
    night = PolicyWindow(days=(0, 6), start_minute=10, end_minute=1440, replicas=3)
    policy = replace(LOAD, windows=(NINE_TO_FIVE, night))
    floor = floors(policy)
    assert all(floor(minute) == policy.floor(minute) for minute in range(0, 7 * 1440, 7))


def test_without_stock_a_start_waits_and_is_not_paid() -> None:
    jump = then(steady(14, 2), steady(40, 4))
    calm = simulate(LOAD, jump, FLEET)
    bad = simulate(LOAD, jump, replace(FLEET, stock_outs=(Span(begin=7000, end=7000 + 7200),)))
    assert at(bad, 230) == (2, 6)
    assert at(bad, 270)[0] == 6
    assert bad.slo_attainment < calm.slo_attainment
    assert bad.node_hours < calm.node_hours


def test_a_lost_node_is_asked_for_again() -> None:
    result = simulate(2, steady(15, 4), replace(FLEET, losses=(3600,)))
    assert at(result, 70) == (1, 2)
    assert at(result, 80)[0] == 2
    assert result.starts == 1
    assert 0.9 < result.slo_attainment < 1


def test_keda_holds_the_fleet_while_metrics_are_gone_unless_nulls_count_as_zero() -> None:
    blind = replace(FLEET, blind=(Span(begin=3600, end=3 * 3600),))
    load = steady(30, 6)
    assert simulate(LOAD, load, blind).slo_attainment == 1
    lowered = simulate(LOAD, load, blind, nulls_are_zero=True)
    assert lowered.slo_attainment < 1
    assert at(lowered, 180)[0] == 1
    # Without a minimum nothing answers, nothing reports, and nothing wakes it.
    gone = simulate(replace(LOAD, min=0), load, blind, nulls_are_zero=True)
    assert at(gone, 70) == (0, 0)
    assert at(gone, 350) == (0, 0)
    assert gone.slo_attainment == pytest.approx(67 / 360, abs=0.01)


def test_the_fallback_raises_a_fleet_that_is_below_it() -> None:
    blind = replace(FLEET, blind=(Span(begin=0, end=7200),))
    policy = replace(LOAD, fallback_replicas=3)
    assert at(simulate(policy, steady(5, 2), blind), 60)[0] == 3
    assert at(simulate(replace(policy, mechanism="gke"), steady(5, 2), blind), 60)[0] == 1


def test_waiting_alone_sees_growth_only_when_it_is_too_late() -> None:
    load = then(steady(14, 2), steady(19, 1), steady(24, 3))
    waiting = simulate(replace(LOAD, target_in_flight=5), load, FLEET, signal="waiting")
    assert simulate(LOAD, load, FLEET).slo_attainment == 1
    assert waiting.slo_attainment < 0.95
    assert waiting.most_nodes == LOAD.max


def test_zero_by_schedule_is_zero_outside_windows() -> None:
    policy = replace(LOAD, mode="schedule", min=0, target_in_flight=None, windows=(NINE_TO_FIVE,))
    result = simulate(policy, steady(5, 24), FLEET)
    assert at(result, 300) == (0, 0)
    assert at(result, 600)[0] == 4
    assert at(result, 1040) == (0, 0)
