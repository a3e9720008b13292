"""Numbers over time, and the counting of machines and servers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.stage.meter import Series

STEPS = st.lists(st.tuples(st.floats(0.01, 100), st.integers(0, 20)), max_size=12)
MOMENTS = st.floats(0, 900)
TWO = st.tuples(MOMENTS, MOMENTS).map(sorted)
THREE = st.tuples(MOMENTS, MOMENTS, MOMENTS).map(sorted)


def series(*steps: tuple[float, int]) -> Series:
    found = Series()
    for at, value in steps:
        found.add(at, value)
    return found


def one_after_the_other(gaps: list[tuple[float, int]]) -> Series:
    at, found = 0.0, Series()
    for gap, value in gaps:
        at += gap
        found.add(at, value)
    return found


def value_at(one: Series, seconds: float) -> int:
    return [value for at, value in one.steps if at <= seconds][-1]


def test_a_number_that_does_not_change_makes_no_step() -> None:
    assert series((1, 3), (2, 3), (3, 4)).steps == [(0.0, 0), (1, 3), (3, 4)]


def test_what_held_at_the_beginning_of_a_window_counts() -> None:
    one = series((10, 3), (20, 1), (30, 2))
    assert one.within(15) == [3, 1, 2]
    assert one.within(20) == [1, 2]
    assert (one.highest(), one.highest(15), one.highest(20)) == (3, 3, 2)
    assert (one.lowest(), one.lowest(15), one.lowest(30)) == (0, 1, 2)
    assert one.now == 2


def test_a_number_is_reached_when_it_is_that_or_more() -> None:
    one = series((10, 3), (20, 1), (30, 5))
    assert one.first_at(2) == 10
    assert one.first_at(4) == 30
    assert one.first_at(6) is None
    assert one.first_at(2, 12) == 12  # it holds already
    assert one.first_at(2, 20) == 30
    assert one.first_at(0) == 0


def test_an_integral_is_the_area_under_the_steps() -> None:
    one = series((10, 3), (20, 1))
    assert one.integral(0, 30) == 3 * 10 + 1 * 10
    assert one.integral(15, 18) == 9
    assert one.integral(5, 12) == 6
    assert one.integral(25, 40) == 15
    assert one.integral(12, 12) == 0


@given(STEPS, THREE)
def test_integrals_of_two_windows_make_that_of_both(gaps: list[tuple[float, int]], moments: list[float]) -> None:
    one = one_after_the_other(gaps)
    first, second, third = moments
    parts = one.integral(first, second) + one.integral(second, third)
    assert parts == pytest.approx(one.integral(first, third), abs=1e-6)


@given(STEPS, TWO)
def test_an_integral_lies_between_its_extremes(gaps: list[tuple[float, int]], moments: list[float]) -> None:
    one = one_after_the_other(gaps)
    first, last = moments
    length = last - first
    area = one.integral(first, last)
    assert one.lowest(first) * length - 1e-6 <= area <= one.highest(first) * length + 1e-6


@given(STEPS, st.integers(0, 20), MOMENTS)
def test_the_first_moment_of_a_number_is_one_at_which_it_holds_and_none_before(
    gaps: list[tuple[float, int]], value: int, since: float
) -> None:
    one = one_after_the_other(gaps)
    at = one.first_at(value, since)
    if at is None:
        assert one.highest(since) < value
        return
    assert at >= since
    assert value_at(one, at) >= value
    assert all(held < value for when, held in one.steps if since <= when < at)
