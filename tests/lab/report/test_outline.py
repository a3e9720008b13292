"""The report of a rehearsal, as text and as a page."""

from __future__ import annotations

import dataclasses
import io
import re
from collections.abc import Callable

import pytest

from fleet.report.as_html import html_text
from fleet.report.as_text import print_text
from fleet.report.terminal import Paper
from lab.report.json_document import as_document
from lab.report.model import RehearsalReport
from lab.report.outline import SUMMARY_FIGURES, format_subject, outline
from lab.results.result import Check, Figure, Retained
from tests.lab.report.samples import (
    URN,
    a_day,
    bring_up,
    gateway_skipped,
    moment,
    preempt_four,
    reservation,
    sample_report,
    scale_128,
)

PLAYED = ["bring-up", "thirteenth", "preempt-four", "reservation-not-yet", "scale-128"]


def shown(report: RehearsalReport, width: int = 100, *, written: tuple[str, ...] = ()) -> str:
    out = io.StringIO()
    print_text(Paper(stream=out, width=width, styled=False), outline(report, written=written))
    return out.getvalue()


def page_of(report: RehearsalReport) -> str:
    return html_text(outline(report))


def one_line(text: str) -> str:
    return " ".join(text.split())


def test_the_whole_report(golden: Callable[[str, str], None]) -> None:
    golden("rehearse/report.txt", shown(sample_report(), written=("out/rehearsal.html",)))


def test_every_played_drill_has_a_section_that_the_table_leads_to() -> None:
    page = page_of(sample_report())
    ids, links = re.findall(r' id="([^"]+)"', page), re.findall(r'href="#([^"]+)"', page)
    assert [one for one in ids if one in PLAYED] == PLAYED
    assert set(PLAYED) <= set(links) <= set(ids)


def test_a_skipped_drill_is_in_the_table_with_its_reason_and_nowhere_else() -> None:
    drill = gateway_skipped()
    page = page_of(sample_report(drill))
    assert page.count(drill.title) == page.count(drill.skipped) == 1


def test_figures_are_cut_and_say_how_many_are_left() -> None:
    many = tuple(Figure(name=f"figure {number}", value=number) for number in range(90))
    text = one_line(shown(sample_report(dataclasses.replace(preempt_four(), figures=many)), 80))
    assert f"{90 - SUMMARY_FIGURES} more" in text


@pytest.mark.parametrize(
    ("subject", "words"),
    [(URN, "PersistentVolumeClaim weights-reader-b"), ("Job/weights", "Job weights"), ("the stack", "the stack")],
)
def test_a_subject_reads_as_kind_and_name(subject: str, words: str) -> None:
    assert format_subject(subject) == words


def test_a_finding_names_its_drills_and_a_failed_check_is_one() -> None:
    warning, *_, failed = sorted(outline(sample_report()).findings, key=lambda finding: finding.severity != "warning")
    assert warning.subject == "PersistentVolumeClaim weights-reader-b"
    assert warning.why == "found by bring-up"
    assert (failed.id, failed.severity, failed.subject) == ("thirteenth", "error", "the message names a fix")


def test_what_is_left_for_one_reason_shares_a_line_with_every_name() -> None:
    names = tuple(f"{name}.googleapis.com" for name in ("compute", "container", "iam"))
    apis = tuple(Retained(kind="API", name=name, why="others may use it", usd_per_month=0.0) for name in names)
    image = Retained(kind="Disk image", name="weights", why="the release", usd_per_month=None)
    text = one_line(shown(dataclasses.replace(sample_report(), retained=(*apis, image)), 140))
    assert f"3 APIs: {', '.join(names)} others may use it free" in text
    assert text.index("Disk image weights the release price unknown") < text.index("3 APIs")


def test_a_stack_that_never_came_up_is_told_once() -> None:
    why = "the stack did not come up: the Job has failed"
    first, second = (dataclasses.replace(drill(), gave_up=why) for drill in (bring_up, preempt_four))
    text = one_line(shown(sample_report(first, second)))
    assert text.count(why) == 1
    assert f"same as {first.name}" in text


def test_a_drill_without_figures_says_what_held() -> None:
    drill = dataclasses.replace(bring_up(), figures=())
    assert drill.checks[0].statement in one_line(shown(sample_report(drill)))


def test_a_check_that_shows_nothing_says_why_and_fails_nothing() -> None:
    empty = "the stack runs 1 replica"
    check = Check(statement="0 of 1 replicas stay Ready", held=False, seen="at least 0 Ready", empty=empty)
    drill = dataclasses.replace(bring_up(), checks=(*bring_up().checks, check))
    report = sample_report(drill)
    assert drill.passed
    for text in (shown(report, width=140), page_of(report)):
        assert f"not applicable: {empty}" in one_line(text)
        assert "failed: " not in text
    assert as_document(report)["drills"][0]["checks"][-1]["empty"] == empty


def test_a_day_is_told_by_its_clock_with_what_it_cost() -> None:
    text = shown(sample_report(a_day()))
    assert re.search(r"08:10 to 08:20 .*SpotTaken", text)
    assert re.search(r"What it cost\n\s+node-hours +3.5 h +of two", text)


def test_what_a_cluster_said_is_text_and_never_markup() -> None:
    evil = "<script>alert(1)</script>"
    drill = dataclasses.replace(
        reservation(),
        title=evil,
        gave_up=evil,
        checks=(Check(statement=evil, held=False, seen=evil),),
        moments=(moment("pod", evil, evil, 0, "bad"), moment("node", "x", evil, 60)),
    )
    page = page_of(sample_report(drill))
    assert "<script" not in page
    assert "&lt;script&gt;" in page


def test_a_timeline_has_its_bars_and_its_marks_with_their_titles() -> None:
    page = page_of(sample_report(preempt_four()))
    assert '<rect class="mood-waiting"' in page
    assert "<title>preempted: 30 s notice: 30 s</title>" in page


def test_a_thousand_machines_are_a_page_that_opens() -> None:
    page = page_of(sample_report(scale_128(1000)))
    assert len(page) < 150_000
    assert page.count("<polygon") == 2 * 4


def test_a_drill_in_which_nothing_happened_has_no_picture() -> None:
    assert "What happened" not in page_of(sample_report(dataclasses.replace(bring_up(), moments=())))
