"""Compute Engine's Advice API, answered on loopback as its discovery document says.

compute_advice.json: the two methods and their types, without descriptions, of the discovery document of Compute Engine API v1 in
google-api-python-client 2.202.0.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from fleet.doctor import rest
from fleet.doctor.advice import Advice, read
from fleet.doctor.gcloud import NoAnswerError
from fleet.doctor.judge import judge
from fleet.doctor.questions import questions
from lab.simulators.local_server import Answer, Request, served
from tests.fleet.doctor.replies import advice
from tests.fleet.doctor.test_judge import RESERVED, SPOT, answered, rows
from tests.support.rows import each_row
from tests.support.settings import make_settings

DOCUMENT = json.loads((Path(__file__).parent / "compute_advice.json").read_text())
NAME = "a4-highgpu-8g on Spot, europe-west4-b"
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


@contextmanager
def compute(monkeypatch: pytest.MonkeyPatch, answer: Callable[[Request], Answer]) -> Iterator[None]:
    with served(answer) as port:
        monkeypatch.setattr(rest, "COMPUTE", f"http://127.0.0.1:{port}/compute")
        monkeypatch.setenv("GOOGLE_OAUTH_ACCESS_TOKEN", "a-token")
        yield


def test_requests_and_answers_are_those_of_the_document(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def google(request: Request) -> Answer:
        method = request.path.rpartition("/")[2]
        path = DOCUMENT["methods"][method]["path"].format(project="fleet-tests", region="europe-west4")
        assert (request.method, request.path) == ("POST", f"/{DOCUMENT['servicePath']}{path}")
        conform(json.loads(request.content), DOCUMENT["methods"][method]["request"])
        asked.append(json.loads(request.content))
        answer = advice()["history" if method == "capacityHistory" else "capacity"]
        conform(answer, DOCUMENT["methods"][method]["response"])
        return Answer.of_json(200, answer)

    with compute(monkeypatch, google):
        said = questions(SPOT)["Spot"]()
    assert said == [advice()]
    assert asked[0]["size"] == 12
    row = rows(Spot=said)[NAME]
    assert (row.severity, row.found, row.allowed) == ("passed", "0.80, likely", "at least 12")


def test_the_newest_price_and_the_mean_of_the_days_count() -> None:
    assert read(advice()) == Advice(
        zone="europe-west4-b", nodes=12, obtainability=0.8, uptime_seconds=3600, preempted=0.25, price="34.07 USD"
    )


@each_row(
    ("capacity", "severity", "found"),
    [
        ({"recommendations": [{"scores": {"obtainability": 0.7}}]}, "passed", "0.70, likely"),
        ({"recommendations": [{"scores": {"obtainability": 0.4}}]}, "note", "0.40, in part"),
        ({"recommendations": [{"scores": {"obtainability": 0}}]}, "note", "0.00, unlikely"),
        ({"recommendations": [{"scores": {"estimatedUptime": "600s"}}]}, "note", "not known"),
        ({"recommendations": [{}]}, "note", "not known"),
        ({"recommendations": []}, "note", "not known"),
        ({}, "note", "not known"),
    ],
)
def test_what_is_not_likely_or_not_known_is_no_obstacle(capacity: Any, severity: str, found: str) -> None:
    row = rows(Spot=[advice() | {"capacity": capacity, "history": {}}])[NAME]
    assert (row.severity, row.found, bool(row.write)) == (severity, found, severity == "note")


@each_row(
    ("answer", "reason"),
    {
        "API off": (
            Answer.of_json(403, {"error": {"message": "it is disabled", "status": "PERMISSION_DENIED"}}),
            "forbidden",
        ),
        "no method": (Answer(404, b"<html>"), "refused"),
        "unknown machine": (Answer.of_json(400, {"error": {"message": "Invalid machine type"}}), "refused"),
        "old login": (Answer.of_json(401, {}), "login"),
        "broken": (Answer(500, b""), "refused"),
    }.values(),
)
def test_a_refusal_is_one_row_that_is_unknown(monkeypatch: pytest.MonkeyPatch, answer: Answer, reason: str) -> None:
    with compute(monkeypatch, lambda _: answer), pytest.raises(NoAnswerError) as caught:
        questions(SPOT)["Spot"]()
    assert caught.value.reason == reason
    unknown = [row for row in judge(SPOT, answered(SPOT, Spot=caught.value)) if row.severity == "unknown"]
    assert [(row.subject, bool(row.write)) for row in unknown] == [("a4-highgpu-8g on Spot", True)]


@each_row(
    ("part", "value"),
    [
        ("capacity", None),
        ("capacity", {"recommendations": [{"scores": {"obtainability": 7}}]}),
        ("history", []),
        ("zone", 4),
    ],
)
def test_an_answer_of_another_form_is_unknown(part: str, value: Any) -> None:
    assert rows(Spot=[{**advice(), part: value}])["a4-highgpu-8g on Spot"].severity == "unknown"


def test_only_spot_is_asked_about_and_only_a_volume_needs_its_disk() -> None:
    assert "Spot" not in questions(RESERVED)
    assert "Spot" in questions(make_settings(capacity={"mode": "ladder"}))
    assert "disk types" not in questions(make_settings(weights={"source": "huggingface"}))
