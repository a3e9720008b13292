from __future__ import annotations

from typing import Any

from fleet.preview.record.recorder import RecordedResource
from settings.sections.capacity import window_total_usd
from tests.support.recorded import all_of, only, recorded_platform

REQUEST = {"startTime": "2027-01-04T06:00:00Z", "durationDays": 7, "nodes": 12}


def _calendar(**request: Any) -> dict[str, Any]:
    return {
        "mode": "calendar",
        "reservation": "january-b200",
        "usdPerNodeHour": 65.0,
        "create": {**REQUEST, **request},
    }


def _window(**request: Any) -> RecordedResource:
    return only(recorded_platform(capacity=_calendar(**request)), "compute/futureReservation:FutureReservation")


def test_a_window_costs_every_node_every_hour_of_it() -> None:
    assert window_total_usd(12, 7, 65.0) == 131_040.0
    assert window_total_usd(1, 1, 0.333) == 7.99
    assert window_total_usd(80, 90, 100.0) == 17_280_000.0


def test_without_a_typed_total_the_request_stays_a_draft_that_can_be_deleted() -> None:
    window = _window()
    assert window.inputs["planningStatus"] == "DRAFT"
    assert window.inputs["description"] == "vLLM fleet, stack test"
    assert window.inputs["deletionPolicy"] == "DELETE"
    assert window.protect is False


def test_with_its_total_it_is_submitted_protected_and_never_deleted() -> None:
    window = _window(totalUsd=131_040)
    assert window.inputs["planningStatus"] == "SUBMITTED"
    assert window.inputs["description"] == "vLLM fleet, stack test, total $131,040.00"
    assert window.inputs["deletionPolicy"] == "ABANDON"
    assert window.protect is True


def test_the_request_says_which_machines_when_and_for_whom() -> None:
    window = _window().inputs
    assert window["zone"] == "europe-west4-b"
    assert window["reservationName"] == window["name"] == "january-b200"
    assert window["timeWindow"] == {"startTime": "2027-01-04T06:00:00Z", "duration": {"seconds": "604800"}}
    assert window["specificSkuProperties"] == {
        "totalCount": "12",
        "instanceProperties": {"machineType": "a4-highgpu-8g"},
    }
    assert (window["reservationMode"], window["deploymentType"]) == ("CALENDAR", "DENSE")
    assert window["specificReservationRequired"] is True
    assert window["autoDeleteAutoCreatedReservations"] is True
    assert window["shareSettings"] == {"shareType": "LOCAL"}


def test_a_reservation_that_exists_is_not_requested_again() -> None:
    recording = recorded_platform(capacity={"mode": "calendar", "reservation": "january-b200"})
    assert all_of(recording, "compute/futureReservation:FutureReservation") == []


def test_the_window_is_of_the_stacks_machine() -> None:
    recording = recorded_platform(machine="a3-ultragpu-8g", capacity=_calendar())
    window = only(recording, "compute/futureReservation:FutureReservation").inputs
    assert window["specificSkuProperties"]["instanceProperties"] == {"machineType": "a3-ultragpu-8g"}
