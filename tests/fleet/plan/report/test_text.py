"""A plan on paper of any width: nothing sticks out, nothing is missing, both rates always."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.plan.asked import Asked
from fleet.plan.plan import Plan
from fleet.plan.planning import compare, plan
from fleet.plan.question.asking import question_of
from fleet.plan.question.goals import CAPACITIES, PlanImpossibleError
from fleet.plan.report.outline import comparison, outline
from fleet.report.as_text import print_text
from fleet.report.terminal import Paper
from tests.support.rows import each_row

GOALS: dict[str, dict[str, Any]] = {
    "documents": {"documents": 50_000, "tokens_per_document": 3_000, "output_tokens": 500, "deadline": "8h"},
    "users": {"users": 16_000, "spares": 2},
    "tokens": {"tokens_per_second": 1e6, "gateway": True},
    "budget": {"usd_per_hour": 500.0, "hours_per_week": 50.0, "loss_per_node_day": 1.0},
    "rate": {"requests_per_second": 640.0, "isl": 1024, "osl": 512, "ttft_p99_ms": 15_000.0, "tpot_ms": 60.0},
    "unpriced": {"users": 100, "capacity": "reservation"},
}


@cache
def made(name: str) -> Plan:
    return plan(question_of(Asked(**GOALS[name])))


def printed(answer: Plan, width: int = 100, written: tuple[str, ...] = (), commands: tuple[str, ...] = ()) -> str:
    stream = io.StringIO()
    print_text(Paper(stream=stream, width=width, styled=False), outline(answer, written=written, commands=commands))
    return stream.getvalue()


def compared(name: str, width: int) -> str:
    stream = io.StringIO()
    print_text(Paper(stream=stream, width=width, styled=False), comparison(compare(made(name).question)))
    return stream.getvalue()


def test_the_wording_of_a_plan(golden: Callable[[str, str], None]) -> None:
    golden("plan/users.txt", printed(made("users"), 80))
    golden("plan/documents.txt", printed(made("documents"), 80))
    golden("plan/comparison.txt", compared("users", 80))


@each_row("width", [60, 80, 100, 120])
@each_row("name", GOALS)
def test_no_line_sticks_out(name: str, width: int) -> None:
    assert [line for line in printed(made(name), width).splitlines() if len(line) > width] == []


@pytest.mark.slow
@each_row("width", [60, 80, 120])
@each_row("name", ["users", "budget", "tokens"])
def test_no_line_of_a_comparison_sticks_out(name: str, width: int) -> None:
    lines = compared(name, width).splitlines()
    assert [line for line in lines if len(line) > width] == []
    assert sum(line.startswith(CAPACITIES) and ", " in line for line in lines) == 14


@pytest.mark.parametrize("name", GOALS)
def test_total_and_output_tokens_are_both_there(name: str) -> None:
    text = printed(made(name))
    assert "tok/s total" in text
    assert "tok/s output" in text


def test_what_the_plan_sets_is_no_estimate() -> None:
    line = next(line for line in printed(made("rate")).splitlines() if "Requests/s" in line and "given" in line)
    assert "640" in line


def test_an_unknown_price_is_said_and_never_shown_as_a_sum() -> None:
    text = printed(made("unpriced"))
    assert made("unpriced").money.usd_per_node_hour is None
    assert "1 node: no price for europe-west4" in text
    assert "--usd-per-node-hour" in text


def test_the_next_step_is_the_file_or_its_preview() -> None:
    assert "→ add --write STACK" in printed(made("users"))
    told = printed(made("users"), written=("Pulumi.prod.yaml",), commands=("fleet preview --stack prod",))
    assert "Pulumi.prod.yaml" in told
    assert "→ fleet preview --stack prod" in told
    assert "--write STACK" not in told


def test_styles_change_no_word() -> None:
    stream = io.StringIO()
    print_text(Paper(stream=stream, width=100, styled=True), outline(made("users")))
    plain = re.sub(r"\x1b\[[0-9;]*m", "", stream.getvalue())
    assert plain.split() == printed(made("users")).split()


@pytest.mark.slow
@given(
    users=st.floats(1, 5e5),
    isl=st.integers(1, 100_000),
    osl=st.integers(1, 4_000),
    capacity=st.sampled_from([one for one in CAPACITIES if one != "on-demand"]),
    gateway=st.booleans(),
    width=st.integers(60, 130),
)
def test_any_plan_fits_its_paper(users: float, isl: int, osl: int, capacity: Any, gateway: bool, width: int) -> None:
    try:
        answer = plan(question_of(Asked(users=users, isl=isl, osl=osl, capacity=capacity, gateway=gateway)))
    except PlanImpossibleError:
        return
    assert [line for line in printed(answer, width).splitlines() if len(line) > width] == []
