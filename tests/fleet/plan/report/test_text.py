"""A plan on paper of any width: nothing sticks out, and what it says follows from the plan."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.plan.asked import Asked
from fleet.plan.plan import Plan
from fleet.plan.planning import plan
from fleet.plan.question.asking import question_of
from fleet.plan.question.goals import CAPACITIES, PlanImpossibleError
from fleet.plan.report.outline import outline
from fleet.report.as_text import print_text
from fleet.report.outline import Next
from fleet.report.terminal import Paper
from tests.support.rows import each_row

GOALS: dict[str, dict[str, Any]] = {
    "documents": {"documents": 50_000, "input_tokens": 3_000, "output_tokens": 500, "deadline": "8h"},
    "users": {"users": 16_000},
    "tokens": {"tokens_per_second": 1e6, "machine": "a3-ultragpu-8g", "region": "us-central1"},
    "budget": {"usd_per_hour": 500.0},
    "rate": {"requests_per_second": 640.0, "ttft_p99_ms": 15_000.0, "tpot_ms": 60.0},
    "unpriced": {"users": 100, "capacity": "reservation"},
    "bound": {"users": 8, "machine": "g2-standard-12", "model": "Qwen/Qwen3.5-4B"},
}


@cache
def made(name: str) -> Plan:
    return plan(question_of(Asked(**GOALS[name])))


def printed(answer: Plan, width: int = 80) -> str:
    stream = io.StringIO()
    print_text(Paper(stream=stream, width=width, styled=False), outline(answer))
    return stream.getvalue()


@each_row("name", ["users", "documents"])
def test_the_wording_of_a_plan(golden: Callable[[str, str], None], name: str) -> None:
    golden(f"plan/{name}.txt", printed(made(name)))


@each_row("width", [60, 80, 120])
@each_row("name", GOALS)
def test_no_line_sticks_out(name: str, width: int) -> None:
    assert [line for line in printed(made(name), width).splitlines() if len(line) > width] == []


def test_an_unknown_price_is_never_shown_as_a_sum() -> None:
    assert made("unpriced").money.usd_per_node_hour is None
    assert "$" not in outline(made("unpriced")).verdict


def test_limits_are_findings_with_their_verdict() -> None:
    answer = made("rate")
    assert [(one.id, one.severity) for one in outline(answer).findings] == [
        ("limit-ttft-p99", "passed"),
        ("limit-tpot", "passed"),
    ]
    missed = replace(answer, verdicts=(replace(answer.verdicts[0], high_ms=30_000.0),))
    assert [(one.severity, one.allowed) for one in outline(missed).findings] == [("warning", "at most 15 s")]
    assert outline(made("users")).findings == ()


def test_the_next_step_is_the_file_or_its_preview() -> None:
    def steps(**options: Any) -> list[str]:
        return [one.command for one in outline(made("users"), **options).body if isinstance(one, Next)]

    assert steps() == ["add --write STACK"]
    preview = "fleet preview --stack prod"
    assert steps(written=("Pulumi.prod.yaml",), commands=(preview,)) == [preview]


@pytest.mark.slow
@given(
    users=st.floats(1, 5e5),
    input_tokens=st.integers(1, 100_000),
    output_tokens=st.integers(1, 4_000),
    capacity=st.sampled_from([one for one in CAPACITIES if one != "on-demand"]),
    width=st.integers(60, 130),
)
def test_any_plan_fits_its_paper(width: int, **options: Any) -> None:
    try:
        answer = plan(question_of(Asked(**options)))
    except PlanImpossibleError:
        return
    assert [line for line in printed(answer, width).splitlines() if len(line) > width] == []
