"""One outline, four media."""

from __future__ import annotations

import html
import io
import json
import re
from collections.abc import Callable
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from facts.finding import Finding
from fleet.report.as_html import html_text
from fleet.report.as_json import json_text
from fleet.report.as_markdown import markdown_text
from fleet.report.as_text import print_text
from fleet.report.outline import Branch, Code, Edit, Findings, Next, Outline, Prose, Section, Tree
from fleet.report.table import Cell, Table, numbers, texts
from fleet.report.terminal import Paper
from tests.fleet.report.sample import SAMPLE


def text_of(outline: Outline, width: int = 100) -> str:
    stream = io.StringIO()
    print_text(Paper(stream=stream, width=width, styled=False), outline)
    return stream.getvalue()


@pytest.mark.parametrize("render", [text_of, markdown_text, html_text], ids=["text", "markdown", "html"])
def test_every_medium_says_the_same(render: Callable[[Outline], str]) -> None:
    said = render(SAMPLE)
    for words in (
        "hourly-cost-above-ceiling",
        "$545 &gt; $420" if render is not text_of else "$545 > $420",
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


@pytest.mark.parametrize("render", [text_of, markdown_text, html_text], ids=["text", "markdown", "html"])
def test_a_value_is_said_in_the_same_words_everywhere(render: Callable[[Outline], str]) -> None:
    findings = (
        Finding(id="a", subject="vllm-fleet:server.image", found="1.0"),
        Finding(id="b", subject="vllm-fleet:zones", found=None),
    )
    said = html.unescape(re.sub(r"<[^>]+>|[*`]", "", render(Outline(title="t", body=(Findings(findings),)))))
    assert 'vllm-fleet:server.image: "1.0"' in said
    assert "vllm-fleet:zones is missing" in said


def test_a_terminal_does_not_show_what_is_folded_there_or_of_a_page() -> None:
    said = text_of(SAMPLE)
    assert "▸ Hashes · 12" in said
    assert "▸ 1 difference" in said
    assert "hidden words" not in said
    assert "on the page" not in said
    assert "on the page" not in markdown_text(SAMPLE)
    assert "on the page" in html_text(SAMPLE)


def test_pages_fold_what_a_reader_can_unfold() -> None:
    assert re.findall(r"<summary>(\w+)", markdown_text(SAMPLE)) == ["Cost", "Hashes"]
    assert re.findall(r'<details id="(\w+)">', html_text(SAMPLE)) == ["cost", "hashes"]


def test_figures_are_drawn_on_pages_and_told_elsewhere() -> None:
    assert html_text(SAMPLE).count("<svg") == 2  # wide and narrow
    assert "a bar" not in html_text(SAMPLE)
    assert "a bar" in text_of(SAMPLE)
    assert "a bar" in markdown_text(SAMPLE)


def test_the_title_of_a_comment_carries_the_verdict() -> None:
    assert markdown_text(SAMPLE).splitlines()[0].startswith("### vllm-fleet / spot: blocked by")


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


class _Balanced(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:  # noqa: ARG002
        if tag not in ("meta", "path", "line", "rect", "circle", "polygon", "polyline"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if self.open and self.open[-1] == tag:
            self.open.pop()
        elif tag in self.open:
            raise AssertionError((tag, self.open))


def test_the_page_closes_what_it_opens_and_links_to_its_sections() -> None:
    page = html_text(SAMPLE)
    parser = _Balanced()
    parser.feed(page)
    assert parser.open == []
    ids = set(re.findall(r' id="([^"]+)"', page))
    assert {"policies", "changes", "cost", "figs", "outer", "inner"} <= ids
    assert set(re.findall(r'href="#([^"]+)"', page)) <= ids


@pytest.mark.parametrize("width", [60, 72, 100, 140])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    copied = {one.command for one in SAMPLE.body if isinstance(one, Next)}
    for line in text_of(SAMPLE, width).splitlines():
        assert len(line) <= width or any(command in line for command in copied)


CELLS = st.text(alphabet="ab ,1", min_size=1, max_size=58).map(lambda text: " ".join(text.split()) or "a")


@given(st.lists(st.tuples(CELLS, CELLS, st.integers(0, 10**12), st.integers(0, 10**12)), min_size=1, max_size=4))
def test_columns_of_a_table_never_run_together(rows: list[tuple[str, str, int, int]]) -> None:
    table = Table(
        id="t",
        caption="t",
        columns=(*texts("a", "b"), *numbers("c", "d")),
        rows=tuple((Cell(a), Cell(b), Cell(f"{c:,}"), Cell(f"{d:,}")) for a, b, c, d in rows),
    )
    said = text_of(Outline(title="t", body=(table,)), 60)
    assert all(len(line) <= 60 for line in said.splitlines())
    for a, b, c, d in rows:
        assert {*a.split(), *b.split()} <= {*said.split()}  # no word is cut
        assert re.search(rf"(?<![\d,]){re.escape(f'{c:,}')}(?![\d,])", said)
        assert re.search(rf"(?<![\d,]){re.escape(f'{d:,}')}(?![\d,])", said)


def test_a_narrow_terminal_drops_optional_columns_and_puts_notes_below() -> None:
    columns = (*texts("policy"), *numbers("rate"), *numbers("starts", "worst", is_optional=True))
    rows = ((Cell("static", note="n" * 20), Cell("1" * 18), Cell("2" * 18), Cell("3" * 18)),)
    outline = Outline(title="t", body=(Table(id="t", caption="t", columns=columns, rows=rows),))
    assert f"static ({'n' * 20})" in text_of(outline, 100)
    assert ["worst" in text_of(outline, width) for width in (60, 100)] == [False, True]
    assert "starts" in text_of(outline, 60)
    assert f"  {'n' * 20}\n" in text_of(outline, 60)


def test_what_is_there_to_be_copied_is_never_broken() -> None:
    command = f"gcloud x {'--flag=value ' * 9}end"
    said = text_of(Outline(title="t", body=(Finding(id="i", subject="s", write=command),)), 60)
    assert command in said


def test_a_propertys_path_keeps_its_last_names_within_the_width() -> None:
    edit = Edit(path=f"spec.{'template.' * 9}image", mark="~", before="a" * 30, after="b" * 30)
    said = text_of(Outline(title="t", body=(Tree(Branch(name="x", mark="~", edits=(edit,))),)), 60)
    assert all(len(line) <= 60 for line in said.splitlines())
    assert re.search(r"~ ….*template\.image$", said, re.MULTILINE)


def test_markup_of_others_stays_text() -> None:
    bad = "<script>alert(1)</script> **x** @someone"
    outline = Outline(
        title=bad, verdict=bad, body=(Section(title=bad, body=(Prose(bad), Code((bad,)))),), footer=(bad,)
    )
    assert "<script>" not in html_text(outline)
    comment = re.sub(r"```.*?```", "", markdown_text(outline), flags=re.DOTALL)
    assert "<script>" not in comment
    assert "**x**" not in comment
    assert "@someone" not in comment
