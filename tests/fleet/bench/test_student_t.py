"""The quantiles of Student's t distribution, against published tables and the distributions that have a closed form."""

from __future__ import annotations

from math import exp, inf, lgamma, pi, sqrt, tan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.bench.student_t import distribution, quantile, two_sided
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
def test_quantiles_are_those_of_the_table(degrees: int, probability: float) -> None:
    assert quantile(probability, degrees) == pytest.approx(TABLE[degrees, probability], abs=5.1e-4)


def test_three_repeats_widen_an_interval_by_4_303() -> None:
    assert two_sided(2) == pytest.approx(4.30265272974946, rel=1e-12)
    assert two_sided(2, confidence=0.9) == pytest.approx(2.91998558035373, rel=1e-12)


def test_many_degrees_of_freedom_approach_the_normal_distribution() -> None:
    assert two_sided(1e7) == pytest.approx(1.959963984540, rel=1e-6)


@given(st.floats(0.5001, 0.9999))
def test_one_and_two_degrees_have_a_closed_form(probability: float) -> None:
    assert quantile(probability, 1) == pytest.approx(tan(pi * (probability - 0.5)), rel=1e-9)
    share = 4 * probability * (1 - probability)
    assert quantile(probability, 2) == pytest.approx(2 * (probability - 0.5) * sqrt(2 / share), rel=1e-9)


def _by_simpsons_rule(t: float, degrees: float, steps: int = 2_000) -> float:
    """The density integrated from 0 to t, and a half for everything below 0."""
    factor: float = exp(lgamma((degrees + 1) / 2) - lgamma(degrees / 2)) / sqrt(degrees * pi)
    density = [factor * (1 + (t * i / steps) ** 2 / degrees) ** (-(degrees + 1) / 2) for i in range(steps + 1)]
    weighted: float = density[0] + density[-1] + 4 * sum(density[1:-1:2]) + 2 * sum(density[2:-1:2])
    return 0.5 + t / steps / 3 * weighted


@pytest.mark.parametrize("degrees", [1.4, 2.941, 7.5, 33.3])
def test_welchs_degrees_of_freedom_are_no_whole_numbers(degrees: float) -> None:
    for t in (0.3, 1.0, 3.2188):
        assert distribution(t, degrees) == pytest.approx(_by_simpsons_rule(t, degrees), abs=1e-10)


@given(st.floats(0.001, 0.999), st.floats(0.3, 1e6))
def test_the_quantile_undoes_the_distribution(probability: float, degrees: float) -> None:
    assert distribution(quantile(probability, degrees), degrees) == pytest.approx(probability, abs=1e-9)


@given(st.floats(-1e200, 1e200), st.floats(0.5, 1e4))
def test_both_tails_are_equal(t: float, degrees: float) -> None:
    assert 0 <= distribution(t, degrees) <= 1
    assert distribution(t, degrees) + distribution(-t, degrees) == pytest.approx(1)


def test_the_ends() -> None:
    assert (distribution(inf, 3), distribution(-inf, 3), distribution(0, 3)) == (1, 0, 0.5)
    assert (distribution(1e300, 3), distribution(-1e300, 3)) == (1, 0)


@pytest.mark.parametrize("probability", [0, 1, -0.5, float("nan")])
def test_a_probability_has_bounds(probability: float) -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        quantile(probability, 3)


@pytest.mark.parametrize("degrees", [0, -1, float("nan")])
def test_without_degrees_of_freedom_there_is_no_interval(degrees: float) -> None:
    with pytest.raises(ValueError, match="above 0"):
        two_sided(degrees)
