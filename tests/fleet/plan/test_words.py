from __future__ import annotations

from typing import Any

import pytest

from facts.machines import DEFAULT_MACHINE
from facts.workloads import Lengths, Workload, named_workload
from fleet.plan.model.estimates import Estimate
from fleet.plan.question.goals import (
    CAPACITIES,
    Batch,
    Budget,
    Limits,
    PlanGoal,
    PlanQuestion,
    RequestsPerSecond,
    TokensPerSecond,
    Users,
)
from fleet.plan.question.profiles import profile_facts
from fleet.plan.words import CAPACITIES as NAMES
from fleet.plan.words import format_goal, format_lengths, format_limits, format_quota, format_span


def question(**changes: Any) -> PlanQuestion:
    asked: dict[str, Any] = {
        "goal": TokensPerSecond(total_tokens_per_s=1e6),
        "profile": profile_facts("record"),
        "workload": named_workload("article"),
    }
    return PlanQuestion(**(asked | changes))


def test_a_span_that_reads_the_same_at_both_ends_is_one_number() -> None:
    assert format_span(Estimate(value=5, low=5, high=5, basis="fitted")) == "5"
    assert format_span(Estimate(value=5, low=4, high=6, basis="fitted")) == "4 to 6"


@pytest.mark.parametrize(
    ("goal", "words"),
    [
        (TokensPerSecond(total_tokens_per_s=1e6), "1,000,000 tok/s in total"),
        (Users(count=16_000), "16,000 users"),
        (RequestsPerSecond(requests_per_s=640), "640 requests/s"),
        (Budget(usd_per_hour=500), "$500.00 an hour"),
        (Batch(documents=50_000, deadline_hours=8), "50,000 documents"),
    ],
)
def test_every_goal_has_one_name(goal: PlanGoal, words: str) -> None:
    assert format_goal(question(goal=goal)) == words


def test_limits_and_lengths_are_said() -> None:
    asked = question(limits=Limits(ttft_p99_ms=20_000, tpot_ms=60))
    assert list(format_limits(asked)) == ["TTFT p99 within 20 s", "TPOT within 60 ms"]
    assert list(format_limits(question())) == []
    assert format_lengths(asked.workload) == "512 to 1,024 (mean 768) tokens in, 256 to 512 (mean 384) out"
    exact = Workload(input_tokens=Lengths.exactly(3_000), output_tokens=Lengths.exactly(500))
    assert format_lengths(exact) == "3,000 tokens in, 500 out"


def test_every_way_to_buy_has_a_name_and_a_quota() -> None:
    assert set(NAMES) == set(CAPACITIES)
    assert format_quota("spot", 104, DEFAULT_MACHINE) == "104 B200 GPUs, preemptible"
    assert "no quota" in format_quota("calendar", 8, DEFAULT_MACHINE)
    assert all(format_quota(one, 8, DEFAULT_MACHINE) for one in CAPACITIES)
