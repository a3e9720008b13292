from __future__ import annotations

import re
from xml.etree import ElementTree

from fleet.bench.report import article
from fleet.bench.report.plots import plots_of
from fleet.bench.report.shown import shown
from fleet.report.charts import Plot, drawing
from fleet.report.svg import Drawing
from fleet.report.svg_file import light_style, svg_document
from tests.fleet.bench.measurements import a_measurement, a_sweep

HOSTILE = "</text><script>alert(1)</script>&\"'\x00\x1b\ud800"


def some_plots() -> list[Plot]:
    found: list[Plot] = []
    for measurement in (a_measurement(), a_sweep()):
        found += plots_of(shown(measurement), article.published(measurement.asked))
    return found


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
