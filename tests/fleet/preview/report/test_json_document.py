"""The machines' report: the contract's keys, and nothing that must stay inside."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fleet.preview.policy import Violation
from fleet.preview.report.model import Policies
from tests.fleet.preview.sample_report import TOKEN, sample_recording, sample_report
from tests.support.formats import json_of


def document(**report: Any) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(json_of(sample_report(**report)))
    return loaded


def test_the_keys_are_the_contract() -> None:
    given = document()
    assert set(given) == {
        "version",
        "project",
        "stack",
        "resources",
        "outputs",
        "violations",
        "changes",
        "plan",
        "findings",
    }
    keys = {"urn", "type", "name", "parent", "provider", "dependencies", "protect", "inputs"}
    assert {frozenset(one) for one in given["resources"]} == {frozenset(keys)}
    assert set(given["plan"]) >= {"figures", "bill", "findings", "mode"}


def test_every_resource_is_there_and_every_create_is_a_step() -> None:
    given = document()
    assert len(given["resources"]) == 11  # a stack that is only read is recorded too
    assert given["changes"]["summary"] == {"create": 10}
    assert {step["operation"] for step in given["changes"]["steps"]} == {"create"}
    assert {step["urn"] for step in given["changes"]["steps"]} < {one["urn"] for one in given["resources"]}


def test_secrets_and_unknown_values_are_named_not_shown() -> None:
    text = json_of(sample_report())
    assert TOKEN not in text
    given = json.loads(text)
    secret = next(one for one in given["resources"] if one["type"] == "kubernetes:core/v1:Secret")
    assert secret["inputs"]["stringData"] == "[secret]"
    assert given["outputs"] == {
        "endpoint": "http://qwen35-server:8000",
        "kubeconfig": "[secret]",
        "address": "[unknown]",
    }
    assert given["plan"]["diagnostics"][0]["message"] == "the token [secret] was seen"


def test_secrets_stay_secret_in_known_mode() -> None:
    given = document(recording=sample_recording("known"))
    assert given["outputs"]["kubeconfig"] == "[secret]"
    assert given["plan"]["mode"] == "known"


def test_the_figure_comes_with_label_source_and_argued_differences() -> None:
    figures = document()["plan"]["figures"]
    assert figures["match"] == "equivalent"
    assert figures["proven"] is True
    assert figures["published"]["totalTokensPerSecond"] == 1_103_941
    assert figures["published"]["outputTokensPerSecond"] == 367_980
    assert figures["published"]["label"] == "published, vLLM 0.18.0"
    assert all(difference["argument"] for difference in figures["differences"])


def test_no_figure_is_said_as_such() -> None:
    figures = document(server={"replicas": 10})["plan"]["figures"]
    assert figures["match"] == "none"
    assert figures["published"] is None
    assert figures["reason"] == "no published figure for 10 nodes"


def test_the_bill_marks_what_is_unknown() -> None:
    bill = document()["plan"]["bill"]
    nodes = next(item for item in bill["items"] if item["id"] == "nodes")
    assert nodes["usdPerHour"] == pytest.approx(12 * 34.0736)
    assert (nodes["source"]["region"], nodes["source"]["date"]) == ("europe-west4", "2026-07-03")
    assert [item["id"] for item in bill["once"]] == ["nat-data"]
    assert bill["isAtLeast"] is True
    unknown = [item for item in bill["items"] if item["unitPriceUsd"] is None]
    assert unknown
    assert all(item["reason"] for item in unknown)
    assert bill["usdPerHour"] >= bill["usdPerHourAtZeroReplicas"] > 0


def test_a_ladder_has_no_hourly_price_of_what_stands_around_it() -> None:
    bill = document(capacity={"mode": "ladder"})["plan"]["bill"]
    nodes = next(item for item in bill["items"] if item["id"] == "nodes")
    assert (bill["usdPerHour"], nodes["unitPriceUsd"]) == (None, None)
    assert "spot $34.07" in nodes["reason"]
    assert "reservation" not in nodes["reason"].partition(":")[2]


def test_prices_that_nobody_looked_at_for_half_a_year_are_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "old-prices" not in {one["id"] for one in document()["plan"]["findings"]}
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1798761600")  # 2027-01-01
    found = next(one for one in document()["plan"]["findings"] if one["id"] == "old-prices")
    assert found["found"] == "2026-07-03"
    assert "facts/data/prices.csv" in found["write"]


def test_violations_are_listed_with_their_level() -> None:
    violation = Violation(policy="no-public-service", level="mandatory", urn="urn:x", message="saw it")
    given = document(policies=Policies(state="judged", violations=(violation,)))
    assert given["violations"] == [
        violation.finding.as_json()
        | {"policy": "no-public-service", "level": "mandatory", "urn": "urn:x", "judges": []}
    ]
    assert given["plan"]["policies"] == "judged"
