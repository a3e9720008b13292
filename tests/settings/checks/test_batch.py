"""What is said about a batch before it has rented anything, and what a stack for batches means."""

from __future__ import annotations

from typing import Any

import pytest

from facts.finding import Finding
from settings.derived.figures import figures
from settings.derived.google_cloud_needs import required_permissions, secret_readers
from settings.load import check
from settings.problems import SettingsError
from settings.sections.batch import Batch
from tests.support.rows import each_row
from tests.support.settings import make_settings

SCALED: dict[str, Any] = {"server": {"profile": "serve-batch", "scaling": {"mode": "batch", "max": 4}}}
FIXED: dict[str, Any] = {"server": {"profile": "serve-batch", "replicas": 2}}


def found(batch: dict[str, Any], stack: dict[str, Any] = SCALED, **sections: Any) -> dict[str, Finding]:
    settings = make_settings(**{**stack, "batch": {"enabled": True, **batch}, **sections})
    ids = ("batch", "scaling", "benchmark-between", "download-per", "without-effect")
    return {one.id: one for one in check(settings) if one.id.startswith(ids)}


def test_a_fleet_for_batches_only_needs_no_channel_for_pages() -> None:
    alerts = {"alerts": {"channels": [{"type": "email", "address": "oncall@my-company.com", "severities": ["ticket"]}]}}
    for stack, told in ((SCALED, False), ({**FIXED, "batch": {"enabled": True}}, True)):
        settings = make_settings(**{"batch": {"enabled": True}, **stack}, monitoring=alerts)
        assert any(one.id == "alert-to-nobody" for one in check(settings)) is told


@each_row(
    ("batch", "stack"),
    [
        ({}, SCALED),
        ({"deadline": "8h", "maxUsd": 200.0, "defaults": {"maxTokens": 500, "temperature": 0.0}}, SCALED),
        ({"template": "Summarize: {text}", "id": "key"}, SCALED),
        ({"deadline": "3d", "retentionDays": 4}, SCALED),
        ({"input": "gs://my-bucket/documents.jsonl", "endpoint": "completions"}, SCALED),
        ({}, {"server": {"scaling": {"mode": "batch"}, "replicas": 0}}),
        ({}, {**SCALED, "gateway": {"enabled": True}}),
        ({}, {**SCALED, "endpoint": {"kind": "leastRequest"}}),
        ({}, {"server": {"scaling": {"mode": "batch"}}, "weights": {"source": "huggingface"}}),
        ({}, {**SCALED, "platform": {"stack": "acme/vllm-fleet/base"}}),
    ],
)
def test_nothing_speaks_against_a_batch_that_can_run(batch: dict[str, Any], stack: dict[str, Any]) -> None:
    assert found(batch, stack) == {}


@each_row(
    ("batch", "stack", "said", "subject"),
    [
        ({}, {**SCALED, "rollout": {"engine": {"maxNumSeqs": 64}}}, "batch-with-canary", "rollout"),
        (
            {},
            {**SCALED, "benchmark": {"enabled": True, "runOnUpdate": False}},
            "benchmark-between-batches",
            "benchmark.enabled",
        ),
        ({"template": "{text}", "endpoint": "completions"}, SCALED, "batch-template-is-chat", "batch.endpoint"),
        ({"id": "key"}, SCALED, "without-effect", "batch.id"),
        ({"defaults": {"maxTokens": 32768}}, SCALED, "batch-answer-exceeds-context", "batch.defaults.maxTokens"),
        ({"deadline": "5m"}, SCALED, "batch-deadline-below-start", "batch.deadline"),
        ({"deadline": "7.1d"}, SCALED, "batch-deadline-beyond-job", "batch.deadline"),
        ({"deadline": "3d", "retentionDays": 3}, SCALED, "batch-retention-below-deadline", "batch.retentionDays"),
        ({"maxUsd": 2.0}, SCALED, "batch-limit-below-start", "batch.maxUsd"),
        ({"enabled": False}, SCALED, "scaling-without-batch", "batch.enabled"),
        (
            {},
            {"server": {"scaling": {"mode": "batch", "max": 2}}, "weights": {"source": "huggingface"}},
            "download-per-replica",
            "weights.source",
        ),
    ],
)
def test_what_a_batch_could_not_do_is_refused(
    batch: dict[str, Any], stack: dict[str, Any], said: str, subject: str
) -> None:
    finding = found(batch, stack)[said]
    assert (finding.severity, finding.subject) == ("error", f"vllm-fleet:{subject}")


@each_row(
    ("scaling", "said", "subject"),
    [
        ({"min": 1, "max": 4}, "scaling-batch-alone", "min"),
        ({"windows": [{"start": "07:00", "end": "20:00", "replicas": 1}]}, "scaling-batch-alone", "windows"),
        ({"targetInFlight": 100}, "scaling-batch-alone", "targetInFlight"),
        ({"leadMinutes": 30}, "scaling-batch-alone", "leadMinutes"),
        ({"timezone": "Europe/Berlin"}, "scaling-batch-alone", "timezone"),
    ],
)
def test_the_batch_alone_decides_how_many_servers_run(scaling: dict[str, Any], said: str, subject: str) -> None:
    finding = found({}, {"server": {"scaling": {"mode": "batch", **scaling}}})[said]
    assert (finding.severity, finding.subject) == ("error", f"vllm-fleet:server.scaling.{subject}")


NIGHT = {"mode": "schedule", "min": 0, "max": 4, "windows": [{"start": "20:00", "end": "24:00", "replicas": 2}]}
MIXED = {"gateway": {"enabled": True}, "rollout": {"engine": {"maxNumSeqs": 64}, "weight": 10}}
UNPRICED = {**SCALED, "machine": "a4-highgpu-8g", "zones": ["africa-south1-a"], "region": "africa-south1"}
PRICED = {**UNPRICED, "capacity": {"mode": "spot", "usdPerNodeHour": 30.0}}
STAY = {"batch-servers-stay": "note"}


@each_row(
    ("batch", "stack", "expected"),
    [
        # Servers that are not a batch's alone stay, and are billed.
        ({}, FIXED, STAY),
        ({}, {"server": {"replicas": "external"}}, STAY),
        ({}, {"server": {"scaling": {"mode": "load", "min": 1, "max": 4}}}, STAY),
        # Two releases behind one gateway answer one batch.
        ({}, {"server": {"replicas": 2}, **MIXED}, {**STAY, "batch-of-two-releases": "warning"}),
        ({}, {"server": {"scaling": NIGHT}}, {**STAY, "batch-waits-for-windows": "note"}),
        ({"enabled": False, "deadline": "8h"}, {"server": {"replicas": 2}}, {"without-effect": "note"}),
        # A ceiling needs a known price of the nodes.
        ({"maxUsd": 200.0}, UNPRICED, {"batch-counts-no-nodes": "error"}),
        ({"maxUsd": 200.0}, PRICED, {}),
    ],
)
def test_what_a_batch_costs_or_waits_for_is_told(
    batch: dict[str, Any], stack: dict[str, Any], expected: dict[str, str]
) -> None:
    assert {id_: one.severity for id_, one in found(batch, stack).items()} == expected


@each_row(
    ("batch", "allowed"),
    [
        ({"endpoint": "embeddings"}, "generate runner, which has no embeddings"),
        ({"input": "documents.jsonl"}, "gs://BUCKET/OBJECT"),
        ({"input": "s3://bucket/documents.jsonl"}, "gs://BUCKET/OBJECT"),
        ({"deadline": "soon"}, "a duration from 1m"),
        ({"deadline": "0h"}, "a duration from 1m"),
        ({"template": "Summarize this"}, "names no key"),
        ({"template": "{text} }"}, "braces"),
        ({"template": "{text.more}"}, "is not the name of a key"),
        ({"maxUsd": 0}, "> 0"),
        ({"retentionDays": 0}, ">= 1"),
    ],
)
def test_a_wrong_value_is_told_with_what_is_allowed(batch: dict[str, Any], allowed: str) -> None:
    with pytest.raises(SettingsError) as refused:
        make_settings(batch={"enabled": True, **batch})
    (finding,) = refused.value.problems
    assert finding.subject == f"vllm-fleet:batch.{next(iter(batch))}"
    assert allowed in f"{finding.allowed}; {finding.why}"


@each_row(("text", "seconds"), [("90m", 5_400.0), ("8h", 28_800.0), ("1.5d", 129_600.0), (None, None)])
def test_a_deadline_is_a_number_of_seconds(text: str | None, seconds: float | None) -> None:
    assert Batch(deadline=text).deadline_seconds == seconds


def test_defaults_are_fields_of_a_request() -> None:
    given = Batch.model_validate({"defaults": {"maxTokens": 500, "temperature": 0.9}})
    assert given.defaults.body() == {"max_tokens": 500, "temperature": 0.9}


def test_nothing_but_the_platform_is_paid_between_batches() -> None:
    settings = make_settings(**SCALED, batch={"enabled": True})
    assert (settings.replicas, settings.least_replicas, settings.gpu_ceiling, settings.scales_by_batch) == (
        4,
        0,
        32,
        True,
    )
    bill = figures(settings).bill
    assert bill.scaled is not None
    rest = {item.id: item.quantity for item in bill.scaled.smallest.items}
    assert rest["nodes"] == 0
    assert not {"autopilot-premium", "batch-clients"} & rest.keys()
    assert (
        next(item.quantity for item in bill.items if item.id == "batch-clients") == 4 * 15 / 4
    )  # 15 pods a server, a quarter of a vCPU each
    assert (bill.scaled.smallest.usd_per_hour or 9) < 0.2
    assert bill.usd_per_month_by_schedule is None
    assert "usdPerHourAtFewest" in figures(settings).exports()


def test_a_batch_needs_a_bucket_and_the_servers_key() -> None:
    settings = make_settings(server={"replicas": 2, "apiKeySecret": "api-key"}, batch={"enabled": True})
    assert ("batch", "api-key") in secret_readers(settings)
    assert {"storage.buckets.create", "storage.buckets.setIamPolicy"} <= required_permissions(settings).keys()
