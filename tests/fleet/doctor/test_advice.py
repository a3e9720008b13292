"""Compute Engine's Advice API as its discovery document says, and a plan that asks it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from fleet.clients.google_api import VARIABLE
from fleet.doctor.advice import Advice, read
from tests.fleet.cli.command import fleet
from tests.fleet.doctor.fake_project import ADVICE, PROJECT, TOKEN, FakeProject, capacity, history, rows, session
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


A4 = ("plan", "--live", "--machine", "a4-highgpu-8g", "--users", "16000", "--confidence", "0.999", "--format", "json")


def test_a_plan_ranks_zones_and_sizes_spares_by_the_preemptions_of_the_likeliest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Project(FakeProject):
        def send(self, request: Any, **how: Any) -> Any:
            where = str(request.url).removeprefix("https://")
            if where.endswith("/advice/capacity"):
                zone = json.loads(request.body)["distributionPolicy"]["zones"][0]["zone"]
                said: Any = capacity()
                said["recommendations"][0]["scores"]["obtainability"] = 0.9 if zone == "zones/us-east4-b" else 0.2
                self.said[where] = 400 if zone == "zones/us-central1-b" else said
            else:
                self.said[where] = history()
            return super().send(request, **how)

    login = {"GOOGLE_CLOUD_PROJECT": "fleet-tests", VARIABLE: TOKEN}
    project = Project()
    # One at a time: an answer stands in one place of it.
    monkeypatch.setattr("fleet.doctor.advice.side_by_side", lambda of, zones, _: list(map(of, zones)))
    session(project, monkeypatch)
    document = json.loads(fleet(*A4, **login).stdout)
    in_region = json.loads(fleet(*A4, "--region", "us-east4", "--loss-per-node-day", "0", **login).stdout)
    zones = {one["zone"]: one for one in document["spotZones"]}
    first, *_, last = zones
    assert (first, last) == ("us-east4-b", "us-central1-b")
    assert zones[first]["obtainability"] == 0.9
    assert (zones[last]["obtainability"], bool(zones[last]["refused"])) == (None, True)
    assert {where.partition("/regions/")[0] for _, where, _ in project.asked} == {PROJECT}
    without = json.loads(fleet(*A4[:1], *A4[2:]).stdout)
    assert "spotZones" not in without
    assert (document["plan"]["spares"], without["plan"]["spares"]) == (1, 0)
    assert {one["zone"].rpartition("-")[0] for one in in_region["spotZones"]} == {"us-east4"}
    assert in_region["plan"]["spares"] == 0


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (A4[:2] + A4[4:], "--machine"),
        ((*A4, "--capacity", "on-demand"), "--machine"),
        ((*A4, "--region", "europe-west99"), "--region"),
        (A4, "GOOGLE_CLOUD_PROJECT"),
    ],
)
def test_live_is_about_one_machine_on_spot_in_a_project(options: tuple[str, ...], said: str) -> None:
    done = fleet(*options)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
