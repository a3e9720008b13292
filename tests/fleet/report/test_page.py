from __future__ import annotations

import re
from pathlib import Path

import jinja2
import pytest
from markupsafe import Markup

from fleet.report.page import LONGEST_WHOLE, TEMPLATES, picture, render, with_code
from fleet.report.svg import Drawing, Format

TEMPLATE = '{% extends "base.html.jinja" %}{% block main %}<p>{{ value }}</p>{% endblock %}'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "page.html.jinja").write_text(TEMPLATE)
    return tmp_path


def test_a_number_and_its_unit_stay_on_one_line(folder: Path) -> None:
    text = render(folder, {}, title="A page", value="12.5 ms, 3 s at 40 %, 7 steps")
    assert "<p>12.5\xa0ms, 3\xa0s at 40\xa0%, 7 steps</p>" in text


def test_values_are_escaped_and_drawings_are_left_as_they_are(folder: Path) -> None:
    assert "<p>&lt;b&gt;</p>" in render(folder, {}, title="A page", value="<b>")
    assert '<p><path d="M0 1 s"/></p>' in render(folder, {}, title="A page", value=Markup('<path d="M0 1 s"/>'))


def test_a_missing_name_is_an_error(folder: Path) -> None:
    with pytest.raises(jinja2.UndefinedError):
        render(folder, {}, title="A page")


def test_what_stands_between_backticks_is_code() -> None:
    assert with_code("run `fleet <x>` now") == 'run <code class="whole">fleet &lt;x&gt;</code> now'
    assert with_code("one ` alone") == "one ` alone"


def test_flags_and_short_code_are_kept_whole() -> None:
    assert with_code("state yours (--osl)") == 'state yours (<span class="whole">--osl</span>)'
    assert with_code(f"`{'x' * (LONGEST_WHOLE + 1)}`").startswith("<code>x")
    assert re.search(r"\.whole[^{]*\{ white-space: nowrap; \}", (TEMPLATES / "style.css").read_text())


def test_a_long_page_has_a_contents_list_whose_ids_exist(folder: Path) -> None:
    sections = (
        "".join(f'<h2 id="part-{n}">Part {n}</h2>' for n in range(4)) + '<details id="x"><summary>X</summary></details>'
    )
    text = render(folder, {}, title="A page", value=Markup(sections))
    links = re.findall(r'href="#([^"]+)"', text)
    assert links == [*(f"part-{n}" for n in range(4)), "x"]
    assert all(f'id="{link}"' in text for link in links)
    assert "<nav" not in render(folder, {}, title="A page", value=Markup(sections[:70]))


def test_a_picture_comes_in_both_formats() -> None:
    def drawn(format_: Format) -> Drawing:
        return Drawing("id", format_, 10, title="A title", description="What it shows")

    assert [f'class="{one}"' in picture(drawn) for one in ("wide", "narrow")] == [True, True]
