"""Maintenance policies as GKE takes them: windows, and the 48 hours in 92 days that they have to leave."""

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
    assert refused(endTime=moment) == {"not-a-moment": "m.endTime"}


@pytest.mark.parametrize("recurrence", ["FREQ=HOURLY", "FREQ=WEEKLY;BYDAY=XX", "FREQ=DAILY;COUNT=1", "FREQ=", "weekly"])
def test_a_recurrence_that_is_not_by_the_day_or_week_is_refused(recurrence: str) -> None:
    with pytest.raises(SettingsError, match=r"vllm-fleet:cluster\.maintenance\.recurrence"):
        make_settings(cluster={"maintenance": {"recurrence": recurrence}})
