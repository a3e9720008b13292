from __future__ import annotations

import re
import struct
from xml.etree import ElementTree

import pytest
import resvg_py

from fleet.bench.report import article
from fleet.bench.report.plots import plots_of
from fleet.bench.report.shown import shown
from fleet.report.charts import Plot, drawing
from fleet.report.png import FONT_FAMILY, ZOOM, font_paths, light_style, png, svg_document
from fleet.report.svg import Drawing
from tests.fleet.bench.measurements import a_measurement, a_sweep

HOSTILE = "</text><script>alert(1)</script>&\"'\x00\x1b\ud800"


def some_plots() -> list[Plot]:
    found: list[Plot] = []
    for measurement in (a_measurement(), a_sweep()):
        found += plots_of(shown(measurement), article.published(measurement.asked))
    return found


def rendered(svg: str, *fonts: str) -> bytes:
    return resvg_py.svg_to_bytes(svg_string=svg, skip_system_fonts=True, font_files=list(fonts))


def without_text(svg: str) -> str:
    return re.sub(r"<text.*?</text>", "", svg)


FONTS = tuple(str(path) for path in font_paths())


def test_an_image_is_as_large_as_its_drawing_at_the_zoom() -> None:
    drawn = drawing(some_plots()[0], "wide")
    data = png(drawn, "what it is of")
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", data[16:24])
    assert width == round((drawn.width + 40) * ZOOM)
    assert height > drawn.height * ZOOM


@pytest.mark.parametrize("words", ["Tokens a second", "steady window"])
def test_text_is_drawn_without_any_font_of_the_machine(words: str) -> None:
    svg = svg_document(drawing(next(one for one in some_plots() if one.id == "throughput-time"), "wide"), "a caption")
    assert words in svg
    textless = rendered(without_text(svg))
    # Equal pixels compress to equal bytes: without our files nothing of the text is there.
    assert rendered(svg) == textless
    assert rendered(svg, *FONTS) != textless
    less = re.sub(f"<text[^>]*>{words}</text>", "", svg)
    assert less != svg
    assert rendered(less, *FONTS) != rendered(svg, *FONTS)


def test_every_character_of_every_drawing_is_in_the_font() -> None:
    texts = {
        character
        for plot in some_plots()
        for words in re.findall(r"<text[^>]*>(.*?)</text>", drawing(plot, "wide").markup())
        for character in words
    }
    texts -= {" ", "\N{NO-BREAK SPACE}"}

    def glyph(character: str) -> bytes:
        return rendered(
            f'<svg xmlns="http://www.w3.org/2000/svg" width="40" height="40"><text font-family="{FONT_FAMILY}" x="5" y="30">'
            f"{character.replace('&', '&amp;').replace('<', '&lt;')}</text></svg>",
            FONTS[0],
        )

    nothing = {glyph("\ue0f0"), glyph(" ")}
    assert len(texts) > 40
    assert not {character for character in texts if glyph(character) in nothing}


def test_bold_words_are_set_in_the_bold_file() -> None:
    svg = svg_document(drawing(some_plots()[0], "wide"), "")
    assert rendered(svg, FONTS[0]) != rendered(svg, *FONTS)


def test_the_style_is_the_page_s_by_day_with_every_variable_put_in() -> None:
    style = light_style()
    assert "var(" not in style
    assert "currentColor" not in style
    assert "@media" not in style
    assert "font:" not in style
    assert "svg .total { fill: none; stroke: #0b5fa5; stroke-width: 2; }" in style
    assert "svg text.halo { paint-order: stroke; stroke: #fbfaf7" in style
    assert "#7cb8f2" not in style, "a colour of the night"


def test_every_class_of_every_drawing_has_a_rule() -> None:
    style = light_style()
    ruled = set(re.findall(r"\.([\w-]+)", style))
    for plot in some_plots():
        used = {
            name for names in re.findall(r' class="([^"]*)"', drawing(plot, "wide").markup()) for name in names.split()
        }
        assert used - {"wide"} <= ruled, plot.id


def test_words_from_outside_stay_words_and_characters_that_xml_forbids_are_replaced() -> None:
    drawn = Drawing("any", "wide", 40, title=HOSTILE, description=HOSTILE)
    drawn.text(0, 20, HOSTILE)
    drawn.rectangle(0, 0, 10, 10, "bar", title=HOSTILE)
    svg = svg_document(drawn, HOSTILE)
    root = ElementTree.fromstring(svg)
    assert not [one for one in root.iter() if one.tag.endswith("script")]
    assert "</text><script>alert(1)</script>&\"'\ufffd\ufffd\ufffd" in [
        one.text for one in root.iter("{http://www.w3.org/2000/svg}text")
    ]
    assert png(drawn, HOSTILE)[:4] == b"\x89PNG"
