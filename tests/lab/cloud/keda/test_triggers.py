"""What triggers say, as KEDA's scalers do."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from lab.cloud.keda.schedule import Schedule
from lab.cloud.keda.triggers import SpecError, TriggerError, metric_spec, trigger

NOON = datetime(2026, 11, 23, 12, tzinfo=UTC)
WORKDAYS = {"timezone": "Europe/Berlin", "start": "30 6 * * 1-5", "end": "0 20 * * 1-5", "desiredReplicas": "4"}


def prometheus(**metadata: str) -> dict[str, Any]:
    return {"type": "prometheus", "metadata": {"query": "q", "threshold": "700", **metadata}}


def test_an_empty_answer_is_zero_unless_it_is_told_otherwise() -> None:
    assert trigger(0, prometheus()).read(lambda _: [], NOON).value == 0
    with pytest.raises(TriggerError, match="the result is empty"):
        trigger(0, prometheus(ignoreNullValues="false")).read(lambda _: [], NOON)


def test_several_elements_are_an_error() -> None:
    with pytest.raises(TriggerError, match="multiple elements"):
        trigger(0, prometheus()).read(lambda _: [1.0, 2.0], NOON)


def test_it_is_active_above_its_activation_threshold_only() -> None:
    one = trigger(0, prometheus(activationThreshold="10"))
    assert not one.read(lambda _: [10.0], NOON).active
    assert one.read(lambda _: [10.1], NOON).active


@pytest.mark.parametrize(
    ("moment", "replicas"),
    [
        (NOON, 4),
        (NOON.replace(hour=5, minute=29), 0),
        (NOON.replace(hour=5, minute=30), 4),
        (NOON.replace(hour=19), 0),
        (NOON.replace(day=22), 0),
    ],
)
def test_a_window_holds_in_its_own_time_zone(moment: datetime, replicas: int) -> None:
    reading = trigger(1, {"type": "cron", "metadata": WORKDAYS}).read(lambda _: [], moment)
    assert (reading.value, reading.active) == (replicas, replicas > 0)


def test_metrics_are_named_and_divided_as_keda_does() -> None:
    spec = metric_spec(trigger(1, {"type": "cron", "metadata": WORKDAYS}), "fleet")["external"]
    assert spec["metric"]["name"] == "s1-cron-Europe-Berlin-306xx1-5-020xx1-5"
    assert spec["target"] == {"type": "AverageValue", "averageValue": "1000m"}


@pytest.mark.parametrize(
    "one",
    [
        {"type": "prometheus", "metadata": {"query": "q"}},
        {"type": "cron", "metadata": {**WORKDAYS, "end": WORKDAYS["start"]}},
        {"type": "cron", "metadata": {**WORKDAYS, "timezone": "Mars/Base"}},
        {"type": "cpu", "metadata": {}},
    ],
)
def test_what_keda_does_not_begin_with_is_refused(one: dict[str, Any]) -> None:
    with pytest.raises(SpecError):
        trigger(0, one)


@pytest.mark.parametrize(
    ("line", "then"),
    [
        ("0 12 * * *", "2026-11-24T12:00"),
        ("*/15 * * * *", "2026-11-23T12:15"),
        ("0 0 1 * 2", "2026-11-24T00:00"),
        ("0 0 29 2 *", "2028-02-29T00:00"),
    ],
)
def test_a_schedule_names_its_next_moment(line: str, then: str) -> None:
    assert Schedule.parse(line).next(NOON).isoformat(timespec="minutes").startswith(then)


@pytest.mark.parametrize("line", ["* * * *", "60 * * * *", "5-1 * * * *", "*/0 * * * *", "x * * * *"])
def test_a_line_that_is_none_is_refused(line: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        Schedule.parse(line)
