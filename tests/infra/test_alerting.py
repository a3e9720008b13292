"""Alerts reach somebody, carry what to do, and read what the same stack counts."""

from __future__ import annotations

import json
from typing import Any

import pytest

from facts.signals.catalogue import catalogue
from fleet.preview.record.recorder import RecordedResource
from fleet.preview.record.recording import needs_of
from infra.dashboard import COLUMNS, tiles
from lab.providers.google.documents import document
from tests.facts.signals.fleets import FLEETS
from tests.lab.providers.google.samples import everything
from tests.support.recorded import all_of, only, recorded_platform


def of(type_: str) -> list[RecordedResource]:
    return all_of(everything(), f"monitoring/{type_}")


def test_each_alert_is_a_policy_with_one_condition_and_its_section_of_the_runbook() -> None:
    policies = of("alertPolicy:AlertPolicy")
    assert len(policies) == 17
    for one in policies:
        (condition,) = one.inputs["conditions"]
        query = condition["conditionPrometheusQueryLanguage"]
        assert one.name == f"alerting-{query['alertRule']}"
        assert query["disableMetricValidation"] is True
        assert one.inputs["documentation"]["content"].startswith("```\n")
        assert one.inputs["documentation"]["mimeType"] == "text/markdown"
        assert one.inputs["notificationChannels"]


def test_whoever_reads_an_alert_sees_whose_it_is() -> None:
    """A provider's default labels do not reach user labels."""
    for kind in (
        "alertPolicy:AlertPolicy",
        "notificationChannel:NotificationChannel",
    ):
        for one in of(kind):
            assert {"app": "vllm-fleet", "stack": "test"}.items() <= one.inputs["userLabels"].items(), one.name


def test_pages_go_to_all_channels_and_tickets_past_the_pager() -> None:
    for one in of("alertPolicy:AlertPolicy"):
        to = {urn.rpartition("::alerting-")[2] for urn in needs_of(one) if "notificationChannel:" in urn}
        pager = {"pagerduty"} if one.inputs["severity"] == "CRITICAL" else set()
        assert to == {"email-oncall-fleet-tests-dev", "slack-llm"} | pager
        assert "projects/fleet-tests/notificationChannels/1" in one.inputs["notificationChannels"]


def test_a_policy_waits_for_the_log_based_metric_that_it_reads() -> None:
    metrics = {one.inputs["name"] for one in all_of(everything(), "logging/metric:Metric")}
    assert metrics == {"test_scale_up_failures", "test_gpu_faults"}
    (stock_out,) = [one for one in of("alertPolicy:AlertPolicy") if one.name == "alerting-StockOut"]
    assert any(urn.endswith("::alerting-test_scale_up_failures") for urn in needs_of(stock_out))


def test_a_number_in_a_log_is_a_distribution_and_its_policy_waits_for_it() -> None:
    alerts = {"channels": [{"type": "email", "address": "a@example.com"}]}
    made = recorded_platform(monitoring={"alerts": alerts}, spending={"limit": 90_000, "then": "warn"})
    by_name = {one.inputs["name"]: one.inputs for one in all_of(made, "logging/metric:Metric")}
    priced, counted = (by_name[f"test_{name}"] for name in ("machines_usd_per_hour", "spending"))
    assert priced["valueExtractor"] == "EXTRACT(jsonPayload.machinesUsdPerHour)"
    kinds = [(one["metricDescriptor"]["metricKind"], one["metricDescriptor"]["valueType"]) for one in (priced, counted)]
    assert kinds == [("DELTA", "DISTRIBUTION"), ("DELTA", "INT64")]
    assert counted.get("valueExtractor") is None
    # The API demands buckets of a distribution, and knows none for a counter.
    assert [set(one.get("bucketOptions") or ()) for one in (priced, counted)] == [{"exponentialBuckets"}, set()]
    (dear,) = [one for one in all_of(made, "monitoring/alertPolicy:AlertPolicy") if one.name == "alerting-GpusIdle"]
    assert [urn.rpartition("::")[2] for urn in needs_of(dear) if "logging/metric" in urn] == [
        "alerting-test_machines_usd_per_hour"
    ]


def test_the_dashboard_is_one_that_the_api_knows() -> None:
    made = json.loads(only(everything(), "monitoring/dashboard:Dashboard").inputs["dashboardJson"])
    body = document("monitoring.v1").method("monitoring.projects.dashboards.create").body
    assert body is not None
    unknown = []

    def look(value: Any, path: str) -> None:
        if isinstance(value, dict):
            for key, inner in value.items():
                look(inner, f"{path}.{key}".lstrip("."))
        elif isinstance(value, list):
            for inner in value:
                look(inner, path)
        elif body.at(path) is None:
            unknown.append(path)

    look(made, "")
    assert unknown == []


@pytest.mark.parametrize("fleet", FLEETS)
def test_tiles_cover_every_panel_once_without_meeting(fleet: str) -> None:
    signals = catalogue(FLEETS[fleet])
    placed = list(tiles(signals))
    assert [one.panel for one in placed if one.panel] == sorted(
        signals.panels, key=lambda panel: placed_at(placed, panel.title)
    )
    taken: set[tuple[int, int]] = set()
    for one in placed:
        cells = {(x, y) for x in range(one.x, one.x + one.width) for y in range(one.y, one.y + one.height)}
        assert not cells & taken, one.title
        assert one.x + one.width <= COLUMNS
        taken |= cells


def placed_at(placed: list[Any], title: str) -> int:
    return next(number for number, one in enumerate(placed) if one.title == title)


def test_channels_that_differ_only_in_signs_are_two_and_the_first_keeps_its_name() -> None:
    mails = [{"type": "email", "address": f"{name}@example.com"} for name in ("a.b", "a-b", "c")]
    made = recorded_platform(monitoring={"alerts": {"channels": mails}})
    names = [one.name for one in all_of(made, "monitoring/notificationChannel:NotificationChannel")]
    assert len(set(names)) == 3
    assert {"alerting-email-a-b-example-com", "alerting-email-c-example-com"} <= set(names)
