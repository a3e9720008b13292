from __future__ import annotations

import json
import re

from lab.report import json_document
from lab.report.json_document import as_document, json_text
from tests.lab.report.samples import a_day, bring_up, sample_report


def test_the_documents_keys_are_those_it_documents() -> None:
    described = [
        name
        for line in (json_document.__doc__ or "").splitlines()
        if (found := re.match(r"    (\w+(?:, \w+)*)  ", line))
        for name in found[1].split(", ")
    ]
    assert list(as_document(sample_report())) == described


def test_every_key_of_a_drill_is_documented() -> None:
    text = json_document.__doc__ or ""
    (drill,) = as_document(sample_report(bring_up()))["drills"]
    for key in (*drill, *drill["checks"][0], *drill["figures"][0], *drill["findings"][0], *drill["moments"][0]):
        assert re.search(rf"\b{key}\b", text), key


def test_a_day_is_there_with_its_curves_and_their_keys_are_documented() -> None:
    (drill,) = as_document(sample_report(a_day()))["drills"]
    day = drill["day"]
    assert day["startsAt"] == "07:20"
    assert day["curves"][1] == {"name": "replicas Ready", "points": [[6000.0, 0], [7800.0, 1]]}
    assert [one["about"] for one in drill["figures"]] == ["What it cost", "What clients noticed"]
    for key in (*day, *day["curves"][0]):
        assert re.search(rf"\b{key}\b", json_document.__doc__ or ""), key


def test_the_document_is_json_with_everything_that_happened() -> None:
    report = sample_report()
    document = json.loads(json_text(report))
    assert document["passed"] is False
    assert [one["state"] for one in document["drills"]] == ["passed", "failed", "passed", "failed", "skipped", "passed"]
    assert document["drills"][3]["gaveUp"].startswith("waited 40 simulated minutes")
    assert [len(one["moments"]) for one in document["drills"]] == [len(one.moments) for one in report.drills]
    first = document["drills"][0]["moments"][0]
    assert first["untilSeconds"] is None
    assert document["retained"][1]["usdPerMonth"] is None


def test_the_same_report_gives_the_same_text() -> None:
    assert json_text(sample_report()) == json_text(sample_report())
    assert json_text(sample_report()).endswith("}\n")
