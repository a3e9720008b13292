"""Rules of the HPA's arithmetic, each as kubernetes v1.36.3 has it; the expected numbers are worked out by hand from its source."""

from __future__ import annotations

from fleet.plan.day.hpa import Behavior, Hpa, Metric, Rate, desired_replicas
from tests.support.rows import each_row

SLOW_DOWN = Behavior(window_seconds=2400, rates=(Rate(type="Pods", value=1, period_seconds=900),))
UP = Behavior(
    window_seconds=30,
    rates=(Rate(type="Percent", value=100, period_seconds=60), Rate(type="Pods", value=2, period_seconds=60)),
)


def in_flight(value: float | None, target: float = 100) -> Metric:
    return Metric(value=value, target=target)


@each_row(
    ("load", "current", "expected"),
    [
        (501, 5, 5),  # ratio 1.002: within the tolerance, although ceil says 6
        (550, 5, 5),  # exactly 1.1 is within it
        (551, 5, 6),
        (450, 5, 5),  # exactly 0.9 as well
        (449, 5, 5),  # beyond it, and rounded up to what there is
        (399, 5, 4),
        (1, 5, 1),
        (0, 5, 0),
        (12 * 100, 11, 11),  # one replica of eleven more is within a tenth: not added
    ],
)
def test_one_metric_proposes_the_ceiling_outside_the_tolerance(load: float, current: int, expected: int) -> None:
    assert desired_replicas([in_flight(load)], current) == expected


def test_the_largest_proposal_counts_and_an_error_stops_only_removing() -> None:
    assert desired_replicas([in_flight(300), in_flight(7, 1)], 5) == 7
    assert desired_replicas([in_flight(None), in_flight(7, 1)], 5) == 7
    assert desired_replicas([in_flight(None), in_flight(3, 1)], 5) is None
    assert desired_replicas([in_flight(None)], 5) is None


def test_rates_limit_a_step_up_from_the_periods_beginning() -> None:
    hpa = Hpa(least=1, most=100, up=Behavior(window_seconds=0, rates=UP.rates))
    seen, current = [], 3
    for now in range(0, 181, 15):
        current = hpa.replicas(now, current, [in_flight(10_000)])
        seen.append(current)
    # Doubled, then nothing until the change is a minute old: an event of exactly that age no longer counts.
    assert seen == [6, 6, 6, 6, 12, 12, 12, 12, 24, 24, 24, 24, 48]


def test_the_up_window_takes_its_least_recommendation() -> None:
    hpa = Hpa(least=1, most=10, up=UP)
    loads = [200, 200, 500, 500, 500]
    current, seen = 2, []
    for at, load in enumerate(loads):
        current = hpa.replicas(15 * at, current, [in_flight(load)])
        seen.append(current)
    # 500 first at 30 s: the recommendation of 15 s holds it down until 45 s.
    assert seen == [2, 2, 2, 4, 4]


def test_the_down_window_holds_the_most_and_then_one_pod_goes_each_quarter_hour() -> None:
    hpa = Hpa(least=2, most=10, down=SLOW_DOWN)
    current, changes = 6, []
    for now in range(0, 6001, 15):
        before, current = current, hpa.replicas(now, current, [in_flight(600 if now == 0 else 10)])
        if current != before:
            changes.append((now, current))
    assert changes == [(2400, 5), (3300, 4), (4200, 3), (5100, 2)]


def test_default_behaviours_add_four_or_double_and_wait_five_minutes_to_remove() -> None:
    hpa = Hpa(least=1, most=100)
    assert hpa.replicas(0, 1, [in_flight(10_000)]) == 5
    assert hpa.replicas(15, 5, [in_flight(10_000)]) == 10
    assert hpa.replicas(30, 10, [in_flight(0)]) == 10
    assert hpa.replicas(314, 10, [in_flight(0)]) == 10
    assert hpa.replicas(315, 10, [in_flight(0)]) == 1


def test_percentages_round_up_going_up_and_down_going_down() -> None:
    tenth = (Rate(type="Percent", value=10, period_seconds=60),)
    hpa = Hpa(
        least=1,
        most=100,
        up=Behavior(window_seconds=0, rates=tenth),
        down=Behavior(window_seconds=0, rates=tenth),
    )
    assert hpa.replicas(0, 5, [in_flight(900)]) == 6
    assert hpa.replicas(100, 5, [in_flight(0)]) == 4
    # ceil(50 * 1.1) is 56 in floating point, in Go as here.
    assert hpa.replicas(200, 50, [in_flight(9_000)]) == 56


def test_select_policy_min_and_disabled() -> None:
    rates = (Rate(type="Pods", value=1, period_seconds=60), Rate(type="Pods", value=3, period_seconds=60))
    least = Hpa(least=1, most=9, up=Behavior(window_seconds=0, rates=rates, select="Min"))
    off = Hpa(least=1, most=9, up=Behavior(window_seconds=0, rates=rates, select="Disabled"))
    assert least.replicas(0, 2, [in_flight(900)]) == 3
    assert off.replicas(0, 2, [in_flight(900)]) == 2


def test_bounds_are_restored_at_once_and_zero_is_left_alone() -> None:
    hpa = Hpa(least=3, most=5)
    assert hpa.replicas(0, 9, [in_flight(None)]) == 5
    assert hpa.replicas(15, 1, [in_flight(None)]) == 3
    assert hpa.replicas(30, 0, [in_flight(10_000)]) == 0
    assert hpa.replicas(45, 4, [in_flight(10_000)]) == 5
