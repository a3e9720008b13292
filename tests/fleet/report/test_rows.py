from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.report.charts import Axis
from fleet.report.rows import Bar, Dot, Row, Rows, rows_drawing
from fleet.report.svg import Format, text_width
from tests.fleet.report.pages import Page, taken_apart

FORMATS: tuple[Format, Format] = ("wide", "narrow")


def chart(*rows: Row, high: float = 10) -> Rows:
    return Rows(id="rows", title="Rows", description="What they are", axis=Axis(low=0, high=high), rows=rows)


def bar(low: float, high: float, words: str = "") -> Bar:
    return Bar(low=low, high=high, style="bar", title="a bar", words=words)


def dot(at: float, words: str = "") -> Dot:
    return Dot(at=at, mark="dot", style="bar", title="a dot", words=words)


def places(*rows: Row) -> dict[str, float]:
    page = Page(rows_drawing(chart(*rows), "wide").markup())
    return {one.words: float(one.attributes["x"]) for one in page.all("text")}


def left_of(row: Row, shape: str, attribute: str) -> float:
    page = Page(rows_drawing(chart(row), "wide").markup())
    return float(page.all(shape)[0].attributes[attribute])


def test_words_stand_in_their_bar_beside_it_or_nowhere() -> None:
    row = Row(label="a", bars=(bar(0, 5, "inside"),))
    assert places(row)["inside"] == pytest.approx(left_of(row, "rect", "x") + 6)
    row = Row(label="a", bars=(bar(0, 0.1, "beside"),))
    assert places(row)["beside"] > left_of(row, "rect", "x") + 6
    row = Row(label="a", bars=(bar(0, 0.1, "no room here"), bar(0.1, 9)))
    assert "no room here" not in places(row)


def test_words_of_a_mark_turn_to_its_left_at_the_end_of_the_axis() -> None:
    row = Row(label="a", dots=(dot(10, "the last"),))
    assert places(row)["the last"] + text_width("the last") < left_of(row, "circle", "cx")


words = st.text("abc de", max_size=40)
spots = st.floats(0, 10)
ROWS = st.builds(
    Row,
    label=words,
    style=st.sampled_from(["", "chosen"]),
    words=st.text("abc 12", max_size=20),
    bars=st.lists(
        st.builds(lambda at, long, text: bar(at, min(at + long, 10), text), spots, spots, words), max_size=4
    ).map(tuple),
    dots=st.lists(st.builds(dot, spots, words), max_size=4).map(tuple),
)


@given(st.lists(ROWS, min_size=1, max_size=6))
def test_words_of_any_rows_stay_inside_and_apart(rows: list[Row]) -> None:
    for format_ in FORMATS:
        found = taken_apart(rows_drawing(chart(*rows), format_).markup())
        labels = [one for one in found.labels if one.words.strip()]
        assert all(one.left >= -0.5 and one.right <= found.width + 0.5 for one in labels)
        assert all(one.top >= -0.5 and one.bottom <= found.height + 0.5 for one in labels)
        assert not [(one, other) for one, other in combinations(labels, 2) if one.meets(other)]


@pytest.mark.parametrize("minutes", [0.2, 3, 14, 40, 240, 3000])
def test_the_axis_has_few_round_ticks_that_are_apart(minutes: float) -> None:
    for format_ in FORMATS:
        page = Page(rows_drawing(chart(Row(label="a"), high=minutes), format_).markup())
        ticks = [one.words for one in page.all("text") if one.attributes.get("class") == "tick" and one.words]
        assert 2 <= len(ticks) <= 13
        assert ticks[0] == "0"
