"""What all checks together come to."""

from __future__ import annotations

import json

import pytest

from fleet.verify.findings import Check, Report, State
from fleet.verify.report import json_text


@pytest.mark.parametrize(
    ("states", "outcome"),
    [
        (("passed", "not checked", "information"), "passed"),
        (("passed", "failed", "not checked"), "failed"),
        (("failed", "not checked"), "failed"),
        (("not checked", "information"), "not checked"),
        ((), "not checked"),
    ],
)
def test_a_report_passes_where_something_held_and_nothing_failed(states: tuple[State, ...], outcome: str) -> None:
    checks = tuple(Check(id=f"c{n}", title="", state=state, summary="") for n, state in enumerate(states))
    report = Report(project="p", stack="s", endpoint="", looked_at="", seconds=1.0, checks=checks)
    assert report.outcome == outcome
    assert report.passed == (outcome == "passed")
    assert json.loads(json_text(report))["passed"] == report.passed
