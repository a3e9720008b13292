"""What all checks together come to."""

from __future__ import annotations

import json

import pytest

from facts.finding import Finding, Severity
from fleet.report.as_json import json_text
from fleet.verify.findings import Report, difference, judged
from fleet.verify.report import outline


@pytest.mark.parametrize(
    ("states", "outcome"),
    [
        (("passed", "unknown", "note"), "passed"),
        (("passed", "error", "unknown"), "failed"),
        (("error", "unknown"), "failed"),
        (("unknown", "note"), "not checked"),
        ((), "not checked"),
    ],
)
def test_a_report_passes_where_something_held_and_nothing_failed(states: tuple[Severity, ...], outcome: str) -> None:
    checks = tuple((Finding(id=f"c{n}", subject="", severity=state),) for n, state in enumerate(states))
    report = Report(project="p", stack="s", endpoint="", looked_at="", seconds=1.0, checks=checks)
    assert report.outcome == outcome
    assert json.loads(json_text(outline(report)))["passed"] == (outcome == "passed")


def test_what_differs_alike_on_several_pods_stands_together() -> None:
    found = [difference(pod, name, "1", "2") for pod in ("a", "b") for name in ("--x", "--y")]
    check = judged("flags", "Flags", found, held="", failed="other flags")
    assert [(one.id, one.subject) for one in check] == [
        ("flags", "Flags"),
        ("flags", "a · --x"),
        ("flags", "b · --x"),
        ("flags", "a · --y"),
        ("flags", "b · --y"),
    ]
