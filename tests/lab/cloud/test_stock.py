from __future__ import annotations

from dataclasses import replace

import pytest

from lab.cloud.stock import Stock
from settings.stack import Settings
from tests.support.settings import make_settings

SPOT, HELD, DEMAND = ("spot", ""), ("reservation", "block"), ("on-demand", "")


def test_machines_on_demand_run_out_too() -> None:
    stock = Stock(on_demand_nodes=2)
    assert stock.refusal(DEMAND, {DEMAND: 1, SPOT: 5}) is None
    assert stock.refusal(DEMAND, {DEMAND: 2}) == "stock"
    assert stock.refusal(("on-demand", "c4"), {DEMAND: 2}) is None


def test_a_quota_counts_every_way_but_what_a_reservation_holds() -> None:
    stock = Stock(quota_nodes=3)
    stock.reserve("block", nodes=4, zone="z")
    assert stock.refusal(SPOT, {DEMAND: 2, HELD: 4}) is None
    assert stock.refusal(SPOT, {DEMAND: 2, SPOT: 1}) == "quota"
    assert stock.refusal(HELD, {DEMAND: 2, SPOT: 1}) is None
    assert stock.refusal(("on-demand", "c4"), {SPOT: 3}) is None
    assert Stock(quota_nodes=0).refusal(SPOT, {}) == "quota"


def test_an_a4_is_to_be_had_in_its_own_zones_only() -> None:
    assert Stock().refusal(SPOT, {}, zone="europe-west4-c") == "stock"
    assert Stock().refusal(("on-demand", "c4"), {}, zone="europe-west4-c") is None


@pytest.mark.parametrize(
    ("change", "in_use", "zone", "project", "expected"),
    [
        ({}, 3, "europe-west4-b", None, None),
        ({}, 4, "europe-west4-b", None, "full"),
        ({"active": False}, 0, "europe-west4-b", None, "not active"),
        ({}, 0, "europe-west4-a", None, "other zone"),
        ({"project": "owner-project"}, 0, "europe-west4-b", None, "no reservation"),
        ({"project": "owner-project"}, 0, "europe-west4-b", "owner-project", None),
    ],
)
def test_a_reservation_has_four_ways_to_say_no(
    change: dict[str, object], in_use: int, zone: str, project: str | None, expected: str | None
) -> None:
    stock = Stock()
    stock.reserve("block", **{"nodes": 4, "zone": "europe-west4-b", **change})  # type: ignore[arg-type]
    assert stock.refusal(HELD, {HELD: in_use}, zone=zone, project=project) == expected


def test_a_window_that_begins_opens_its_reservation() -> None:
    stock = Stock()
    stock.reserve("block", nodes=4, zone="europe-west4-b", active=False)
    stock.activate("block")
    assert stock.refusal(HELD, {}) is None
    with pytest.raises(KeyError):
        stock.activate("other")


def test_a_reservation_of_another_size_stays_where_and_whose_it_was() -> None:
    stock = Stock()
    stock.reserve("block", nodes=4, zone="europe-west4-b", active=False, project="ml-infra")
    before = stock.reservations["block"]
    stock.resize("block", 3)
    assert stock.reservations["block"] == replace(before, nodes=3)
    with pytest.raises(KeyError):
        stock.resize("other", 3)


def _settings(**capacity: object) -> Settings:
    return make_settings(capacity=capacity, server={"replicas": 12})


@pytest.mark.parametrize(
    ("capacity", "reserved"),
    [
        ({"mode": "spot"}, {}),
        ({"mode": "reservation", "name": "block", "nodes": 16, "project": "owner-project"}, {"block": 16}),
        ({"mode": "calendar", "reservation": "week"}, {"week": 12}),
        ({"mode": "compute-class", "reservation": {"name": "block"}}, {"block": 12}),
    ],
)
def test_a_stack_finds_the_reservation_that_it_names(capacity: dict[str, object], reserved: dict[str, int]) -> None:
    stock = Stock.for_settings(_settings(**capacity))
    assert {name: value.nodes for name, value in stock.reservations.items()} == reserved
    assert stock.gpu_zones == ("europe-west4-b",)
    assert stock.zones == ("europe-west4-a", "europe-west4-b", "europe-west4-c")


def test_a_stock_can_be_set_back_to_what_it_was() -> None:
    stock, plenty = Stock(quota_nodes=0, on_demand_nodes=0), Stock()
    stock.spot_nodes = 1
    stock.reserve("block", nodes=1, zone="z")
    stock.restore(plenty)
    assert stock.refusal(SPOT, {SPOT: 99}) is None
    assert stock.refusal(DEMAND, {DEMAND: 99}) is None
    assert stock.reservations == {}
