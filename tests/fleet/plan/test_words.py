from __future__ import annotations

from facts.machines import DEFAULT_MACHINE
from fleet.plan.model.estimates import Estimate
from fleet.plan.question.goals import (
    CAPACITIES,
)
from fleet.plan.words import CAPACITIES as NAMES
from fleet.plan.words import format_quota, format_span


def test_a_value_without_an_interval_is_given() -> None:
    assert format_span(Estimate(value=5, low=5, high=5)) == "given"
    assert format_span(Estimate(value=5, low=4, high=6)) == "4 to 6"


def test_every_way_to_buy_has_a_name_and_a_quota() -> None:
    assert set(NAMES) == set(CAPACITIES)
    assert format_quota("spot", 104, DEFAULT_MACHINE) == "104 B200 GPUs, preemptible"
    assert "no quota" in format_quota("calendar", 8, DEFAULT_MACHINE)
    assert all(format_quota(one, 8, DEFAULT_MACHINE) for one in CAPACITIES)
