"""The rehearsal's report in each medium."""

from __future__ import annotations

import dataclasses
import io
import json

import pytest

from facts.finding import Finding
from fleet.report.as_json import json_text
from fleet.report.as_markdown import markdown_text
from fleet.report.as_text import print_text
from fleet.report.terminal import Paper
from lab.report.model import RehearsalReport
from lab.report.outline import format_subject, outline
from lab.results.result import DrillResult, Retained
from tests.conftest import Golden
from tests.lab.report.samples import (
    URN,
    bring_up,
    preempt_four,
    sample_report,
    stock_out,
    to_zero,
)


def shown(report: RehearsalReport, width: int = 100, *, written: tuple[str, ...] = ()) -> str:
    out = io.StringIO()
    print_text(Paper(stream=out, width=width, styled=False), outline(report, written=written))
    return out.getvalue()


def one_line(text: str) -> str:
    return " ".join(text.split())


def page_of(*drills: DrillResult) -> str:
    return markdown_text(outline(sample_report(*drills)))


# Text -----------------------------------------------------------------------------------------------------------------


@pytest.mark.golden
def test_the_whole_report(golden: Golden) -> None:
    golden("rehearse/report.txt", shown(sample_report(), written=("out/rehearsal.md",)))


@pytest.mark.parametrize(
    ("subject", "words"),
    [(URN, "PersistentVolumeClaim weights-reader-b"), ("Job/weights", "Job weights"), ("the stack", "the stack")],
)
def test_a_subject_reads_as_kind_and_name(subject: str, words: str) -> None:
    assert format_subject(subject) == words


def test_what_is_left_for_one_reason_shares_a_line_with_every_name() -> None:
    apis = tuple(
        Retained(kind="API", name=f"{name}.googleapis.com", why="others may use it", usd_per_month=0.0)
        for name in ("compute", "container", "iam")
    )
    image = Retained(kind="Disk image", name="weights", why="the release", usd_per_month=None)
    text = one_line(shown(dataclasses.replace(sample_report(), retained=(*apis, image))))
    assert text.count(apis[0].why) == text.count("3 APIs") == 1
    assert all(one.name in text for one in apis)
    assert text.index("Disk image") < text.index("3 APIs")


def test_a_stack_that_never_came_up_is_told_once() -> None:
    why = "the stack did not come up: the Job has failed"
    first = dataclasses.replace(bring_up(), gave_up=why)
    second = dataclasses.replace(preempt_four(), gave_up=why)
    text = one_line(shown(sample_report(first, second), 400))
    assert text.count(why) == 1
    assert f"same as {first.name}" in text


def test_a_drill_without_figures_says_what_held() -> None:
    drill = dataclasses.replace(bring_up(), figures=())
    assert drill.checks[0].subject in shown(sample_report(drill))


def test_a_check_that_shows_nothing_fails_nothing() -> None:
    check = Finding(
        id="check", subject="0 of 1 stay", severity="note", found="not applicable: the stack runs 1 replica"
    )
    drill = dataclasses.replace(bring_up(), checks=(*bring_up().checks, check))
    assert drill.passed
    assert "failed: " not in page_of(drill)
    assert f"{check.subject}: {check.found}" in one_line(shown(sample_report(drill)))
    assert check.as_json() in json.loads(json_text(outline(sample_report(drill))))["findings"]


# Markdown -------------------------------------------------------------------------------------------------------------


def test_every_played_drill_has_a_section_with_its_checks() -> None:
    page = page_of()
    for drill in sample_report().drills:
        assert (f" {drill.title}\n" in page) is not bool(drill.skipped)
        assert all(check.subject in page for check in drill.checks)


def test_a_skipped_drill_is_in_the_table_with_its_reason_and_nowhere_else() -> None:
    drill = to_zero()
    page = page_of(drill)
    assert page.count(drill.title) == page.count(drill.skipped) == 1


# The document ---------------------------------------------------------------------------------------------------------


def test_the_document_is_json_with_everything_that_happened() -> None:
    report = sample_report()
    document = json.loads(json_text(outline(report)))
    assert document["passed"] is False
    assert [one["state"] for one in document["drills"]] == ["passed", "failed", "passed", "failed", "skipped", "passed"]
    assert document["drills"][3]["gaveUp"].startswith("waited 150 s")
    assert document["retained"][1]["usdPerMonth"] is None
    checks = sum(len(one.checks) for one in report.drills)
    assert len(document["findings"]) == len(report.found) + checks


def test_a_failed_check_and_a_defect_are_findings() -> None:
    found = outline(sample_report(stock_out())).findings
    assert [(one.id, one.subject) for one in found if one.blocks] == [
        ("operation-failed", "Deployment qwen35-server"),
        ("check", "the message names a fix"),
    ]
