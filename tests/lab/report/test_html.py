from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from html.parser import HTMLParser

from lab.report.html import html_text
from lab.results.result import Check, DrillResult
from tests.lab.report.samples import (
    bring_up,
    gateway_skipped,
    moment,
    preempt_four,
    reservation,
    sample_report,
    scale_128,
    stock_out,
)

VOID = {"meta"}


class Tags(HTMLParser):
    """Checks that tags are closed in order, and notes ids and links."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.words: list[str] = []
        self.feed(page)
        assert not self.open, self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)
        for name, value in attrs:
            if name == "id":
                self.ids.append(value or "")
            if name in ("href", "src"):
                self.links.append(value or "")
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)
        assert not attrs or tag in {"line", "rect", "circle", "polygon"}

    def handle_data(self, data: str) -> None:
        if not {"style", "svg"} & {*self.open} and data.strip():
            self.words.append(" ".join(data.split()))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, tag


def test_the_page_is_whole_and_asks_for_nothing_from_outside() -> None:
    page = html_text(sample_report())
    tags = Tags(page)
    assert "default-src 'none'; style-src 'unsafe-inline'" in page
    assert not tags.seen & {"script", "img", "iframe", "link", "object"}
    assert all(link.startswith("#") for link in tags.links)
    assert "url(" not in page
    assert "http" not in re.sub(r"http-equiv", "", page)


def test_every_played_drill_has_a_section_that_the_table_leads_to() -> None:
    tags = Tags(html_text(sample_report()))
    played = ["bring-up", "thirteenth", "preempt-four", "reservation-not-yet", "scale-128"]
    assert [one for one in tags.ids if one in played] == played
    assert [link for link in tags.links if link[1:] in played] == [f"#{name}" for name in played] * 2
    assert {link[1:] for link in tags.links} <= set(tags.ids)


def test_a_skipped_drill_is_in_the_table_with_its_reason_and_nowhere_else() -> None:
    drill = gateway_skipped()
    page = html_text(sample_report(drill))
    assert page.count(drill.title) == page.count(drill.skipped) == 1
    assert "<section>" not in page


def test_the_words_of_the_page(golden: Callable[[str, str], None]) -> None:
    report = sample_report(stock_out(), preempt_four(), reservation(), gateway_skipped())
    golden("rehearse/page.txt", "\n".join(Tags(html_text(report)).words) + "\n")


def test_what_failed_and_what_to_read_are_marked() -> None:
    page = html_text(sample_report())
    assert page.count('<li class="not">') == 1
    assert page.count('<p class="box advice">') == page.count('<p class="box bad">') == 1
    assert re.search(r"all Ready again after</dt><dd class=\"now\">18.1 <small>min</small>", page)


def test_what_a_cluster_said_is_text_and_never_markup() -> None:
    evil = "<script>alert(1)</script>"
    drill = dataclasses.replace(
        reservation(),
        title=evil,
        gave_up=evil,
        checks=(Check(statement=evil, held=False, seen=evil),),
        moments=(moment("pod", evil, evil, 0, "bad"), moment("node", "x", evil, 60)),
    )
    page = html_text(sample_report(drill))
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    Tags(page)


def test_a_timeline_has_its_bars_and_its_marks_with_their_titles() -> None:
    page = html_text(sample_report(preempt_four()))
    assert '<rect class="mood-waiting"' in page
    assert "<title>preempted: 30 s notice: 30 s</title>" in page


def test_a_thousand_machines_are_a_page_that_opens() -> None:
    page = html_text(sample_report(scale_128(1000)))
    assert len(page) < 150_000
    assert page.count("<polygon") == 2 * 4
    assert "1,000 in total, at most 1,000 Ready" in page


def test_a_drill_in_which_nothing_happened_has_no_picture() -> None:
    quiet: DrillResult = dataclasses.replace(bring_up(), moments=())
    assert "What happened" not in html_text(sample_report(quiet))
    Tags(html_text(sample_report(quiet)))


def test_dark_screens_phones_and_paper_are_thought_of() -> None:
    page = html_text(sample_report())
    for rule in ("prefers-color-scheme: dark", "max-width: 40rem", "@media print", "width=device-width"):
        assert rule in page


def test_a_drill_without_figures_says_what_held() -> None:
    drill = dataclasses.replace(bring_up(), figures=())
    assert f'<span class="cell">{drill.checks[0].statement}</span>' in html_text(sample_report(drill))
