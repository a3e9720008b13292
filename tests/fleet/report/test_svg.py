from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.report.svg import (
    Drawing,
    LegendEntry,
    LogScale,
    Scale,
    legend_rows,
    lines_of,
    round_above,
    round_ticks,
    text_width,
)
from tests.fleet.report.pages import Page


def test_words_are_as_wide_as_the_widest_of_usual_fonts_makes_them() -> None:
    # DejaVu Sans at 12 px, measured in a browser: 1,103,941 takes 61.1 px and "throughput" 67.3 px.
    assert 61 <= text_width("1,103,941") <= 64
    assert 67 <= text_width("throughput") <= 71
    assert text_width("bold", bold=True) > text_width("bold")
    assert text_width("") == 0


@given(st.lists(st.text("abcdefg WM.", min_size=1), max_size=12), st.floats(30, 400))
def test_broken_words_fit_and_none_is_lost_but_the_end_of_one_too_long(words: list[str], width: float) -> None:
    text = " ".join(words)
    lines = lines_of(text, width)
    assert all(text_width(line) <= width for line in lines)
    if not any("…" in line for line in lines):
        assert "".join("".join(lines).split()) == "".join(text.split())


def test_a_number_and_its_unit_stay_on_one_line() -> None:
    assert lines_of("takes 10\N{NO-BREAK SPACE}min", text_width("takes 10")) == ("takes", "10\N{NO-BREAK SPACE}min")


@given(st.floats(1e-3, 1e9), st.integers(2, 10))
def test_an_axis_ends_above_what_it_shows_and_not_far_above(value: float, most: int) -> None:
    end = round_above(value, most)
    assert end >= value * (1 - 1e-9)
    ticks = round_ticks(0, end, most)
    assert ticks[-1] == pytest.approx(end)
    assert 2 <= len(ticks) <= most + 2


@given(st.floats(0, 1e6), st.floats(1, 1e6), st.integers(2, 10))
def test_ticks_are_round_within_the_axis_and_not_too_many(low: float, span: float, most: int) -> None:
    ticks = round_ticks(low, low + span, most)
    assert len(ticks) <= most + 1
    slack = span * 1e-6
    assert all(low - slack <= tick <= low + span + slack for tick in ticks)


def test_scales_put_ends_at_ends() -> None:
    assert Scale(0, 10, 100, 200)(5) == 150
    assert Scale(0, 10, 200, 100)(10) == 100
    assert LogScale(0.1, 10, 0, 100)(1) == pytest.approx(50)


def test_a_legend_breaks_where_the_width_ends() -> None:
    entries = [LegendEntry(words="some words", style="model", mark="line")] * 5
    assert [len(row) for row in legend_rows(entries, 10_000)] == [5]
    assert [len(row) for row in legend_rows(entries, 250)] == [2, 2, 1]
    assert [len(row) for row in legend_rows(entries, 10)] == [1] * 5


def test_words_in_a_drawing_are_escaped() -> None:
    drawing = Drawing("x", "wide", 20, title="a < b", description='"q" & r')
    drawing.text(0, 10, "<b>")
    drawing.rectangle(0, 0, 5, 5, "part", title="</rect>")
    page = Page(drawing.markup())
    assert not page.all("b")
    assert [one.words for one in page.all("text")] == ["<b>"]
    assert [one.words for one in page.all("title")] == ["a < b", "</rect>"]
    assert page.all("desc")[0].words == '"q" & r'


@pytest.mark.parametrize("x", [-50, 460, 5_000])
def test_a_label_of_an_axis_stays_inside(x: float) -> None:
    drawing = Drawing("x", "wide", 20, title="t", description="d")
    drawing.tick(x, 10, "label")
    at = float(Page(drawing.markup()).all("text")[0].attributes["x"])
    half = text_width("label") / 2
    assert at == pytest.approx(min(max(x, half), 920 - half), abs=0.1)
