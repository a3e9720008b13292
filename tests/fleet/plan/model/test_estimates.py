"""Tests of numbers with an interval."""

from __future__ import annotations

import pytest

from fleet.plan.model.estimates import Estimate


def test_an_interval_that_does_not_hold_its_value_is_refused() -> None:
    with pytest.raises(ValueError, match="must ascend, got 2, 1, 3"):
        Estimate(value=1, low=2, high=3, basis="fitted")


def test_a_falling_function_swaps_the_ends() -> None:
    inverse = Estimate(value=4, low=2, high=8, basis="predicted", reasons=("load",)).map(lambda value: 8 / value)
    assert (inverse.value, inverse.low, inverse.high) == (2, 1, 4)
    assert (inverse.basis, inverse.reasons) == ("predicted", ("load",))
