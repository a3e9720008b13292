"""Compute Engine's Advice API as its discovery document says, and a plan that asks it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fleet.doctor.advice import Advice, read
from tests.fleet.doctor.fake_project import ADVICE, FakeProject, capacity, history, rows
from tests.support.settings import make_settings

DOCUMENT = json.loads((Path(__file__).parent / "compute_advice.json").read_text())
KINDS = {"string": str, "number": (int, float), "integer": int, "array": list, "object": dict}


def conform(value: Any, type_: Mapping[str, Any]) -> None:
    """Fails where a value has a field or a form that its type does not have."""
    type_ = DOCUMENT["schemas"][type_["$ref"]] if "$ref" in type_ else type_
    assert isinstance(value, KINDS[type_["type"]]), (value, type_)
    assert value in type_.get("enum", [value])
    if isinstance(value, list):
        for one in value:
            conform(one, type_["items"])
    elif isinstance(value, dict):
        for key, one in value.items():
            conform(one, type_["properties"][key] if "properties" in type_ else type_["additionalProperties"])


def test_requests_and_answers_are_those_of_the_document() -> None:
    project = FakeProject()
    row = rows(make_settings(), project)["a4-highgpu-8g on Spot, europe-west4-b"]
    assert (row.severity, row.found, row.allowed) == ("passed", "0.80, likely", "at least 12")
    asked = {where: body for _, where, body in project.asked if where.startswith(ADVICE)}
    assert asked[f"{ADVICE}/capacity"]["size"] == 12
    for method, answer in (("capacity", capacity()), ("capacityHistory", history())):
        described = DOCUMENT["methods"][method]
        path = described["path"].format(project="fleet-tests", region="europe-west4")
        assert f"compute.googleapis.com/{DOCUMENT['servicePath']}{path}" == f"{ADVICE}/{method}"
        conform(asked[f"{ADVICE}/{method}"], described["request"])
        conform(answer, described["response"])


def test_the_newest_price_and_the_mean_of_the_days_count() -> None:
    assert read("europe-west4-b", 12, capacity(), history()) == Advice(
        zone="europe-west4-b", nodes=12, obtainability=0.8, uptime_seconds=3600, preempted=0.25, price="34.07 USD"
    )
