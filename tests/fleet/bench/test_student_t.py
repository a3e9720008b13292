"""The factors of Student's t distribution, against a published table and the distributions that have a closed form."""

from __future__ import annotations

from math import pi, sqrt, tan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.bench.student_t import two_sided
from tests.support.rows import each_row

# Source: NIST/SEMATECH e-Handbook of Statistical Methods, 1.3.6.7.2, critical values of the t distribution.
TABLE = {
    (1, 0.975): 12.706,
    (2, 0.975): 4.303,
    (3, 0.975): 3.182,
    (4, 0.975): 2.776,
    (9, 0.975): 2.262,
    (30, 0.975): 2.042,
    (100, 0.975): 1.984,
    (2, 0.90): 1.886,
    (5, 0.99): 3.365,
    (1, 0.99): 31.821,
    (10, 0.99): 2.764,
}


@each_row(("degrees", "probability"), TABLE)
def test_factors_are_those_of_the_table(degrees: int, probability: float) -> None:
    assert two_sided(degrees, 2 * probability - 1) == pytest.approx(TABLE[degrees, probability], abs=5.1e-4)


def test_many_degrees_of_freedom_approach_the_normal_distribution() -> None:
    assert two_sided(1e7) == pytest.approx(1.959963984540, rel=1e-6)


@given(st.floats(0.1, 0.999))
def test_one_and_two_degrees_have_a_closed_form(confidence: float) -> None:
    assert two_sided(1, confidence) == pytest.approx(tan(pi * confidence / 2), rel=1e-7)
    assert two_sided(2, confidence) == pytest.approx(confidence * sqrt(2 / (1 - confidence**2)), rel=1e-7)


@pytest.mark.parametrize(
    ("degrees", "confidence"), [(0, 0.95), (-1, 0.95), (float("nan"), 0.95), (3, 0), (3, 1), (3, float("nan"))]
)
def test_what_has_no_interval_is_refused(degrees: float, confidence: float) -> None:
    with pytest.raises(ValueError, match=r"above 0|between 0 and 1"):
        two_sided(degrees, confidence)
