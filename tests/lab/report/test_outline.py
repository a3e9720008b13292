"""The rehearsal's report in each medium."""

from __future__ import annotations

import dataclasses
import io
import json
import re

import pytest

from facts.finding import Finding
from fleet.report.as_html import html_text
from fleet.report.as_json import json_text
from fleet.report.as_text import print_text
from fleet.report.terminal import Paper
from lab.drills.catalogue import DRILLS
from lab.report.model import RehearsalReport
from lab.report.outline import format_subject, outline
from lab.results.result import DrillResult, Retained
from tests.conftest import Golden
from tests.lab.report.samples import (
    URN,
    bring_up,
    gateway_skipped,
    moment,
    preempt_four,
    reservation,
    sample_report,
    scale_up,
    stock_out,
)


def shown(report: RehearsalReport, width: int = 100, *, written: tuple[str, ...] = ()) -> str:
    out = io.StringIO()
    print_text(Paper(stream=out, width=width, styled=False), outline(report, written=written))
    return out.getvalue()


def one_line(text: str) -> str:
    return " ".join(text.split())


def page_of(*drills: DrillResult) -> str:
    return html_text(outline(sample_report(*drills)))


# Text -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [60, 80, 120])
def test_no_line_passes_the_margin(width: int) -> None:
    for line in shown(sample_report(), width).splitlines():
        assert len(line) <= width, line


@pytest.mark.golden
def test_the_whole_report(golden: Golden) -> None:
    golden("rehearse/report.txt", shown(sample_report(), written=("out/rehearsal.html",)))


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
    text = one_line(shown(sample_report(first, second)))
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


def test_the_sample_is_of_drills_that_exist() -> None:
    titles = {drill.name: drill.title for drill in DRILLS}
    assert {drill.name: titles.get(drill.name) for drill in sample_report().drills} == {
        drill.name: drill.title for drill in sample_report().drills
    }


# The page -------------------------------------------------------------------------------------------------------------


def test_every_played_drill_has_a_section_that_the_table_leads_to() -> None:
    page = page_of()
    played = ["bring-up", "stock-out", "preempt-four", "inactive-reservation", "scale-up-in-time"]
    assert [one for one in re.findall(r'<h2 id="([^"]+)"', page) if one in played] == played
    # In the list of contents and in the table.
    assert [one for one in re.findall(r'href="#([^"]+)"', page) if one in played] == played * 2


def test_a_skipped_drill_is_in_the_table_with_its_reason_and_nowhere_else() -> None:
    drill = gateway_skipped()
    page = page_of(drill)
    assert page.count(drill.title) == page.count(drill.skipped) == 1


def test_what_a_cluster_said_is_text_and_never_markup() -> None:
    evil = "<script>alert(1)</script>"
    drill = dataclasses.replace(
        reservation(),
        title=evil,
        gave_up=evil,
        checks=(Finding(id="check", subject=evil, found=evil),),
        moments=(moment("pod", evil, evil, 0, "bad"), moment("node", "x", evil, 60)),
    )
    assert "<script" not in page_of(drill)
    assert "&lt;script&gt;" in page_of(drill)


def test_a_thousand_machines_are_a_page_that_opens() -> None:
    assert len(page_of(scale_up(1000))) < 150_000


def test_a_drill_in_which_nothing_happened_has_no_table_of_it() -> None:
    assert 'id="moments-bring-up"' in page_of(bring_up())
    assert 'id="moments-bring-up"' not in page_of(dataclasses.replace(bring_up(), moments=()))


# The document ---------------------------------------------------------------------------------------------------------


def test_the_document_is_json_with_everything_that_happened() -> None:
    report = sample_report()
    document = json.loads(json_text(outline(report)))
    assert document["passed"] is False
    assert [one["state"] for one in document["drills"]] == ["passed", "failed", "passed", "failed", "skipped", "passed"]
    assert document["drills"][3]["gaveUp"].startswith("waited 40 simulated minutes")
    assert [len(one["moments"]) for one in document["drills"]] == [len(one.moments) for one in report.drills]
    assert document["drills"][0]["moments"][0]["untilSeconds"] is None
    assert document["retained"][1]["usdPerMonth"] is None
    checks = sum(len(one.checks) for one in report.drills)
    assert len(document["findings"]) == len(report.found) + checks


def test_a_failed_check_and_a_defect_are_findings() -> None:
    found = outline(sample_report(stock_out())).findings
    assert [(one.id, one.subject) for one in found if one.blocks] == [
        ("operation-failed", "Deployment qwen35-server"),
        ("check", "the message names a fix"),
    ]
