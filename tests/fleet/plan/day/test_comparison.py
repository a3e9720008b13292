"""Windows that are drawn from a week, and the ways compared."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from math import ceil
from statistics import median_high
from typing import Any

import pytest
import yaml

from facts.day import Load, load_of_day
from fleet.plan.asked import Asked
from fleet.plan.day.comparison import (
    MOST_WINDOWS,
    Comparison,
    Judged,
    Subject,
    comparisons,
    keeps_own,
    meeting,
    proposed_windows,
    recommended,
    scaled_by_load,
    subject_of_plan,
    subject_of_stack,
)
from fleet.plan.day.simulate import DayResult, simulate
from fleet.plan.planning import plan
from fleet.plan.question.asking import question_of
from fleet.plan.report.day import day_document, format_section, objective, remarks
from fleet.report.words import LADDERS_RESERVATION
from settings.load import check, parse
from settings.sections.scaling import Scaling
from settings.stack_file import read
from tests.fleet.verify.stacks import ROOT, settings_of
from tests.support.rows import each_row
from tests.support.settings import make_settings


@pytest.fixture(scope="module")
def subject() -> Subject:
    return subject_of_plan(plan(question_of(Asked(requests_per_second=640))))


@pytest.fixture(scope="module")
def compared(subject: Subject) -> tuple[Comparison, ...]:
    return comparisons(subject)


def week(by_hour: list[float], busy_day: float = 1.0) -> Load:
    """Seven days alike, but for the first, which is busier by a factor."""
    days = [[rate * (busy_day if day == 0 else 1) for rate in by_hour for _ in range(6)] for day in range(7)]
    return Load(requests_per_s=tuple(rate for day in days for rate in day), step_seconds=600)


def test_windows_cover_what_is_above_the_least() -> None:
    by_hour = [10.0] * 8 + [40.0] * 4 + [20.0] * 8 + [10.0] * 4
    least, windows = proposed_windows(week(by_hour), lambda rate: ceil(rate / 10), max)
    assert least == 1
    assert [(one.start_minute, one.end_minute, one.replicas) for one in windows] == [(480, 720, 4), (720, 1200, 2)]


def test_one_busy_day_counts_for_the_largest_and_not_for_the_median() -> None:
    load = week([10.0] * 12 + [20.0] * 12, busy_day=3)
    of_all = proposed_windows(load, lambda rate: ceil(rate / 10), max)
    usual = proposed_windows(load, lambda rate: ceil(rate / 10), median_high)
    assert (of_all[0], [one.replicas for one in of_all[1]]) == (3, [6])
    assert (usual[0], [one.replicas for one in usual[1]]) == (1, [2])


def test_many_levels_are_joined_until_few_windows_are_left_and_none_is_too_low() -> None:
    by_hour = [10.0 * (1 + hour * 5 % 9) for hour in range(24)]
    least, windows = proposed_windows(week(by_hour), lambda rate: ceil(rate / 10), max)
    assert 0 < len(windows) <= MOST_WINDOWS
    for hour, rate in enumerate(by_hour):
        there = [one.replicas for one in windows if one.start_minute <= 60 * hour < one.end_minute]
        assert max([least, *there]) >= rate / 10


def test_the_target_leaves_room_for_growth_of_the_rate_and_not_of_requests_in_flight(subject: Subject) -> None:
    serving = subject.fleet.serving
    assert serving.in_flight(serving.full_requests_per_s) == pytest.approx(1781, abs=1)
    # A rate 1.41 times smaller has far fewer than 1,781 / 1.41 in flight: latency falls with the load as well.
    assert serving.target(1.41) == pytest.approx(715, abs=2)
    assert serving.in_flight(serving.full_requests_per_s / 1.41) < 0.65 * 1781 / 1.41


@pytest.mark.slow
def test_scaling_by_load_is_cheaper_than_static_and_misses_a_little(compared: tuple[Comparison, ...]) -> None:
    for one in compared:
        ways = {way.name: way for way in one.ways}
        assert list(ways) == ["static", "schedule", "load", "load, more room", "both", "to the objective"]
        static, by_load, more = ways["static"].week, ways["load"].week, ways["load, more room"].week
        assert static.slo_attainment == 1
        assert static.node_hours == 10 * 168
        assert by_load.node_hours < more.node_hours < 0.65 * static.node_hours
        assert 0.97 < by_load.slo_attainment < more.slo_attainment < 1
        assert ways["both"].week.slo_attainment >= by_load.slo_attainment
        for way in ways.values():
            assert way.bad_day is not None
            assert way.week.requests_lost < 0.01 * way.week.requests


@pytest.mark.slow
def test_steps_of_a_quarter_minute_come_to_the_same(subject: Subject, compared: tuple[Comparison, ...]) -> None:
    for one in compared:
        way = next(way for way in one.ways if way.name == "load")
        fine = simulate(way.policy, load_of_day(one.shape, 640, step_seconds=15), subject.fleet)
        assert fine.slo_attainment == pytest.approx(way.week.slo_attainment, abs=0.002)
        assert fine.node_hours == pytest.approx(way.week.node_hours, rel=0.01)


@pytest.mark.slow
def test_the_mistakes_are_worse_than_what_is_proposed(compared: tuple[Comparison, ...]) -> None:
    for one in compared:
        by_load = next(way.week for way in one.ways if way.name == "load")
        waiting, to_zero = (way.week for way in one.mistakes)
        assert waiting.slo_attainment < by_load.slo_attainment - 0.05
        assert waiting.node_hours > by_load.node_hours
        assert to_zero.slo_attainment < 0.75


@pytest.mark.slow
def test_the_proposed_section_is_one_that_a_stack_file_takes(
    subject: Subject, compared: tuple[Comparison, ...]
) -> None:
    policy = meeting(subject, compared)
    assert policy is not None
    proposed = recommended(subject, compared)
    assert proposed is not None
    section = Scaling.model_validate(yaml.safe_load(format_section(proposed)))
    assert (section.min, section.max, section.target_in_flight) == (policy.min, policy.max, policy.target_in_flight)
    assert section.lead_minutes * 60 >= policy.lead_seconds


@pytest.mark.slow
def test_what_is_recommended_meets_the_objective_on_every_shape_or_nothing_is(
    subject: Subject, compared: tuple[Comparison, ...]
) -> None:
    for share in (0.95, 0.98, 0.99, 0.9999):
        strict = replace(subject, objective=share)
        found = comparisons(strict)
        policy, proposed = meeting(strict, found), recommended(strict, found)
        assert (policy is None) is (proposed is None)
        (said,) = day_document(strict, found)["remarks"]
        assert ("none is recommended" in said) is (policy is None)
        if policy is not None:
            for one in found:
                judged = next(way for way in one.ways if way.policy == policy)
                assert judged.week.slo_attainment >= share
                assert judged.week.node_hours < one.ways[0].week.node_hours
    assert meeting(replace(subject, objective=0.98), compared) == compared[0].ways[2].policy


@pytest.mark.slow
def test_the_document_has_every_way_with_its_policy(subject: Subject, compared: tuple[Comparison, ...]) -> None:
    document = day_document(subject, compared)
    assert [one["shape"] for one in document["shapes"]] == ["bursty", "daily"]
    static, _, by_load, *_ = document["shapes"][0]["ways"]
    assert static["policy"] == {"replicas": 10}
    assert by_load["policy"]["target_in_flight"] == subject.fleet.serving.target(1.41)
    assert static["usd_per_month"] == pytest.approx(static["usd_per_day"] / 24 * 730)
    assert "timeline" not in static["week"]


def test_committed_nodes_are_paid_for_whether_they_run_or_not() -> None:
    committed = subject_of_plan(
        plan(question_of(Asked(requests_per_second=640, capacity="cud-1y", region="us-central1")))
    )
    assert committed.fleet.paid_nodes == 10
    assert not committed.interruptible


def test_one_server_is_not_scaled() -> None:
    single = subject_of_plan(plan(question_of(Asked(requests_per_second=10))))
    with pytest.raises(ValueError, match="nothing to scale"):
        comparisons(single)


def short_week(subject: Subject) -> tuple[Comparison, ...]:
    """The row `load` alone, as far as a recommendation reads it: nothing is simulated."""
    before = load_of_day("bursty", subject.peak_requests_per_s, first_day=0)
    result = DayResult(
        requests=1.0,
        requests_late=0.0,
        requests_lost=0.0,
        node_hours=0.0,
        hours=168.0,
        usd=None,
        worst_hour=0,
        worst_hour_attainment=0.0,
        starts=0,
        wasted_starts=0,
        most_nodes=0,
        timeline=(),
    )
    way = Judged(name="load", policy=scaled_by_load(subject, before), week=result)
    return (Comparison(shape="bursty", ways=(way,), mistakes=()),)


@pytest.mark.slow
@each_row("stack", ["prod", "spot", "gateway", "cud"])
@each_row("peak", [1.0, 300.0, 600.0, 5_000.0, 1e9])
def test_what_is_recommended_to_a_stack_is_accepted_by_it(stack: str, peak: float) -> None:
    subject = subject_of_stack(settings_of(stack), peak)
    section = recommended(subject, short_week(subject))
    assert (section is None) == (stack == "cud" or subject.is_short)
    if section is not None:
        assert refusals(stack, yaml.safe_load(format_section(section))) == []


@each_row("late, cheaper, kept", [(0.0, True, True), (0.0, False, False), (1.0, True, False)])
def test_a_stacks_own_scaling_is_kept_where_it_does_as_well_for_less(late: float, cheaper: bool, kept: bool) -> None:
    subject = subject_of_stack(settings_of("prod"))
    assert subject.policy is not None
    [one] = short_week(subject)
    [found] = one.ways
    hours = found.week.node_hours + (-1 if cheaper else 1)
    own = Judged(
        name="the stack's", policy=subject.policy, week=replace(found.week, requests_late=late, node_hours=hours)
    )
    both = (replace(one, ways=(found, own)),)
    assert keeps_own(subject, both) is kept
    assert (recommended(subject, both) is None) is kept


@pytest.mark.parametrize("peak", [None, 900.0])
def test_a_stack_of_one_server_is_told_what_to_write(peak: float | None) -> None:
    with pytest.raises(ValueError, match=r"server\.replicas") as told:
        comparisons(subject_of_stack(settings_of("dev"), peak))
    [section] = re.findall(r"server\.scaling: (\{.*\})", str(told.value))
    assert refusals("dev", yaml.safe_load(section)) == []
    with pytest.raises(ValueError, match="limit of 1,000"):
        comparisons(subject_of_stack(settings_of("dev"), 1e9))


def refusals(stack: str, scaling: dict[str, Any]) -> list[str]:
    """What `check` refuses in a stack with this section in place of its replicas."""
    config = dict(read(ROOT, stack).config)
    server = {key: value for key, value in json.loads(config["vllm-fleet:server"]).items() if key != "replicas"}
    config["vllm-fleet:server"] = json.dumps({**server, "scaling": scaling})
    return [problem.id for problem in check(parse(stack, config)) if problem.blocks]


def test_a_peak_past_the_fleet_is_said_with_the_number_that_it_takes() -> None:
    short = subject_of_stack(settings_of("prod"), 5_000)
    document = day_document(short, short_week(short))
    assert (document["servers_needed"], document["recommended"]) == (short.needed, None)
    assert any(f"server.scaling.max: {short.needed}" in remark for remark in document["remarks"])
    assert short.needed * short.fleet.serving.full_requests_per_s * short.load_share >= 5_000


def test_none_on_time_is_zero_and_not_less(subject: Subject) -> None:
    none = replace(short_week(subject)[0].ways[0].week, requests_late=1.0, requests_lost=1e-12)
    assert str(none.slo_attainment) == "0.0"


def test_a_reservation_is_said_to_be_paid_anyway() -> None:
    of_stacks = {name: list(remarks(subject_of_stack(settings_of(name)))) for name in ("prod", "cud", "spot")}
    assert "the reservation for 2 servers" in of_stacks["prod"][0]
    assert [len(said) for said in of_stacks.values()] == [1, 1, 0]


def test_a_ladders_reservation_is_paid_beside_the_servers_where_its_size_is_stated() -> None:
    ladder = {"mode": "ladder", "usdPerNodeHour": 80.0, "reservation": {"name": "block-7"}}

    def of(nodes: int | None) -> Subject:
        sized = ladder | {"reservation": {"name": "block-7", "nodes": nodes}}
        return subject_of_stack(make_settings(capacity=ladder if nodes is None else sized, server={"replicas": 12}))

    unknown, three, fifteen = of(None), of(3), of(15)
    assert list(remarks(unknown)) == [LADDERS_RESERVATION]
    assert LADDERS_RESERVATION not in (*remarks(three), *remarks(fifteen))
    assert [one.fleet.reserved_nodes for one in (unknown, three, fifteen)] == [0, 3, 15]
    # Nodes beyond the servers are reserved ones, and no other part of the bill.
    assert three.fleet.usd_per_hour_around == pytest.approx(fifteen.fleet.usd_per_hour_around)
    # As many as the servers, or more: nothing is left to save.
    for sized, saves in ((three, True), (fifteen, False)):
        compared = short_week(sized)
        assert (recommended(sized, compared) is not None) is saves
        assert bool(list(objective(sized, compared))) is saves


@pytest.mark.parametrize(
    "capacity",
    [
        {"mode": "reservation", "name": "block-7", "nodes": 3},
        {"mode": "ladder", "reservation": {"name": "block-7", "nodes": 3}},
    ],
)
def test_a_reserved_machine_that_servers_share_is_paid_whole(capacity: dict[str, Any]) -> None:
    settings = make_settings(
        machine="a3-highgpu-8g",
        capacity=capacity | {"usdPerNodeHour": 80.0},
        server={"replicas": 8, "gpus": 2, "profile": "serve-batch", "engine": {"dataParallelSize": 2}},
    )
    fleet = subject_of_stack(settings).fleet
    assert fleet.usd_per_node_hour == 20.0
    assert (fleet.paid_nodes or fleet.reserved_nodes) == 12  # servers for which there is room


def test_a_week_of_a_slow_release_counts_on_the_middle_of_what_remains() -> None:
    whole, slow = (
        subject_of_stack(make_settings(server={"replicas": 4, "profile": "record", "engine": {"version": version}}))
        for version in ("0.18.0", "0.18.1")
    )
    rates = [one.fleet.serving.full_requests_per_s for one in (whole, slow)]
    assert rates[1] == pytest.approx((0.46 + 0.78) / 2 * rates[0])
    assert [sum("unaligned-fp8-rows-b200" in said for said in remarks(one)) for one in (whole, slow)] == [0, 1]
