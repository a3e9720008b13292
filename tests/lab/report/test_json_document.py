from __future__ import annotations

import json
import re

import pytest

from fleet.report.as_json import json_text
from lab.report import json_document
from lab.report.outline import outline
from tests.lab.report.samples import a_day, bring_up, sample_report

TEXT = json_document.__doc__ or ""
DESCRIBED = [
    name
    for line in TEXT.splitlines()
    if (found := re.match(r"    (\w+(?:, \w+)*)  ", line))
    for name in found[1].split(", ")
]


def test_the_documents_keys_are_those_it_documents() -> None:
    document = json.loads(json_text(outline(sample_report())))
    assert list(document) == ["version", *DESCRIBED]
    assert all(re.search(rf"\b{key}\b", TEXT) for key in document["findings"][0])


@pytest.mark.parametrize("sample", [bring_up, a_day])
def test_every_key_of_a_drill_is_documented(sample: object) -> None:
    (drill,) = json_document.as_document(sample_report(sample()))["drills"]  # type: ignore[operator]
    parts = [part for name in ("checks", "figures", "moments") for part in drill[name][:1]]
    parts += [drill["day"], drill["day"]["curves"][0]] if drill["day"] else []
    for key in {*drill}.union(*parts):
        assert re.search(rf"\b{key}\b", TEXT), key


def test_a_day_is_there_with_its_curves() -> None:
    (drill,) = json_document.as_document(sample_report(a_day()))["drills"]
    assert drill["day"]["startsAt"] == "07:20"
    assert drill["day"]["curves"][1] == {"name": "replicas Ready", "points": [[6000.0, 0], [7800.0, 1]]}
    assert [figure["about"] for figure in drill["figures"]] == ["What it cost", "What clients noticed"]


def test_the_document_has_everything_that_happened() -> None:
    report = sample_report()
    document = json.loads(json_text(outline(report)))
    assert document["passed"] is False
    assert [drill["state"] for drill in document["drills"]] == [
        "passed",
        "failed",
        "passed",
        "failed",
        "skipped",
        "passed",
    ]
    assert document["drills"][3]["gaveUp"].startswith("waited 40 simulated minutes")
    assert [len(drill["moments"]) for drill in document["drills"]] == [len(drill.moments) for drill in report.drills]
    assert document["retained"][1]["usdPerMonth"] is None
    assert [(finding["id"], finding["severity"]) for finding in document["findings"]] == [
        ("not-applied", "error"),
        ("ready-after-the-timeout", "warning"),
        ("thirteenth", "error"),
    ]
