"""Tests of numbers with an interval."""

from __future__ import annotations

import pytest

from fleet.plan.model.estimates import Estimate


def test_an_interval_that_does_not_hold_its_value_is_refused() -> None:
    with pytest.raises(ValueError, match="must ascend, got 2, 1, 3"):
        Estimate(value=1, low=2, high=3)


def test_a_factor_scales_value_and_interval() -> None:
    assert Estimate(value=4, low=2, high=8).times(3) == Estimate(value=12, low=6, high=24)
