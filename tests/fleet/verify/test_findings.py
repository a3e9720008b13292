"""What all checks together come to."""

from __future__ import annotations

import json

import pytest

from facts.finding import Finding, Severity
from fleet.report.as_json import json_text
from fleet.verify.facts import Facts
from fleet.verify.findings import Part, Report, Seen, Unseen, check, difference
from fleet.verify.report import outline
from settings.stack import Settings
from tests.support.rows import each_row


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


PODS = [difference(pod, name, "1", "2") for pod in ("a", "b") for name in ("--x", "--y")]


@each_row(
    ("applies", "why", "parts", "expected"),
    [
        (False, "", [Seen("all")], None),
        (True, "no cluster", [Seen("all")], [("unknown", "Flags", "no cluster")]),
        (True, "", [Seen("a"), Seen("b")], [("passed", "Flags", "a; b")]),
        (True, "", [Seen("a"), Unseen("c")], [("unknown", "Flags", "c")]),
        # A difference outweighs what was not seen; what differs in the same way on several pods stands together.
        (
            True,
            "",
            [Unseen("c"), *PODS],
            [("error", "Flags", "restart"), *(("error", f"{pod} · --{name}", "2") for name in "xy" for pod in "ab")],
        ),
    ],
)
def test_a_row_comes_to_one_verdict(
    dev: Settings, applies: bool, why: str, parts: list[Part], expected: list[tuple[str, str, str]] | None
) -> None:
    made = check("flags", "Flags", "restart", needs=lambda _: why, applies=lambda _: applies)
    found = made(lambda *_: iter(parts))(Facts(endpoint="", door=None), dev)
    assert (found and [(one.severity, one.subject, one.found) for one in found]) == expected
    assert {one.id for one in found or ()} <= {"flags"}
