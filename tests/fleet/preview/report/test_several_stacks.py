"""Reports of several stacks: none is lost because another fails, and the worst is on top."""

from __future__ import annotations

import json
from dataclasses import replace

from facts.finding import Finding
from fleet.cli.exits import error_text
from fleet.preview.record.recording import Diagnostic, ProgramError
from fleet.preview.report.model import Policies, Report
from fleet.preview.report.several_stacks import by_weight, preview_each, refusals_of, reports_of, stack_of
from fleet.preview.report.stack_list import line_of
from settings.problems import SettingsError
from tests.fleet.preview.sample_changes import ADVISORY, REFUSAL, compared_report, unchanged_report
from tests.fleet.preview.sample_report import sample_report
from tests.support.formats import html_of, json_of, markdown_of, text_of


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


def test_a_line_has_verdict_change_price_and_rate() -> None:
    line = line_of(compared_report())
    assert line.verdict == "1 blocking violation, 2 dangers, 2 warnings"
    words, *effects = line.change
    assert words.startswith("replicas 12 → 8, ")
    assert tuple(effects) == compared_report().comparison.effects  # type: ignore[union-attr]
    assert line.price == "at least $392.25 → at least $261.80 an hour"
    assert line.rate.startswith("1,103,941 → ")
    assert line.stops
    alone = line_of(sample_report())
    assert alone.change == ("10 resources to create",)
    assert alone.price.startswith("at least $409.01 an hour")
    assert not alone.stops
    assert not alone.warns


def test_what_is_repeated_on_purpose_is_counted_and_warns_nobody() -> None:
    repeated = tuple(replace(one, policy="repeated-on-purpose") for one in ADVISORY)
    line = line_of(sample_report(policies=Policies(state="judged", violations=repeated)))
    assert line.verdict == "no violations, 2 deliberate exceptions"
    assert not line.warns
    assert line_of(sample_report(policies=Policies(state="judged", violations=ADVISORY))).warns


QUIET_FIRST = sample_report(policies=Policies(state="judged"))


def test_the_first_line_names_the_stacks_with_warnings_but_none_for_what_is_a_note() -> None:
    warned = sample_report(policies=Policies(state="judged", violations=ADVISORY))
    assert text_of(warned, QUIET_FIRST).splitlines()[1] == "warnings in 1 stack (test)"
    noted = tuple(replace(one, rated="note") for one in ADVISORY)
    report = sample_report(policies=Policies(state="judged", violations=noted))
    assert not line_of(report).warns
    assert {one["severity"] for one in json.loads(json_of(report))["violations"]} == {"note"}
    assert text_of(report, QUIET_FIRST).splitlines()[1] == "no problems"


CHANGED, QUIET = compared_report(), replace(unchanged_report(), policies=Policies(state="judged"))


def test_refused_stacks_come_first_and_unchanged_ones_last() -> None:
    assert by_weight([QUIET, CHANGED, REFUSAL]) == (REFUSAL, CHANGED, QUIET)
    failed = replace(QUIET, diagnostics=(Diagnostic(severity="error", message="it failed", urn=""),))
    assert by_weight([QUIET, failed, sample_report()]) == (failed, sample_report(), QUIET)


def test_an_unchanged_stack_is_one_line_of_the_text() -> None:
    text = text_of(CHANGED, QUIET, QUIET)
    assert len(text.splitlines()) - len(text_of(CHANGED).splitlines()) < 35
    assert text.count("no changes") == 2


def test_an_unchanged_stack_is_folded_on_the_page() -> None:
    page = html_of(CHANGED, QUIET)
    assert page.count("<details id=") == 1
    assert '<details id="stack-2"><summary>test' in page


def test_a_comment_about_unchanged_stacks_is_short() -> None:
    quiet = replace(unchanged_report(), policies=Policies(state="judged", violations=ADVISORY))
    text = markdown_of(quiet, quiet)
    assert "Compared with `main (1a2b3c4d)`." in text
    assert text.count("<details><summary>test: not blocked, no changes</summary>") == 2
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


def test_the_page_lists_the_stacks_and_links_to_each() -> None:
    page = html_of(compared_report(), REFUSAL)
    for index in (1, 2):
        assert f'href="#stack-{index}"' in page
        assert f'id="stack-{index}"' in page
    assert "Stack &#39;guest&#39;" in page
