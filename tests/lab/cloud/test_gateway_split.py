"""Shares by weight, and which rule of which route is for a path."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from lab.cloud.gateway_split import Backend, Turns, rule_for, weight_of
from lab.control_plane.api import Manifest
from tests.support.rows import each_row


def backends(*weights: int) -> list[Backend]:
    return [Backend(name=str(number), weight=weight, selector={}) for number, weight in enumerate(weights)]


@pytest.mark.parametrize("weights", [(60, 40), (95, 5), (1, 1), (3, 999_997), (5, 0)])
def test_at_any_time_each_of_two_backends_has_had_its_share_to_within_half_a_request(weights: tuple[int, ...]) -> None:
    turns, counted = Turns(), Counter[str]()
    for number in range(1, 400):
        chosen = turns.next(backends(*weights))
        assert chosen is not None
        counted[chosen.name] += 1
        for name, weight in enumerate(weights):
            assert abs(counted[str(name)] - number * weight / sum(weights)) <= 0.5


def test_other_weights_hold_from_the_next_request_and_no_weight_gets_none() -> None:
    turns = Turns()
    for _ in range(7):
        turns.next(backends(60, 40))
    assert {chosen.name for _ in range(50) if (chosen := turns.next(backends(100, 0)))} == {"0"}
    assert turns.next(backends(0, 0)) is None
    assert turns.next([]) is None


def test_an_unspecified_weight_is_one() -> None:
    assert [weight_of(one) for one in ({"name": "a"}, {"name": "a", "weight": 0})] == [1, 0]


def route(name: str, *matches: dict[str, Any]) -> Manifest:
    rules = [{"matches": [match] if match else [], "name": f"{name}-{number}"} for number, match in enumerate(matches)]
    return {"metadata": {"name": name}, "spec": {"rules": rules}}


def path(kind: str, value: str) -> dict[str, Any]:
    return {"path": {"type": kind, "value": value}}


PREFIX, EXACT = "PathPrefix", "Exact"
RULES: dict[str, tuple[list[Manifest], str | None]] = {
    "no route": ([], None),
    "any path": ([route("a", {})], "a-0"),
    "a prefix": ([route("a", path(PREFIX, "/v1"))], "a-0"),
    "part of an element": ([route("a", path(PREFIX, "/v"))], None),
    "the longest prefix": ([route("a", path(PREFIX, "/")), route("b", path(PREFIX, "/v1/completions"))], "b-0"),
    "the exact path": ([route("a", path(PREFIX, "/v1/completions"), path(EXACT, "/v1/completions"))], "a-1"),
    "another exact path": ([route("a", path(EXACT, "/v1"))], None),
    "the first of equals": ([route("a", path(PREFIX, "/v1")), route("b", path(PREFIX, "/v1/"))], "a-0"),
    "a header": ([route("a", {**path(PREFIX, "/"), "headers": [{"name": "x", "value": "y"}]})], None),
}


@each_row("routes, expected", RULES.values())
def test_the_closest_match_decides(routes: list[Manifest], expected: str | None) -> None:
    chosen = rule_for(routes, "/v1/completions")
    assert (chosen and chosen[1]["name"]) == expected
