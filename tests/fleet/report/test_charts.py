from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.report.charts import (
    Axis,
    Bar,
    Dot,
    Level,
    Line,
    Panel,
    Plot,
    Stretch,
    axis_from_zero,
    drawing,
    log_ticks,
    thinned,
)
from fleet.report.svg import Format, LegendEntry
from tests.fleet.report.pages import taken_apart

FORMATS: tuple[Format, Format] = ("wide", "narrow")
rates = st.floats(min_value=0.0, max_value=1e9)


@given(st.lists(rates, min_size=1, max_size=400), st.integers(min_value=1, max_value=120))
def test_thinning_keeps_what_an_area_holds_and_its_order(values: list[float], most: int) -> None:
    points = [(float(number), value) for number, value in enumerate(values)]
    fewer = thinned(points, most)
    assert len(fewer) == min(len(points), most)
    assert all(a < b for (a, _), (b, _) in pairwise(fewer))
    assert min(values) * (1 - 1e-9) <= min(y for _, y in fewer)
    assert max(y for _, y in fewer) <= max(values) * (1 + 1e-9)
    if len(values) % most == 0:
        assert sum(y for _, y in fewer) / len(fewer) == pytest.approx(sum(values) / len(values), rel=1e-9, abs=1e-9)


@given(
    st.floats(min_value=1e-3, max_value=1e5),
    st.floats(min_value=1.5, max_value=1e6),
    st.integers(min_value=2, max_value=12),
)
def test_ticks_of_a_logarithmic_axis_are_round_few_and_within(low: float, spread: float, most: int) -> None:
    found = log_ticks(low, low * spread, most)
    assert len(found) <= most
    assert list(found) == sorted(set(found))
    assert all(low * 0.99 <= value <= low * spread * 1.01 for value in found)
    assert all(f"{value:.0e}"[0] in "1235" for value in found)


@given(st.lists(rates, max_size=20))
def test_an_axis_from_zero_holds_every_value(values: list[float]) -> None:
    axis = axis_from_zero(values)
    assert axis.low == 0 < axis.high
    assert all(value <= axis.high * (1 + 1e-9) for value in values)


@pytest.mark.slow
@given(
    values=st.lists(rates, min_size=1, max_size=300),
    title=st.text(min_size=1, max_size=90),
    columns=st.integers(min_value=1, max_value=4),
)
def test_any_panel_stays_within_its_drawing(values: list[float], title: str, columns: int) -> None:
    axis = axis_from_zero(values)
    panel = Panel(
        title=title,
        x=Axis(low=0, high=len(values), title="x"),
        y=axis,
        stretches=(Stretch(low=0, high=len(values) / 2, style="steady", words="steady window"),),
        bars=tuple(Bar(low=n, high=n + 0.9, value=value, style="bar", title=title) for n, value in enumerate(values)),
        levels=(Level(value=values[0], style="level", words="level"),),
        lines=(Line(style="total", points=tuple((float(n), value) for n, value in enumerate(values))),),
        dots=(Dot(x=0, y=values[0], mark="dot", style="plan", words="first"),),
    )
    plot = Plot(
        id="any",
        title=title,
        description=title,
        panels=(panel,) * 3,
        columns=columns,
        legend=(LegendEntry(words="first", style="plan", mark="dot"),),
    )
    for format_ in FORMATS:
        drawn = taken_apart(drawing(plot, format_).markup())
        assert all(-1 <= x <= drawn.width + 1 and -1 <= y <= drawn.height + 1 for x, y in drawn.points)
        assert len(drawn.points) > 3 * len(values)
