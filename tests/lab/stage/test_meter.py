"""Numbers over time, and the counting of machines and servers."""

from __future__ import annotations

from lab.stage.meter import Series


def series(*steps: tuple[float, int]) -> Series:
    found = Series()
    for at, value in steps:
        found.add(at, value)
    return found


def test_a_number_that_does_not_change_makes_no_step() -> None:
    assert series((1, 3), (2, 3), (3, 4)).steps == [(0.0, 0), (1, 3), (3, 4)]


def test_what_held_at_the_beginning_of_a_window_counts() -> None:
    one = series((10, 3), (20, 1), (30, 2))
    assert one.within(15) == [3, 1, 2]
    assert one.within(20) == [1, 2]
    assert (one.highest(), one.highest(15), one.highest(20)) == (3, 3, 2)
    assert (one.lowest(), one.lowest(15), one.lowest(30)) == (0, 1, 2)
    assert one.now == 2
