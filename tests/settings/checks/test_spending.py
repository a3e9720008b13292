"""Limits of spending that are refused, and what is said of those that are not."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from facts import cost
from facts.finding import Finding
from settings.checks.structure import structural_problems
from settings.derived.spending import bounds
from settings.sections.spending import Spending
from tests.support.settings import make_settings

PRICED = {"mode": "spot", "usdPerNodeHour": 40.0}
KNOWN = dict.fromkeys(cost.priced_items(), 0.0)


def problems(
    capacity: dict[str, Any] | None = None, prices: dict[str, float] | None = None, **terms: Any
) -> dict[str, Finding]:
    given = {"then": "pause", **terms}
    settings = make_settings(capacity=capacity or PRICED, prices=KNOWN if prices is None else prices, spending=given)
    return {
        one.id: one
        for one in structural_problems(settings)
        if one.id.startswith(("spending-", "node-price", "without-effect"))
    }


def found(*given: Any, **terms: Any) -> dict[str, str]:
    return {id_: one.severity for id_, one in problems(*given, **terms).items()}


@pytest.mark.parametrize(
    ("terms", "expected"),
    [
        ({"limit": 5000}, {"spending-lasts": "note"}),
        ({"until": "2999-01-01T00:00:00Z"}, {}),
        ({"until": "2020-01-01T00:00:00Z"}, {"spending-until-passed": "warning"}),
        (
            {"since": "2999-02-01T00:00:00Z", "until": "2999-01-01T00:00:00Z"},
            {"spending-since-after-until": "error"},
        ),
        ({}, {"spending-without-end": "error"}),
        ({"limit": 39}, {"spending-limit-below-an-hour": "error"}),
        ({"limit": 5000, "every": "month"}, {"spending-lasts": "note"}),
        (
            {"every": "month", "until": "2999-01-01T00:00:00Z"},
            {"without-effect": "error"},
        ),
    ],
)
def test_terms_are_held_against_themselves_and_an_hour_of_the_fleet(terms: Any, expected: dict[str, str]) -> None:
    assert found(**terms) == expected


def test_a_month_in_which_the_limit_goes_to_what_stays_is_refused() -> None:
    disks = KNOWN | {"hyperdisk-ml-capacity": 100.0}
    assert found(prices=disks, limit=5000, every="month") == {"spending-limit-below-what-stays": "error"}
    assert found(prices=disks, limit=5000) == {"spending-lasts": "note"}
    assert found(prices=disks, limit=5000, every="month", then="warn") == {"spending-limit-below-what-stays": "warning"}


ONE = {"replicas": 1}


@pytest.mark.parametrize(
    ("sections", "expected"),
    [
        ({"spending": {"then": "pause", "limit": 5000}}, [(5000, "since", False)]),
        ({"spending": {"then": "pause", "limit": 5000, "every": "month"}}, [(5000, "month", False)]),
        ({"spending": {"then": "pause", "limit": 5000}, "prices": {}}, [(5000, "since", True)]),
        (
            {"spending": {"then": "pause", "until": "2026-08-21T00:00:00Z"}},
            [(24 * 40.0, "2026-08-21T00:00:00Z", False)],
        ),
        ({"spending": {"then": "pause", "until": "2026-08-01T00:00:00Z"}}, [(0, "2026-08-01T00:00:00Z", False)]),
        ({"spending": {"then": "warn", "limit": 5000}}, []),
        ({}, []),
        (
            {
                "spending": {"then": "pause", "limit": 5000},
                "capacity": {"mode": "reservation", "name": "block-7", "usdPerNodeHour": 40.0},
            },
            [],
        ),
    ],
)
def test_a_limit_that_pauses_is_the_most_that_a_stack_costs(
    sections: dict[str, Any], expected: list[tuple[float, str, bool]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1787184000")  # 2026-08-20
    settings = make_settings(**{"capacity": PRICED, "prices": KNOWN, "server": ONE, **sections})
    assert [(one.usd, one.until, one.is_of_known_prices) for one in bounds(settings)] == expected


def test_a_missing_price_is_told() -> None:
    assert found(prices={}, limit=5000)["spending-unknown-prices"] == "note"


@pytest.mark.parametrize(("then", "level"), [("pause", "error"), ("warn", "warning")])
def test_a_limit_that_counts_no_nodes_can_pause_nothing(then: str, level: str) -> None:
    unpriced = {"mode": "reservation", "name": "block-7"}
    assert found(unpriced, limit=5000, then=then)["spending-counts-no-nodes"] == level
    assert "spending-counts-no-nodes" not in found(unpriced, until="2999-01-01T00:00:00Z", then=then)


def test_missing_prices_are_named_as_the_stack_file_takes_them() -> None:
    told = problems({"mode": "reservation", "name": "block-7"}, {}, limit=5000, then="warn")["spending-unknown-prices"]
    items = set(told.allowed.rpartition(" prices of ")[2].split(", "))
    assert {"spending-guard", "boot-disk", "nodes"} <= items <= {*cost.priced_items(), "nodes"}


@pytest.mark.parametrize(("then", "level"), [("pause", "warning"), ("warn", "note")])
def test_a_reservation_of_a_compute_class_is_paid_anyway(then: str, level: str) -> None:
    compute_class = {"mode": "compute-class", "usdPerNodeHour": 50.0}
    reserved = {**compute_class, "reservation": {"name": "block-7"}}
    assert found(reserved, limit=5000, then=then)["spending-reservation-uncounted"] == level
    assert "spending-reservation-uncounted" not in found(compute_class, limit=5000, then=then)
    counted = {**compute_class, "reservation": {"name": "block-7", "nodes": 1}}
    assert found(counted, limit=5000, then=then).get("spending-reservation-uncounted") == (
        level if then == "pause" else None
    )


@pytest.mark.parametrize(("then", "is_found"), [("pause", True), ("warn", False)])
def test_a_pause_of_nodes_that_are_paid_anyway_is_found(then: str, is_found: bool) -> None:
    reserved = {"mode": "reservation", "name": "block-7", "usdPerNodeHour": 50.0}
    assert ("spending-pause-saves-nothing" in found(reserved, limit=5000, then=then)) is is_found


@pytest.mark.parametrize(
    "capacity",
    [
        {"mode": "spot"},
        {"mode": "reservation", "name": "block-7"},
        {"mode": "compute-class", "reservation": {"name": "block-7"}},
    ],
)
@pytest.mark.parametrize(("usd", "is_found"), [(0.01, True), (1000.0, False)])
def test_a_price_far_below_the_list_is_found(capacity: dict[str, Any], usd: float, is_found: bool) -> None:
    assert ("node-price-low" in found({**capacity, "usdPerNodeHour": usd}, limit=10**6)) is is_found


def test_half_of_the_list_price_is_the_bound() -> None:
    listed = cost.node_price("spot", "europe-west4")
    assert listed is not None
    for share, is_found in ((0.49, True), (0.51, False)):
        capacity = {"mode": "spot", "usdPerNodeHour": share * listed.usd}
        assert ("node-price-low" in found(capacity, limit=5000)) is is_found


@pytest.mark.parametrize("wrong", [{"limit": 0}, {"until": "2027-13-01T00:00:00Z"}, {"then": "stop"}])
def test_what_no_limit_can_be_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Spending.model_validate({"then": "pause", **wrong})
