"""A plan on paper of any width: nothing sticks out, nothing is missing, both rates always."""

from __future__ import annotations

import io
import re
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
from fleet.plan.words import format_goal, format_lengths, format_span
from fleet.report.as_text import print_text
from fleet.report.terminal import Paper
from fleet.report.words import format_duration, format_milliseconds, format_number, format_percent, format_usd
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


def test_the_wording_of_a_plan(golden: Callable[[str, str], None]) -> None:
    golden("plan/users.txt", printed(made("users"), 80))
    golden("plan/documents.txt", printed(made("documents"), 80))


@each_row("width", [60, 80, 100, 120])
@each_row("name", GOALS)
def test_no_line_sticks_out(name: str, width: int) -> None:
    assert [line for line in printed(made(name), width).splitlines() if len(line) > width] == []


def test_an_unknown_price_is_said_and_never_shown_as_a_sum() -> None:
    text = printed(made("unpriced"))
    assert made("unpriced").money.usd_per_node_hour is None
    assert "1 node: no price for europe-west4" in text
    assert "--usd-per-node-hour" in text


@pytest.mark.parametrize("name", ["users", "documents", "tokens", "budget", "rate"])
def test_every_number_of_the_plan_is_there(name: str) -> None:
    answer = made(name)
    now, most, way = answer.performance, answer.maximum, answer.time_to_serve
    expected = [
        format_goal(answer.question),
        format_lengths(answer.question.workload),
        f"({answer.gpus:,} {answer.deployment.gpu.name})",
        format_usd(answer.money.usd_per_hour),
        format_usd(answer.money.usd_per_month),
        format_percent(answer.utilisation, 0),
        answer.basis,
        answer.published.reason,
        answer.sizing.gateway.text,
        f"{answer.sizing.volume_gib:,} GiB",
        f"{answer.sizing.volume_mibps:,} MiB/s",
        f"/{answer.sizing.ranges.pods_prefix}",
        f"/{answer.sizing.ranges.nodes_prefix}",
        f"{answer.sizing.nat_ports_per_vm:,}",
        f"{answer.sizing.benchmark_clients:,}",
        format_duration(way.likely_seconds),
        format_duration(way.high_seconds),
        format_duration(answer.restart.likely_seconds),
        *answer.reasons,
        *answer.remarks,
        *answer.money.bill.excluded,
        *(format_usd(api.usd_per_million) for api in answer.money.apis),
        *(api.price.name for api in answer.money.apis),
        *(format_duration(step.likely_seconds) for step in way.steps),
    ]
    for estimate in (now, most):
        for reading in ("total_tokens_per_s", "output_tokens_per_s", "requests_per_s", "in_flight"):
            found = getattr(estimate, reading)
            expected += [format_number(found.value), *([] if found.low == found.high else [format_span(found)])]
        for reading in ("ttft_ms", "ttft_p99_ms", "tpot_ms"):
            found = getattr(estimate, reading)
            expected += [format_milliseconds(found.value), format_span(found, format_milliseconds)]
    if answer.batch is not None:
        expected += [f"{answer.batch.documents:,}", format_duration(answer.batch.total_hours * 3600)]
        expected += [format_usd(answer.batch.usd or 0), format_usd(answer.batch.usd_per_hour_after)]
    words = " ".join(printed(answer, 1_000).split())
    assert [one for one in expected if " ".join(one.split()) not in words] == []


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
    assert "add --write STACK" in printed(made("users"))
    told = printed(made("users"), written=("Pulumi.prod.yaml",), commands=("fleet preview --stack prod",))
    assert "Pulumi.prod.yaml" in told
    assert "  fleet preview --stack prod" in told
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
