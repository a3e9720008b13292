"""A plan on paper of any width: nothing sticks out, nothing is missing, both rates always."""

from __future__ import annotations

import io
import re
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleet.plan.plan import Plan
from fleet.plan.planning import compare, plan
from fleet.plan.question.asking import Asked, question_of
from fleet.plan.question.goals import CAPACITIES, PlanImpossibleError
from fleet.plan.report.text import print_comparison, print_plan
from fleet.report.terminal import Paper

GOALS: dict[str, dict[str, Any]] = {
    "documents": {"documents": 50_000, "tokens_per_document": 3_000, "output_tokens": 500, "deadline": "8h"},
    "users": {"users": 16_000, "spares": 2},
    "tokens": {"tokens_per_second": 1e6, "gateway": True},
    "budget": {"usd_per_hour": 500.0, "hours_per_week": 50.0, "loss_per_node_day": 1.0},
    "rate": {"requests_per_second": 640.0, "isl": 1024, "osl": 512, "ttft_p99_ms": 15_000.0, "tpot_ms": 60.0},
    "unpriced": {"users": 100, "capacity": "calendar"},
}


@cache
def made(name: str) -> Plan:
    return plan(question_of(Asked(**GOALS[name])))


def printed(answer: Plan, width: int = 100, written: str | None = None) -> str:
    stream = io.StringIO()
    print_plan(Paper(stream=stream, width=width, styled=False), answer, written=written)
    return stream.getvalue()


@pytest.mark.parametrize("width", [60, 80, 100, 120])
@pytest.mark.parametrize("name", GOALS)
def test_no_line_sticks_out(name: str, width: int) -> None:
    assert [line for line in printed(made(name), width).splitlines() if len(line) > width] == []


@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize("name", ["users", "budget", "tokens"])
def test_no_line_of_a_comparison_sticks_out(name: str, width: int) -> None:
    stream = io.StringIO()
    print_comparison(Paper(stream=stream, width=width, styled=False), compare(made(name).question))
    lines = stream.getvalue().splitlines()
    assert [line for line in lines if len(line) > width] == []
    assert sum(line.startswith(CAPACITIES) for line in lines if not line.startswith(" ")) == 12


@pytest.mark.parametrize("name", GOALS)
def test_total_and_output_tokens_are_both_there(name: str) -> None:
    text = printed(made(name))
    assert "tok/s total" in text
    assert "tok/s output" in text


def test_what_the_plan_sets_is_no_estimate() -> None:
    line = next(line for line in printed(made("rate")).splitlines() if "requests/s" in line and "as planned" in line)
    assert "640" in line


def test_spares_say_why_and_are_counted_apart() -> None:
    text = printed(made("users"))
    assert "10 A4 nodes and 2 spares (96 B200)" in text
    assert "2: as asked" in text
    assert "1 loss a node and day" in printed(made("budget"))


def test_an_unknown_price_is_said_and_never_shown_as_a_sum() -> None:
    text = printed(made("unpriced"))
    assert "no price of a node-hour" in text
    assert "$0.10 an hour" not in text
    assert "--usd-per-node-hour" in text


def test_a_batch_is_held_against_what_the_apis_ask_for_the_same_tokens() -> None:
    # 150M tokens in at 0.25 and 25M out at 1.50.
    assert "Gemini 3.1 Flash-Lite     0.43   $75.00" in printed(made("documents"))


def test_a_month_names_the_hours_it_is_for() -> None:
    assert "(50 of 168 hours a week)" in printed(made("budget"))
    assert "(730 hours)" in printed(made("users"))


def test_the_next_step_is_the_file_or_its_preview() -> None:
    assert printed(made("users")).rstrip().endswith("--write STACK makes the stack file")
    assert printed(made("users"), written="prod").rstrip().endswith("fleet preview --stack prod")


def test_styles_change_no_word() -> None:
    stream = io.StringIO()
    print_plan(Paper(stream=stream, width=100, styled=True), made("users"))
    plain = re.sub(r"\x1b\[[0-9;]*m", "", stream.getvalue())
    assert plain.split() == printed(made("users")).split()


@settings(max_examples=25, deadline=None)
@given(
    users=st.floats(1, 5e5),
    isl=st.integers(1, 100_000),
    osl=st.integers(1, 4_000),
    capacity=st.sampled_from(CAPACITIES),
    gateway=st.booleans(),
    width=st.integers(60, 130),
)
def test_any_plan_fits_its_paper(users: float, isl: int, osl: int, capacity: Any, gateway: bool, width: int) -> None:
    try:
        answer = plan(question_of(Asked(users=users, isl=isl, osl=osl, capacity=capacity, gateway=gateway)))
    except PlanImpossibleError:
        return
    assert [line for line in printed(answer, width).splitlines() if len(line) > width] == []
