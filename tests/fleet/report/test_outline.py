"""One outline, one Markdown text: on a terminal, on a page, in a comment; and its data."""

from __future__ import annotations

import html
import io
import json
import re
from dataclasses import replace
from functools import partial

import pytest

from facts.finding import Finding
from fleet.report.as_html import html_text
from fleet.report.as_json import json_text, plain
from fleet.report.as_markdown import markdown_text
from fleet.report.as_text import print_text
from fleet.report.outline import Box, Brief, Code, Findings, Next, Number, Outline, Prose, Section
from fleet.report.table import Cell, Table, texts
from fleet.report.terminal import Paper
from tests.fleet.report.sample import SAMPLE
from tests.support.rows import each_row


def text_of(outline: Outline, width: int = 100, *, details: bool = False) -> str:
    stream = io.StringIO()
    print_text(Paper(stream=stream, width=width, styled=False), outline, details=details)
    return stream.getvalue()


RENDERS = {"text": partial(text_of, details=True), "markdown": markdown_text, "html": html_text}


@each_row("name", RENDERS)
def test_every_medium_says_the_same(name: str) -> None:
    said = RENDERS[name](SAMPLE)
    for words in (
        "hourly-cost-above-ceiling",
        "$545 &gt; $420" if name != "text" else "$545 > $420",
        "All replicas go down together.",
        "was $411",
        "at most $420",
        "server.replicas: 9",
        "chat",
        "code",
        "replaced because of spec.selector",
        "a secret, which may change",
        "set -eu",
        "2,786,769",
        "4,969,506",
        "of the whole region",
        "Inner",
        "a: 1",
        "pulumi up --stack spot",
        "Nothing here was run on Google Cloud.",
    ):
        assert words in said, words


@each_row("name", RENDERS)
def test_a_value_is_said_in_the_same_words_everywhere(name: str) -> None:
    findings = (
        Finding(id="a", subject="vllm-fleet:server.image", found="1.0"),
        Finding(id="b", subject="vllm-fleet:zones", found=None),
    )
    said = html.unescape(re.sub(r"<[^>]+>|[*`]", "", RENDERS[name](Outline(title="t", body=(Findings(findings),)))))
    assert 'vllm-fleet:server.image: "1.0"' in said
    assert "vllm-fleet:zones is missing" in said


def test_a_terminal_names_what_is_folded_and_shows_it_with_details() -> None:
    said = text_of(SAMPLE)
    assert "Folded: Cost, Hashes, On a page. See --format html." in said
    for words in ("hidden words", "on the page", "2,786,769"):
        assert words not in said
        assert words in text_of(SAMPLE, details=True)
    assert re.findall(r"<summary>(\w+)", markdown_text(SAMPLE)) == ["Cost", "Hashes"]


def test_what_is_brief_on_a_terminal_is_whole_elsewhere() -> None:
    found = Finding(id="i", subject="s", found="long")
    brief = Brief(on_screen=(Prose("short"),), whole=(Box(body=(Prose("much longer"),)), Findings((found,))))
    outline = Outline(title="t", head=(brief,), body=(Section(title="s", body=(brief,)),))
    assert text_of(outline).split() == ["t", "short", "s", "short"]
    for whole in (text_of(outline, details=True), markdown_text(outline), html_text(outline)):
        assert (whole.count("much longer"), "short" in whole) == (2, False)
    assert outline.findings == (found, found)


def test_figures_are_drawn_on_the_page_alone() -> None:
    assert html_text(SAMPLE).count("<svg") == 2  # wide and narrow
    assert "<svg" not in text_of(SAMPLE)
    assert "<svg" not in markdown_text(SAMPLE)


def test_brief_findings_take_one_line_each_and_are_counted_where_they_are_told_in_full() -> None:
    found = SAMPLE.findings
    outline = Outline(title="t", body=(Findings(found, is_brief=True), Section(title="s", body=(Findings(found),))))
    head = markdown_text(outline).partition("#### s")[0].strip().splitlines()
    assert [line.rpartition("`")[0].rpartition("`")[2] for line in head[2:]] == [
        "hourly-cost-above-ceiling",
        "needs",
        "alive",
    ]
    assert outline.findings == found


def test_the_document_has_the_reports_keys_and_every_finding() -> None:
    document = json.loads(json_text(SAMPLE))
    assert list(document) == ["version", "stack", "findings"]
    assert [(one["id"], one["severity"]) for one in document["findings"]] == [
        ("hourly-cost-above-ceiling", "error"),
        ("needs", "warning"),
        ("needs", "warning"),
        ("alive", "passed"),
    ]


def test_sections_of_the_highest_rank_go_first_at_the_limit() -> None:
    whole = len(markdown_text(SAMPLE))
    said = markdown_text(SAMPLE, limit=whole - 1)
    assert "Omitted" in said
    assert "<summary>Cost" not in said  # rank 2
    assert "```diff" in said  # rank 1
    assert "```diff" not in markdown_text(SAMPLE, limit=900)
    for limit in range(200, whole, 50):
        assert len(markdown_text(SAMPLE, limit=limit)) <= limit


@pytest.mark.parametrize("width", [60, 72, 100, 140])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    for line in text_of(SAMPLE, width, details=True).splitlines():
        assert len(line) <= width, line


def test_what_is_there_to_be_copied_is_never_broken() -> None:
    command = f"gcloud x {'--flag=value ' * 9}end"
    finding = Finding(id="i", subject="s", write=command)
    said = text_of(Outline(title="t", body=(finding, Next(f"fleet {'y' * 90}"))), 60)
    assert command in said
    assert f"fleet {'y' * 90}" in said


@pytest.mark.parametrize("width", [60, 80, 140])
def test_a_word_of_a_table_is_never_broken(width: int) -> None:
    cells = [f"Qwen/Qwen3.5-27B-FP8-{number}" for number in range(5)]
    table = Table(
        id="t",
        caption="t",
        columns=texts(*(f"column-{number}" for number in range(5))),
        rows=(tuple(map(Cell, cells)),),
    )
    assert {*cells} <= {*text_of(Outline(title="t", body=(table,)), width).split()}


def test_a_minus_sign_is_a_hyphen_on_a_terminal() -> None:
    assert "-5 %" in text_of(Outline(title="t", body=(Prose("\N{MINUS SIGN}5 %"),)))


def test_values_without_text_are_data_in_camel_case() -> None:
    assert plain((Cell("a", note="b"), {"k": Number(name="n", now="1")})) == [
        {"text": "a", "note": "b"},
        {"k": {"name": "n", "now": "1", "unit": "", "more": ""}},
    ]


def test_markup_of_others_stays_text() -> None:
    bad = "<script>alert(1)</script> **x** @someone `</p><script>`"
    outline = Outline(
        title=bad, verdict=bad, body=(Section(title=bad, body=(Prose(bad), Code((bad,)))),), footer=(bad,)
    )
    assert "<script>" not in html_text(outline)
    assert "<img" not in html_text(replace(outline, body=(Code(("</code><img src=x>",)),)))
    comment = re.sub(r"```.*?```|`[^`]*`", "", markdown_text(outline), flags=re.DOTALL)
    assert "<script>" not in comment
    assert "**x**" not in comment
    assert "@someone" not in comment
