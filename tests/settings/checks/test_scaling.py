"""What is said about an autoscaler before it has changed anything."""

from __future__ import annotations

from typing import Any

import pytest

from facts.finding import Finding
from settings.derived.figures import figures
from settings.derived.scaling import ScalingPolicy, scaling_policy
from settings.load import check
from tests.support.rows import each_row
from tests.support.settings import make_settings

WINDOW = {"days": ["MO", "TU", "WE", "TH", "FR"], "start": "07:00", "end": "20:00", "replicas": 4}
LOAD = {"mode": "load", "min": 2, "max": 8}


def found(scaling: dict[str, Any], server: dict[str, Any] | None = None, **sections: Any) -> dict[str, Finding]:
    settings = make_settings(server={"scaling": scaling, **(server or {})}, **sections)
    return {one.id: one for one in check(settings) if one.id.startswith(("scaling", "replicas", "platform-needs"))}


def policy(**scaling: Any) -> ScalingPolicy:
    made = scaling_policy(make_settings(server={"scaling": LOAD | scaling}))
    assert made is not None
    return made


@pytest.mark.parametrize(
    "scaling",
    [
        LOAD,
        LOAD | {"windows": [WINDOW], "timezone": "Europe/Berlin"},
        LOAD | {"windows": [WINDOW, WINDOW | {"start": "20:00", "end": "24:00"}]},
        {"mode": "schedule", "min": 0, "max": 8, "windows": [WINDOW]},
        {"mode": "none"},
    ],
)
def test_nothing_speaks_against_bounds_and_windows_that_are_right(scaling: dict[str, Any]) -> None:
    assert found(scaling) == {}


@each_row(
    ("scaling", "said", "path"),
    [
        (LOAD | {"min": 8}, "scaling-bounds", "max"),
        ({"mode": "load"}, "scaling-bounds", "max"),
        (LOAD | {"min": 0}, "scaling-without-windows", "windows"),
        (LOAD | {"mode": "schedule"}, "scaling-without-windows", "windows"),
        (LOAD | {"windows": [WINDOW], "timezone": "Europe/Atlantis"}, "scaling-timezone", "timezone"),
        (LOAD | {"windows": [WINDOW | {"end": "06:00"}]}, "scaling-window-backwards", "windows[0].end"),
        (LOAD | {"windows": [WINDOW | {"end": "07:00"}]}, "scaling-window-backwards", "windows[0].end"),
        (LOAD | {"windows": [WINDOW | {"replicas": 9}]}, "scaling-window-replicas", "windows[0].replicas"),
        (LOAD | {"windows": [WINDOW | {"replicas": 2}]}, "scaling-window-replicas", "windows[0].replicas"),
        (
            LOAD | {"windows": [WINDOW, {"days": ["FR"], "start": "19:59", "end": "22:00", "replicas": 3}]},
            "scaling-windows-overlap",
            "windows[1]",
        ),
    ],
)
def test_what_would_not_scale_is_refused(scaling: dict[str, Any], said: str, path: str) -> None:
    problem = found(scaling)[said]
    assert (problem.subject, problem.severity) == (f"vllm-fleet:server.scaling.{path}", "error")


OFF = {"monitoring": {"enabled": False}}


@each_row(
    ("scaling", "replicas", "sections", "id_", "level"),
    [
        # The number has one owner.
        *((LOAD, replicas, {}, "replicas-beside-scaling", "error") for replicas in (1, 12)),
        (LOAD, "external", {}, "replicas-beside-scaling", "warning"),
        (LOAD, 0, {}, "replicas-beside-scaling", None),
        ({"mode": "none"}, "external", {}, "replicas-beside-scaling", None),
        # Load needs metrics, and a schedule does not.
        (LOAD, None, OFF, "scaling-without-metrics", "error"),
        (LOAD | {"mode": "schedule", "windows": [WINDOW]}, None, OFF, "scaling-without-metrics", None),
        (LOAD, None, {"platform": {"kubeconfig": "cluster.yaml"}}, "platform-needs-keda", "note"),
    ],
)
def test_what_stands_beside_an_autoscaler_is_told(
    scaling: dict[str, Any], replicas: int | str | None, sections: dict[str, Any], id_: str, level: str | None
) -> None:
    told = found(scaling, {} if replicas is None else {"replicas": replicas}, **sections).get(id_)
    assert (told and told.severity) == level


def test_the_most_servers_are_what_everything_is_sized_for() -> None:
    settings = make_settings(server={"scaling": LOAD})
    assert (settings.replicas, settings.own_replicas, settings.gpu_ceiling) == (8, None, 64)
    paused = make_settings(server={"scaling": LOAD, "replicas": 0})
    assert (paused.replicas, paused.own_replicas, paused.gpu_ceiling) == (0, None, 0)
    held = {
        problem.id
        for problem in check(
            make_settings(server={"scaling": LOAD}, capacity={"mode": "reservation", "name": "r", "nodes": 6})
        )
    }
    assert {"reservation-too-small", "scaling-saves-nothing"} <= held


def test_the_target_leaves_room_for_what_comes_while_a_server_starts() -> None:
    assert policy().target_in_flight == int(2000 / 1.41)
    assert "scaling-target-above-load" in found(LOAD | {"targetInFlight": 2001})


def test_the_floor_follows_the_windows_from_before_they_begin() -> None:
    made = policy(windows=[WINDOW])
    monday, half_past_six = 0, 6 * 60 + 30
    assert [made.floor(monday + half_past_six + by) for by in (-1, 0, 13 * 60 + 29, 13 * 60 + 30)] == [2, 4, 4, 2]
    assert made.floor(5 * 1440 + 600) == 2
    assert made.mean_floor() == pytest.approx(2 + 2 * 5 * 13.5 / 168)


def test_a_window_of_monday_morning_opens_on_sunday() -> None:
    early = policy(windows=[WINDOW | {"days": ["MO"], "start": "00:00"}])
    assert (early.floor(6 * 1440 + 23 * 60 + 29), early.floor(6 * 1440 + 23 * 60 + 30)) == (2, 4)


def test_the_bill_tells_the_fewest_and_the_most_servers_and_a_month_by_the_windows() -> None:
    scaled = LOAD | {"windows": [WINDOW]}
    bill = figures(make_settings(server={"scaling": scaled})).bill
    few, most = (figures(make_settings(server={"replicas": count})).bill.usd_per_hour for count in (2, 8))
    assert bill.scaled is not None
    assert (bill.scaled.smallest.usd_per_hour, bill.usd_per_hour) == (few, most)
    assert few is not None
    assert most is not None
    share = 2 * 5 * 13.5 / 168 / 6
    assert bill.usd_per_month_by_schedule == pytest.approx((few + (most - few) * share) * 730)
    assert f"${few:,.2f} an hour with 2 nodes, ${most:,.2f} with 8 nodes" in bill.format_hourly_total()
    assert figures(make_settings(server={"scaling": scaled, "replicas": 0})).bill.scaled is None


def test_a_reservation_costs_as_much_with_few_servers() -> None:
    capacity = {"mode": "reservation", "name": "r", "nodes": 8, "usdPerNodeHour": 80}
    bill = figures(make_settings(server={"scaling": LOAD}, capacity=capacity)).bill
    assert bill.scaled is not None
    assert bill.scaled.smallest.nodes.quantity == bill.nodes.quantity == 8


@pytest.mark.parametrize(
    ("scaling", "id_", "path"),
    [
        ({"leadMinutes": 1}, "scaling-lead-short", "leadMinutes"),
        ({"windows": [WINDOW | {"end": "07:05"}]}, "scaling-window-short", "windows[0]"),
        ({"leadMinutes": 30, "targetInFlight": 100_000}, "scaling-target-above-load", "targetInFlight"),
    ],
)
def test_what_is_shorter_than_a_start_deserves_a_look(scaling: dict[str, Any], id_: str, path: str) -> None:
    problem = found(LOAD | scaling)[id_]
    assert (problem.severity, problem.subject) == ("warning", f"vllm-fleet:server.scaling.{path}")


@each_row(
    ("capacity", "lead", "start"),
    [
        ({"mode": "spot"}, 20, 18),
        ({"mode": "flex-start", "runDurationSeconds": 86_400}, 35, 33),
        ({"mode": "compute-class", "spot": False}, 35, 33),
        # Spot before it: the wait is the exception, not what load is led by.
        ({"mode": "compute-class"}, 20, 33),
        ({"mode": "compute-class", "flexStartSeconds": None}, 20, 18),
    ],
)
def test_a_start_takes_longer_where_the_autoscaler_waits_at_flex_start(
    capacity: dict[str, Any], lead: int, start: int
) -> None:
    made = scaling_policy(make_settings(server={"scaling": LOAD}, capacity=capacity))
    assert made is not None
    assert made.lead_seconds == lead * 60
    ends = {short: WINDOW | {"end": f"07:{start - short}"} for short in (0, 1)}
    said = {short: found(LOAD | {"windows": [end]}, capacity=capacity) for short, end in ends.items()}
    assert ["scaling-window-short" in said[short] for short in (0, 1)] == [False, True]
