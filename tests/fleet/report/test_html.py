from __future__ import annotations

import re

from fleet.report.as_html import LONGEST_WHOLE, TEMPLATES, html_text, picture, with_code
from fleet.report.outline import Element, Outline, Prose, Section
from fleet.report.svg import Drawing, Format


def page_of(*body: Element) -> str:
    return html_text(Outline(title="A page", body=body))


def test_a_number_and_its_unit_stay_on_one_line() -> None:
    assert "<p>12.5\xa0ms, 3\xa0s at 40\xa0%, 7 steps</p>" in page_of(Prose("12.5 ms, 3 s at 40 %, 7 steps"))


def test_what_stands_between_backticks_is_code() -> None:
    assert with_code("run `fleet <x>` now") == 'run <code class="whole">fleet &lt;x&gt;</code> now'
    assert with_code("one ` alone") == "one ` alone"


def test_flags_and_short_code_are_kept_whole() -> None:
    assert with_code("state yours (--osl)") == 'state yours (<span class="whole">--osl</span>)'
    assert with_code(f"`{'x' * LONGEST_WHOLE}`").startswith('<code class="whole">x')
    assert with_code(f"`{'x' * (LONGEST_WHOLE + 1)}`").startswith("<code>x")
    assert re.search(r"\.whole[^{]*\{ white-space: nowrap; \}", (TEMPLATES / "style.css").read_text())


def test_a_long_page_has_a_contents_list_whose_ids_exist() -> None:
    parts = [Section(title=f"Part `{n}`", body=(Prose("p"),), remark="not in the list") for n in range(4)]
    text = page_of(*parts, Section(title="X", body=(Prose("p"),), folding="page"))
    listed = re.findall(r'<a href="#([^"]+)">([^<]+)</a>', text)
    assert listed == [*((f"part-{n}", f"Part {n}") for n in range(4)), ("x", "X")]
    assert all(f'id="{id_}"' in text for id_, _ in listed)
    assert "<nav" not in page_of(*parts[:3])


def test_a_picture_comes_in_both_formats() -> None:
    def drawn(format_: Format) -> Drawing:
        return Drawing("id", format_, 10, title="A title", description="What it shows")

    assert [f'class="{one}"' in picture(drawn) for one in ("wide", "narrow")] == [True, True]
