"""Maintenance policies as GKE takes them: windows, exclusions, and the 48 hours in 92 days that both have to leave."""

from __future__ import annotations

from typing import Any

import pytest

from settings.checks.maintenance import maintenance_problems
from settings.problems import SettingsError
from settings.sections.cluster import Maintenance
from settings.sections.section import tuples
from tests.support.settings import make_settings


def refused(**given: Any) -> dict[str, str]:
    return {one.id: one.subject for one in maintenance_problems("m", Maintenance.model_validate(tuples(given)))}


def exclusion(start: str, end: str | None, scope: str = "NO_UPGRADES", name: str = "a") -> dict[str, Any]:
    ends = {} if end is None else {"endTime": f"{end}T00:00:00Z"}
    return {"name": name, "startTime": f"{start}T00:00:00Z", "scope": scope, **ends}


@pytest.mark.parametrize(
    ("end", "recurrence"),
    [
        ("2026-01-03T10:00:00Z", "FREQ=WEEKLY;BYDAY=SA,SU"),
        ("2026-01-03T06:00:00Z", "FREQ=WEEKLY"),  # 13 x 4 h
        ("2026-01-04T02:00:00Z", "FREQ=DAILY"),
        ("2026-01-05T02:00:00Z", "FREQ=WEEKLY;BYDAY=SA,WE"),
    ],
)
def test_windows_that_leave_room_are_accepted(end: str, recurrence: str) -> None:
    assert refused(endTime=end, recurrence=recurrence) == {}


@pytest.mark.parametrize(
    ("end", "recurrence"),
    [
        ("2026-01-03T05:59:00Z", "FREQ=DAILY"),  # shorter windows do not count
        ("2026-01-03T01:00:00Z", "FREQ=DAILY"),  # ends before it begins
        ("2026-01-04T03:00:00Z", "FREQ=DAILY"),  # runs into the next one
        ("2026-01-05T02:00:00Z", "FREQ=WEEKLY;BYDAY=SU,SA"),
        ("2026-01-12T02:00:00Z", "FREQ=WEEKLY"),
    ],
)
def test_impossible_windows_are_refused(end: str, recurrence: str) -> None:
    assert refused(endTime=end, recurrence=recurrence) == {"maintenance-window": "m"}


@pytest.mark.parametrize("moment", ["2026-02-30T02:00:00Z", "2026-01-03T24:00:00Z", "0001-01-01T00:00:00Z"])
def test_a_time_that_no_calendar_has_is_refused_where_it_stands(moment: str) -> None:
    assert refused(startTime=moment) == {"not-a-moment": "m.startTime"}
    broken = {**exclusion("2026-12-01", None, "NO_MINOR_UPGRADES"), "endTime": moment}
    assert refused(exclusions=[broken]) == {"not-a-moment": "m.exclusions[0].endTime"}


@pytest.mark.parametrize("recurrence", ["FREQ=HOURLY", "FREQ=WEEKLY;BYDAY=XX", "FREQ=DAILY;COUNT=1", "FREQ=", "weekly"])
def test_a_recurrence_that_is_not_by_the_day_or_week_is_refused(recurrence: str) -> None:
    with pytest.raises(SettingsError, match=r"vllm-fleet:cluster\.maintenance\.recurrence"):
        make_settings(cluster={"maintenance": {"recurrence": recurrence}})


@pytest.mark.parametrize(
    "exclusions",
    [
        [exclusion("2026-12-01", "2026-12-31")],
        [exclusion("2026-12-01", None, "NO_MINOR_OR_NODE_UPGRADES")],
        [exclusion("2026-12-01", "2028-12-01", "NO_MINOR_UPGRADES")],
        [exclusion(f"{2026 + i}-12-01", f"{2026 + i}-12-31", name=f"a{i}") for i in range(3)],
    ],
)
def test_exclusions_within_the_limits_are_accepted(exclusions: list[dict[str, Any]]) -> None:
    assert refused(exclusions=exclusions) == {}


@pytest.mark.parametrize(
    ("exclusions", "problem", "path"),
    [
        ([exclusion("2026-12-01", None)], "exclusion-without-end", "[0].endTime"),
        ([exclusion("2026-12-01", "2026-12-01", "NO_MINOR_UPGRADES")], "exclusion-length", "[0].endTime"),
        ([exclusion("2026-12-01", "2027-03-02")], "exclusion-length", "[0].endTime"),
        ([exclusion("2026-12-01", None, "NO_MINOR_UPGRADES")] * 2, "exclusion-name", "[1].name"),
        (
            [exclusion(f"{2026 + i}-12-01", f"{2026 + i}-12-31", name=f"a{i}") for i in range(4)],
            "too-many-freezes",
            "[3].scope",
        ),
        # Weekends leave 16 hours a week: after eleven weeks without any, a span of 92 days holds too few.
        ([exclusion("2026-12-01", "2027-02-20")], "maintenance-frozen", ""),
        (
            [exclusion("2026-12-01", "2027-01-10"), exclusion("2027-01-14", "2027-02-25", name="b")],
            "maintenance-frozen",
            "",
        ),
    ],
)
def test_exclusions_beyond_the_limits_are_refused(exclusions: list[dict[str, Any]], problem: str, path: str) -> None:
    assert refused(exclusions=exclusions)[problem] == f"m.exclusions{path}"


def test_the_stack_file_hears_of_it_with_its_key() -> None:
    with pytest.raises(SettingsError) as refusal:
        make_settings(cluster={"maintenance": {"exclusions": [exclusion("2026-12-01", None)] * 21}})
    assert {one.subject for one in refusal.value.problems} == {"vllm-fleet:cluster.maintenance.exclusions"}
