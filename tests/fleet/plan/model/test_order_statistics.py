"""Tests of the expected largest of several random numbers."""

from __future__ import annotations

from math import pi, sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.plan.model.order_statistics import expected_maximum


def test_of_one_it_is_the_mean_and_of_two_and_three_the_textbook_value() -> None:
    assert expected_maximum(1) == 0
    assert expected_maximum(2) == pytest.approx(1 / sqrt(pi), abs=1e-4)
    assert expected_maximum(3) == pytest.approx(1.5 / sqrt(pi), abs=1e-4)


def test_of_none_there_is_no_largest() -> None:
    with pytest.raises(ValueError, match="count must be 1 or more, got 0"):
        expected_maximum(0)


@given(count=st.integers(1, 5_000))
def test_it_grows_with_the_count_and_stays_below_the_known_bound(count: int) -> None:
    from math import log

    assert expected_maximum(count) < expected_maximum(count + 1)
    assert expected_maximum(count) <= sqrt(2 * log(count)) + 1e-12
