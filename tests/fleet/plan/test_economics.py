from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from facts.cost import FleetShape, bill
from fleet.plan.economics import (
    Duty,
    SpotLoss,
    api_prices,
    break_even_utilisation,
    spares_for,
    usd_per_month,
)


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


@given(st.floats(0.1, 168), st.floats(0.1, 168), st.integers(0, 100), st.sampled_from(["spot", "cud-1y"]))
def test_a_longer_week_never_costs_less_and_no_month_less_than_what_stays(
    hours: float, more: float, nodes: int, capacity: str
) -> None:
    fleet = bill(FleetShape(nodes=nodes, region="us-central1", capacity=capacity))
    short, long = sorted((hours, more))
    assert 730 * fleet.residual_usd_per_hour <= usd_per_month(fleet, Duty(hours_per_week=short)) * (1 + 1e-9)
    assert usd_per_month(fleet, Duty(hours_per_week=short)) <= usd_per_month(fleet, Duty(hours_per_week=long)) * (
        1 + 1e-9
    )


def test_a_fleet_that_costs_more_than_the_api_at_full_rate_never_breaks_even() -> None:
    assert break_even_utilisation(88.93, 22_300, 0.67) > 1


@pytest.mark.parametrize(("rate", "price"), [(0, 1), (1, 0), (-1, 1)])
def test_a_break_even_without_a_rate_or_a_price_is_refused(rate: float, price: float) -> None:
    with pytest.raises(ValueError, match="above 0"):
        break_even_utilisation(1, rate, price)


def test_business_hours_on_spot_cost_their_share_and_what_stays() -> None:
    fleet = bill(FleetShape(nodes=12, region="us-central1", capacity="spot"))
    whole, business = usd_per_month(fleet, Duty()), usd_per_month(fleet, Duty(hours_per_week=50))
    assert fleet.nodes.usd_per_hour is not None
    nodes = fleet.nodes.usd_per_hour * 730
    assert whole - business == pytest.approx(nodes * (1 - 50 / 168), rel=1e-6)


def test_committed_capacity_costs_the_same_whether_it_works_or_not() -> None:
    fleet = bill(FleetShape(nodes=12, region="us-central1", capacity="cud-1y"))
    assert usd_per_month(fleet, Duty(hours_per_week=1)) == pytest.approx(usd_per_month(fleet, Duty()))


@pytest.mark.parametrize("hours", [0, -1, 169])
def test_a_week_has_168_hours(hours: float) -> None:
    with pytest.raises(ValueError, match="168"):
        Duty(hours_per_week=hours)


def test_without_losses_no_spare_is_needed() -> None:
    assert spares_for(12, SpotLoss(notices_per_node_day=0, restore_seconds=1000), 0.999) == 0


def test_spares_agree_with_counting_every_case() -> None:
    loss = SpotLoss(notices_per_node_day=4, restore_seconds=1000)
    up = loss.availability
    spares = spares_for(4, loss, 0.99)

    def chance(machines: int) -> float:
        return sum(
            up ** sum(case) * (1 - up) ** (machines - sum(case))
            for case in product((0, 1), repeat=machines)
            if sum(case) >= 4
        )

    assert chance(4 + spares) >= 0.99 > chance(3 + spares)


def test_a_loss_rate_that_no_number_of_spares_makes_up_for_is_said() -> None:
    with pytest.raises(ValueError, match="100 spares"):
        spares_for(500, SpotLoss(notices_per_node_day=200, restore_seconds=1000), 0.999)


@given(st.integers(1, 150), st.floats(0, 8), st.floats(0, 1500), st.floats(0.5, 0.999))
def test_more_losses_and_more_confidence_never_need_fewer_spares(
    nodes: int, notices: float, restore: float, confidence: float
) -> None:
    loss = SpotLoss(notices_per_node_day=notices, restore_seconds=restore)
    worse = SpotLoss(notices_per_node_day=notices * 1.5, restore_seconds=restore)
    surer = confidence + (0.9995 - confidence) / 2
    spares = spares_for(nodes, loss, confidence)
    assert 0 <= spares <= spares_for(nodes, worse, confidence)
    assert spares <= spares_for(nodes, loss, surer)
