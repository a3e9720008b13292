from __future__ import annotations

import dataclasses
import io
from collections.abc import Callable

import pytest

from fleet.report.terminal import Paper
from lab.report.html import html_text
from lab.report.json_document import as_document
from lab.report.model import RehearsalReport
from lab.report.text import format_subject, print_text
from lab.results.result import Check, Figure, Retained
from tests.lab.report.samples import URN, a_day, bring_up, gateway_skipped, preempt_four, sample_report


def shown(report: RehearsalReport, width: int = 100, *, styled: bool = False, written: tuple[str, ...] = ()) -> str:
    out = io.StringIO()
    print_text(Paper(stream=out, width=width, styled=styled), report, written=written)
    return out.getvalue()


def one_line(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.parametrize("width", [60, 80, 100, 120])
def test_no_line_passes_the_margin(width: int) -> None:
    for line in shown(sample_report(), width).splitlines():
        assert len(line) <= width, line


def test_the_whole_report(golden: Callable[[str, str], None]) -> None:
    golden("rehearse/report.txt", shown(sample_report(), written=("out/rehearsal.html",)))


def test_figures_are_cut_to_three_lines_and_say_how_many_are_left() -> None:
    many = dataclasses.replace(
        preempt_four(), figures=tuple(Figure(name=f"figure {number}", value=number) for number in range(90))
    )
    rows = [line for line in shown(sample_report(many), 80).splitlines() if "figure " in line]
    assert len(rows) == 3
    named = sum(f"figure {number} {number}" in " ".join(rows) for number in range(90))
    assert rows[-1].endswith(f"and {90 - named} more")


def test_a_name_wider_than_its_column_has_a_line_of_its_own() -> None:
    drill = dataclasses.replace(bring_up(), name="a-name-that-is-much-longer-than-a-third-of-the-page")
    lines = shown(sample_report(drill), 60).splitlines()
    row = next(index for index, line in enumerate(lines) if drill.name in line)
    assert lines[row].endswith("43 s")
    assert lines[row + 1].strip() == bring_up().title


def test_styles_are_for_terminals_alone() -> None:
    assert "\x1b[" in shown(sample_report(), styled=True)
    assert "\x1b[" not in shown(sample_report())


def test_ascii_streams_get_look_alikes() -> None:
    out = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    drill = dataclasses.replace(gateway_skipped(), skipped="a gateway in Zürich")
    print_text(Paper(stream=out, width=80, styled=False), sample_report(drill))
    out.seek(0)
    text = out.read()
    assert "- gateway-prerequisites" in text
    assert "a gateway in Z?rich" in text


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
    assert f"{apis[0].why} {', '.join(one.name for one in apis)}" in text
    assert text.index("weights: price unknown") < text.index("3 APIs")


def test_a_stack_that_never_came_up_is_told_once() -> None:
    why = "the stack did not come up: the Job has failed"
    first = dataclasses.replace(bring_up(), gave_up=why)
    second = dataclasses.replace(preempt_four(), gave_up=why)
    text = one_line(shown(sample_report(first, second)))
    assert text.count(why) == 1
    assert f"same as {first.name}" in text


def test_the_speed_says_what_a_second_of_the_controllers_reads_as() -> None:
    text = one_line(shown(dataclasses.replace(sample_report(), speed=120.0)))
    assert text.count(" 120") == 2  # in the headline, and among the limits


def test_a_drill_without_figures_says_what_held() -> None:
    drill = dataclasses.replace(bring_up(), figures=())
    assert f"43 s {drill.checks[0].statement}" in one_line(shown(sample_report(drill)))


def test_a_check_that_shows_nothing_says_why_and_fails_nothing() -> None:
    check = Check(
        statement="0 of 1 replicas stay Ready", held=False, seen="at least 0 Ready", empty="the stack runs 1 replica"
    )
    drill = dataclasses.replace(bring_up(), checks=(*bring_up().checks, check))
    report = sample_report(drill)
    assert drill.passed
    assert "0 of 1 replicas stay Ready: not applicable: the stack runs 1 replica" in one_line(shown(report, width=140))
    page = html_text(report)
    assert page.count('<li class="empty">') == 1
    assert "failed: " not in page
    [*_, last] = as_document(report)["drills"][0]["checks"]
    assert last["empty"] == "the stack runs 1 replica"


def test_a_day_is_told_by_its_clock_with_what_it_cost() -> None:
    lines = [line.strip() for line in shown(sample_report(a_day())).splitlines()]
    assert any(line.startswith("08:10 to 08:20") and "SpotTaken" in line for line in lines)
    assert "What it cost" in lines
    assert "· node-hours 3.5 h (of two)" in lines
