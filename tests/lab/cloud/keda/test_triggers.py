"""What triggers say, as KEDA's scalers do."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from lab.cloud.keda.schedule import Schedule
from lab.cloud.keda.triggers import Reading, Sources, SpecError, Trigger, TriggerError, metric_spec
from lab.cloud.keda.triggers import trigger as trigger_in
from lab.control_plane.api import Manifest

NOON = datetime(2026, 11, 23, 12, tzinfo=UTC)
WORKDAYS = {"timezone": "Europe/Berlin", "start": "30 6 * * 1-5", "end": "0 20 * * 1-5", "desiredReplicas": "4"}


def trigger(index: int, one: dict[str, Any]) -> Trigger:
    return trigger_in(index, one, "serving.eu")


def read(one: Trigger, found: list[float] = [], pods: list[Manifest] = [], now: datetime = NOON) -> Reading:  # noqa: B006
    return one.read(Sources(query=lambda _: found, pods=lambda _: pods, now=now))


def workload(**metadata: str) -> dict[str, Any]:
    return {"type": "kubernetes-workload", "metadata": {"podSelector": "app=batch", "value": "1", **metadata}}


def prometheus(**metadata: str) -> dict[str, Any]:
    return {"type": "prometheus", "metadata": {"query": "q", "threshold": "700", **metadata}}


def test_an_empty_answer_is_zero_unless_it_is_told_otherwise() -> None:
    assert read(trigger(0, prometheus())).value == 0
    with pytest.raises(TriggerError, match="the result is empty"):
        read(trigger(0, prometheus(ignoreNullValues="false")))


def test_several_elements_are_an_error() -> None:
    with pytest.raises(TriggerError, match="multiple elements"):
        read(trigger(0, prometheus()), [1.0, 2.0])


def test_it_is_active_above_its_activation_threshold_only() -> None:
    one = trigger(0, prometheus(activationThreshold="10"))
    assert not read(one, [10.0]).active
    assert read(one, [10.1]).active


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
    reading = read(trigger(1, {"type": "cron", "metadata": WORKDAYS}), now=moment)
    assert (reading.value, reading.active) == (replicas, replicas > 0)


def test_metrics_are_named_and_divided_as_keda_does() -> None:
    spec = metric_spec(trigger(1, {"type": "cron", "metadata": WORKDAYS}), "fleet")["external"]
    assert spec["metric"]["name"] == "s1-cron-Europe-Berlin-306xx1-5-020xx1-5"
    assert spec["target"] == {"type": "AverageValue", "averageValue": "1000m"}


def test_pods_count_until_they_have_ended() -> None:
    pods: list[Manifest] = [{"status": {"phase": phase}} for phase in ("Pending", "Running", "Succeeded", "Failed")]
    pods += [{"status": {}}, {"metadata": {"deletionTimestamp": "now"}, "status": {"phase": "Running"}}]
    assert read(trigger(0, workload()), pods=pods) == Reading(4.0, active=True)
    assert read(trigger(0, workload(activationValue="4")), pods=pods) == Reading(4.0, active=False)
    assert read(trigger(0, workload()), pods=[]) == Reading(0.0, active=False)
    spec = metric_spec(trigger(2, workload(value="0.5")), "fleet")["external"]
    assert (spec["metric"]["name"], spec["target"]["averageValue"]) == ("s2-workload-serving-eu", "500m")


@pytest.mark.parametrize(
    "selector", ["app=batch,tier!=x", "app", "!app,vllm-fleet/client", "app in (batch, other),tier notin (a)"]
)
def test_every_form_of_a_label_selector_is_accepted(selector: str) -> None:
    assert trigger(0, workload(podSelector=selector)).name == "s0-workload-serving-eu"


@pytest.mark.parametrize(
    "one",
    [
        {"type": "kubernetes-workload", "metadata": {"value": "1"}},
        {"type": "kubernetes-workload", "metadata": {"podSelector": "app=batch"}},
        workload(value="0"),
        workload(podSelector=""),
        workload(podSelector="app=batch tier=x"),
        workload(podSelector="app in batch"),
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
