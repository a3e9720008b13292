from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.plan.economics import api_prices, break_even_utilisation


def test_the_article_is_cheaper_than_every_api_it_names_from_a_fraction_of_its_rate_on() -> None:
    shares = {
        price.id: break_even_utilisation(12 * 32.61, 1_103_941, price.usd_per_million_blended) for price in api_prices()
    }
    assert shares["gemini-3.1-flash-lite"] == pytest.approx(0.147, abs=0.001)
    assert shares["claude-opus-4.6"] < 0.01
    assert [price.usd_per_million_blended for price in api_prices()] == [0.67, 5.33, 7.0, 11.67]


def test_the_prices_apart_give_the_articles_blends_to_the_cent() -> None:
    for price in api_prices():
        assert round(price.usd_per_million(2, 1), 2) == price.usd_per_million_blended, price.id
        assert price.source is not None
        assert price.source.date.startswith("2026-03")


def test_a_mix_with_more_output_costs_more_and_none_costs_more_than_output_alone() -> None:
    for price in api_prices():
        assert price.usd_per_million(1, 1) > price.usd_per_million(2, 1)
        assert price.usd_per_million(0, 1) == price.usd_per_million_output
        assert price.usd_per_million(1, 0) == price.usd_per_million_input


def test_without_prices_apart_every_mix_costs_the_blend() -> None:
    blended = replace(api_prices()[0], usd_per_million_input=None, usd_per_million_output=None)
    assert blended.usd_per_million(100, 1) == blended.usd_per_million_blended


@given(st.floats(0.1, 1e5), st.floats(1, 1e7), st.floats(0.01, 100))
def test_a_break_even_is_where_both_cost_the_same(usd_per_hour: float, rate: float, price: float) -> None:
    share = break_even_utilisation(usd_per_hour, rate, price)
    assert share > 0
    assert usd_per_hour / (rate * share * 3600 / 1e6) == pytest.approx(price)


def test_a_fleet_that_costs_more_than_the_api_at_full_rate_never_breaks_even() -> None:
    assert break_even_utilisation(88.93, 22_300, 0.67) > 1


@pytest.mark.parametrize(("rate", "price"), [(0, 1), (1, 0), (-1, 1)])
def test_a_break_even_without_a_rate_or_a_price_is_refused(rate: float, price: float) -> None:
    with pytest.raises(ValueError, match="above 0"):
        break_even_utilisation(1, rate, price)
