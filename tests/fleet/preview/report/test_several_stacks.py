"""Reports of several stacks: none is lost because another fails, and the worst is on top."""

from __future__ import annotations

import json
from dataclasses import replace

from facts.finding import Finding
from fleet.cli.exits import error_text
from fleet.preview.policy import Violation
from fleet.preview.record.recording import Diagnostic, ProgramError
from fleet.preview.report.model import Policies, Report
from fleet.preview.report.outline import preview_outline, row_of
from fleet.preview.report.several_stacks import by_weight, preview_each, refusals_of, reports_of, stack_of
from fleet.report.outline import Section
from settings.problems import SettingsError
from tests.fleet.preview.sample_changes import ADVISORY, MANDATORY, REFUSAL, compared_report, unchanged_report
from tests.fleet.preview.sample_report import sample_report
from tests.support.formats import json_of, markdown_of, text_of


def test_a_stack_that_is_refused_does_not_keep_the_others_from_their_preview() -> None:
    problem = Finding(id="p", subject="a.b", found=1, allowed="2", why="because", write="b: 2")

    def preview(stack: str) -> Report:
        if stack == "bad":
            raise SettingsError(stack, [problem])
        if stack == "broken":
            raise ProgramError("it raised")
        if stack == "defect":
            raise KeyError("spec")
        return sample_report()

    outcomes = preview_each(["bad", "test", "broken", "defect"], preview, error_text)
    assert [stack_of(one) for one in outcomes] == ["bad", "test", "broken", "defect"]
    bad, broken, defect = refusals_of(outcomes)
    assert "Stack 'bad'" in bad.message
    assert "a.b" in bad.message
    assert broken.message == "fleet: the program could not be recorded: it raised"
    assert "This is a bug in fleet" in defect.message
    assert len(reports_of(outcomes)) == 1


def marks(*violations: Violation) -> str:
    return row_of(sample_report(problems=(), policies=Policies(state="judged", violations=violations)))[1][0]


def test_a_warning_marks_a_stack_and_what_is_repeated_on_purpose_or_a_note_does_not() -> None:
    assert marks(MANDATORY) == "✗"
    assert marks(*ADVISORY) == "!"
    quiet = replace(SILENT, policies=Policies(state="judged"))
    assert row_of(quiet)[1][0] == "✓"
    for told in ({"policy": "repeated-on-purpose"}, {"rated": "note"}):
        violations = tuple(replace(one, **told) for one in ADVISORY)  # type: ignore[arg-type]
        report = replace(SILENT, policies=Policies(state="judged", violations=violations))
        assert row_of(report)[1][0] == "✓"
        assert preview_outline(report, quiet).verdict == "no problems"
    warned = replace(SILENT, policies=Policies(state="judged", violations=ADVISORY))
    assert preview_outline(warned, quiet).verdict == "warnings in 1 stack (test)"


SILENT = replace(sample_report(problems=()), diagnostics=())
CHANGED, QUIET = compared_report(), replace(unchanged_report(), policies=Policies(state="judged"))


def test_refused_stacks_come_first_and_unchanged_ones_last() -> None:
    assert by_weight([QUIET, CHANGED, REFUSAL]) == (REFUSAL, CHANGED, QUIET)
    failed = replace(QUIET, diagnostics=(Diagnostic(severity="error", message="it failed", urn=""),))
    assert by_weight([QUIET, failed, sample_report()]) == (failed, sample_report(), QUIET)


def test_an_unchanged_stack_is_folded() -> None:
    assert [one.folding for one in preview_outline(CHANGED, QUIET, QUIET).body if isinstance(one, Section)] == [
        "screen",
        "always",
        "always",
    ]
    assert text_of(CHANGED, QUIET, QUIET).count("no changes") == 2  # in the table


def test_a_comment_about_unchanged_stacks_is_short() -> None:
    quiet = replace(unchanged_report(), policies=Policies(state="judged", violations=ADVISORY))
    text = markdown_of(quiet, quiet)
    assert "Compared with `main (1a2b3c4d)`." in text
    assert text.count("<details><summary>test: not blocked, no changes against main (1a2b3c4d)</summary>") == 2
    in_sight = text.partition("<details>")[0]
    assert "declared-needs-missing" in text
    assert "declared-needs-missing" not in in_sight


def test_an_unchanged_stack_that_breaks_a_mandatory_policy_is_not_folded_away() -> None:
    text = markdown_of(unchanged_report(), unchanged_report())
    assert "<summary>test: " not in text
    assert text.count("(error, `no-surge-on-gpu-pods`)") == 2


def test_machines_get_a_document_for_each_stack() -> None:
    given = json.loads(json_of(sample_report(), REFUSAL))
    assert [one["stack"] for one in given["stacks"]] == ["test"]
    assert {"version": given["version"], **given["stacks"][0]} == json.loads(json_of(sample_report()))
    assert given["refused"] == [{"stack": "guest", "message": REFUSAL.message}]
