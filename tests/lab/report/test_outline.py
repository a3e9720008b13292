"""The rehearsal's report in each medium."""

from __future__ import annotations

import dataclasses
import io
import json

import pytest

from facts.finding import Finding
from fleet.report.as_json import json_text
from fleet.report.as_text import print_text
from fleet.report.terminal import Paper
from lab.report.model import RehearsalReport
from lab.report.outline import format_subject, outline
from lab.results.result import Retained
from tests.conftest import Golden
from tests.lab.report.samples import (
    URN,
    bring_up,
    preempt_four,
    sample_report,
)


def shown(report: RehearsalReport, width: int = 100) -> str:
    out = io.StringIO()
    print_text(Paper(stream=out, width=width, styled=False), outline(report))
    return out.getvalue()


def one_line(text: str) -> str:
    return " ".join(text.split())


# Text -----------------------------------------------------------------------------------------------------------------


@pytest.mark.golden
def test_the_whole_report(golden: Golden) -> None:
    golden("rehearse/report.txt", shown(sample_report()))


@pytest.mark.parametrize(
    ("subject", "words"),
    [(URN, "PersistentVolumeClaim weights-reader-b"), ("Job/weights", "Job weights"), ("the stack", "the stack")],
)
def test_a_subject_reads_as_kind_and_name(subject: str, words: str) -> None:
    assert format_subject(subject) == words


def test_what_is_left_for_one_reason_shares_a_line_with_every_name() -> None:
    apis = tuple(
        Retained(kind="API", name=f"{name}.googleapis.com", why="others may use it")
        for name in ("compute", "container", "iam")
    )
    image = Retained(kind="Disk image", name="weights", why="the release")
    text = one_line(shown(dataclasses.replace(sample_report(), retained=(*apis, image))))
    assert text.count(apis[0].why) == text.count("3 APIs") == 1
    assert all(one.name in text for one in apis)


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
    text = one_line(shown(sample_report(drill)))
    assert "failed: " not in text
    assert f"{check.subject}: {check.found}" in text
    assert check.as_json() in json.loads(json_text(outline(sample_report(drill))))["drills"][0]["checks"]


# The document ---------------------------------------------------------------------------------------------------------


def test_the_document_is_json_with_everything_that_happened() -> None:
    report = sample_report()
    document = json.loads(json_text(outline(report)))
    assert document["passed"] is False
    assert [one["state"] for one in document["drills"]] == ["passed", "failed", "passed", "failed", "skipped", "passed"]
    assert document["drills"][3]["gaveUp"].startswith("waited 150 s")
    assert [len(one["checks"]) for one in document["drills"]] == [len(one.checks) for one in report.drills]
    assert len(document["findings"]) == len(report.found)
