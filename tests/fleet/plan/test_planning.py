"""From a question to a plan: the article's own answers, impossible goals, and what holds for every goal."""

from __future__ import annotations

import re
import time
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.plan.asked import Asked
from fleet.plan.from_settings import facts_of_stack
from fleet.plan.model.deployment import OfferedLoad
from fleet.plan.model.performance import estimate
from fleet.plan.plan import Plan
from fleet.plan.planning import plan
from fleet.plan.question.asking import AskingError, question_of
from fleet.plan.question.goals import Budget, PlanImpossibleError, PlanQuestion, Users, parse_hours
from fleet.plan.search import lowest
from tests.processor import unit_seconds
from tests.support.phases import PHASES
from tests.support.rows import each_row
from tests.support.settings import make_settings


def asked(*, gateway: bool = False, **options: Any) -> PlanQuestion:
    question = question_of(Asked(**options))
    return replace(question, routing="inference-gateway") if gateway else question


def answer(**options: Any) -> Plan:
    return plan(asked(**options))


def of_phase(row: str, **options: Any) -> Plan:
    """A plan with the engine of one of the article's phases."""
    question = asked(profile="record", machine="a4-highgpu-8g", **options)
    stack = facts_of_stack(make_settings(server={"replicas": 1, "engine": PHASES[row]}))
    return plan(replace(question, profile=replace(question.profile, flags=stack.flags, env=stack.env)))


SPOT_USD = 34.0736
"""Of an A4 node-hour in europe-west4."""

DOCUMENTS: dict[str, Any] = {"documents": 50_000, "input_tokens": 3_000, "output_tokens": 500}


@given(st.integers(-50, 50), st.integers(-50, 50), st.integers(-60, 60))
def test_the_search_finds_the_lowest_that_fits(low: int, more: int, first: int) -> None:
    high = low + abs(more)
    expected = next((number for number in range(low, high + 1) if number >= first), None)
    assert lowest(lambda number: number >= first, low, high) == expected


# The article's own answers --------------------------------------------------------------------------------------------


@each_row(
    ("goal", "headroom", "nodes"),
    [
        ({"tokens_per_second": 1_103_941}, 0.0, 12),
        ({"users": 16_000}, 0.0, 8),
        ({"requests_per_second": 642}, 0.0, 8),
        ({"tokens_per_second": 1e6}, 0.15, 13),
        ({"users": 16_000}, 0.15, 10),
        ({"usd_per_hour": 411}, 0.15, 12),
        ({"tokens_per_second": 50_000, "gateway": True}, 0.15, 2),
        ({"tokens_per_second": 1e6, "gateway": True}, 0.15, 22),
    ],
)
def test_goals_of_the_articles_size_take_about_its_nodes(goal: dict[str, Any], headroom: float, nodes: int) -> None:
    assert answer(**goal, headroom=headroom).nodes == nodes


def test_the_record_without_headroom_is_its_published_row_and_its_price() -> None:
    found = answer(tokens_per_second=1_103_941, headroom=0.0)
    assert found.money.usd_per_hour == pytest.approx(12 * SPOT_USD, rel=0.001)
    assert found.published.figure is not None
    assert (found.published.figure.id, found.published.kind) == ("cluster_ip.nodes-12", "equivalent")
    assert (found.maximum.basis, found.maximum.reasons) == ("published", ())
    assert found.utilisation == pytest.approx(0.99, abs=0.01)


def test_a_million_tokens_cost_what_the_article_says_at_its_price_and_load() -> None:
    found = answer(tokens_per_second=1_103_941, headroom=0.0, capacity="cud-1y", usd_per_node_hour=88.93)
    assert found.money.at_load is not None
    assert found.money.at_load.total_usd == pytest.approx(0.2685, abs=0.001)  # provenance.md: 0.30 is rounded up
    assert found.money.at_load.output_usd == pytest.approx(3 * found.money.at_load.total_usd)


def test_the_article_s_third_phase_is_planned_within_captured_graphs() -> None:
    asked_for = of_phase("phases.mtp2-095", tokens_per_second=89_400, headroom=0.0)
    assert asked_for.nodes == 1
    found = of_phase("phases.mtp2-095", users=2_000, headroom=0.0)
    assert (found.nodes, found.maximum, found.full_load_limit) == (1, asked_for.maximum, "throughput")
    assert any("--max-cudagraph-capture-size" in remark for remark in found.remarks)
    assert found.performance.total_tokens_per_s.value == pytest.approx(90_567, rel=0.02)


def of_release(version: str, **options: Any) -> Plan:
    question = asked(profile="record", machine="a4-highgpu-8g", headroom=0.0, **options)
    return plan(replace(question, profile=replace(question.profile, engine_version=version)))


def test_a_slow_release_serves_less_for_the_same_price() -> None:
    whole, slow = (of_release(version, usd_per_hour=500) for version in ("0.18.0", "0.18.1"))
    assert slow.nodes == whole.nodes
    middle = (0.46 + 0.78) / 2
    rate, expected = slow.maximum.total_tokens_per_s, whole.maximum.total_tokens_per_s
    assert rate.value == pytest.approx(middle * expected.value)
    assert (rate.low, rate.high) == (pytest.approx(0.46 * expected.low), pytest.approx(0.78 * expected.high))
    assert any(reason.startswith("unaligned-fp8-rows-b200") for reason in slow.performance.reasons)
    assert not any("unaligned" in reason for reason in whole.performance.reasons)


# Limits, budgets and batches ------------------------------------------------------------------------------------------


def test_limits_on_latency_are_kept_by_the_high_end_and_at_full_load() -> None:
    plain, found = (answer(requests_per_second=640, **limits) for limits in ({}, {"tpot_ms": 40, "ttft_p99_ms": 8_000}))
    assert [verdict.name for verdict in found.verdicts] == ["TTFT p99", "TPOT"]
    assert all(verdict.holds for verdict in found.verdicts)
    assert found.nodes > plain.nodes
    assert (found.full_load_limit, plain.in_flight_per_node) == ("the latency limits", 2_000)
    one = found.deployment.with_nodes(1)
    full, beyond = (
        estimate(one, found.question.workload, OfferedLoad(in_flight=found.in_flight_per_node + more))
        for more in (0, 1)
    )
    assert full.ttft_p99_ms.high <= 8_000 < beyond.ttft_p99_ms.high or full.tpot_ms.high <= 40 < beyond.tpot_ms.high


def test_a_budget_buys_as_many_nodes_as_it_pays_for() -> None:
    found = answer(usd_per_hour=500)
    assert found.money.usd_per_hour <= 500 < found.money.usd_per_hour + SPOT_USD
    assert found.utilisation == pytest.approx(0.85)
    assert answer(usd_per_hour=500, tpot_ms=35).verdicts[0].holds


@pytest.mark.parametrize("capacity", ["spot", "cud-1y"])
def test_the_price_that_a_plan_shows_buys_its_nodes(capacity: str) -> None:
    planned = answer(users=16_000, capacity=capacity, region="us-central1")
    bought = answer(usd_per_hour=round(planned.money.usd_per_hour, 2), capacity=capacity, region="us-central1")
    assert bought.nodes == planned.nodes


def test_a_batch_takes_one_node_if_there_is_time_and_more_if_there_is_less() -> None:
    easy, hard = (answer(**DOCUMENTS, deadline=deadline) for deadline in ("8h", "45m"))
    assert easy.batch is not None
    assert hard.batch is not None
    assert (easy.nodes, easy.batch.input_tokens) == (1, 150_000_000)
    assert easy.batch.usd is not None
    assert 16 < easy.batch.usd < 33  # less than the hour that the node is there
    assert easy.batch.usd_per_hour_after < 0.2
    assert hard.nodes > 1
    assert hard.batch.total_hours <= 0.75
    assert answer(**{**DOCUMENTS, "documents": 10_000_000}).nodes == 1


def test_a_batch_ends_before_flex_start_ends_its_nodes() -> None:
    long = {**DOCUMENTS, "documents": 100_000_000}
    spot, flex = (answer(**long, capacity=capacity) for capacity in ("spot", "flex-start"))
    assert spot.batch is not None
    assert flex.batch is not None
    assert flex.nodes > spot.nodes == 1
    assert flex.batch.total_hours <= 168 < spot.batch.total_hours


def test_a_batch_starts_sooner_where_the_weights_are_there() -> None:
    cold, warm = (answer(**DOCUMENTS, starts_from=state).batch for state in ("nothing", "weights"))
    assert cold is not None
    assert warm is not None
    assert warm.start_hours < cold.start_hours - 0.2
    assert warm.work_hours == pytest.approx(cold.work_hours)


def test_kept_compile_caches_make_the_next_start_shorter_and_not_the_first() -> None:
    plain, kept = (plan(replace(asked(users=10_000), compile_cache=kept)) for kept in (False, True))
    assert kept.restart.likely_seconds < plain.restart.likely_seconds
    assert kept.time_to_serve == plain.time_to_serve


def test_an_unknown_price_stays_unknown_and_a_stated_one_counts() -> None:
    unknown = answer(users=16_000, capacity="flex-start").money
    assert (unknown.usd_per_node_hour, unknown.at_load) == (None, None)
    assert all(api.break_even_utilisation is None for api in unknown.apis)
    stated = answer(users=16_000, capacity="flex-start", usd_per_node_hour=50.0).money
    assert stated.usd_per_node_hour == 50
    assert stated.usd_per_hour == pytest.approx(500, abs=1)


def test_people_who_read_are_a_rate_that_takes_fewer_nodes() -> None:
    found = answer(users=16_000)
    (rate,) = (match[1] for one in found.remarks if (match := re.search(r"--requests-per-second ([\d,]+)", one)))
    assert answer(requests_per_second=float(rate.replace(",", ""))).nodes < found.nodes / 2


# Parallelism ----------------------------------------------------------------------------------------------------------


@each_row(
    ("machine", "model", "tpot_ms", "ranks"),
    [
        ("a3-highgpu-8g", "Qwen/Qwen3-32B-FP8", None, 1),
        ("a3-highgpu-8g", "Qwen/Qwen3-32B-FP8", 45, 1),
        ("a3-highgpu-8g", "Qwen/Qwen3-32B-FP8", 35, 4),
        ("a4-highgpu-8g", "meta-llama/Llama-3.3-70B-Instruct", None, 1),
        ("a4-highgpu-8g", "meta-llama/Llama-3.3-70B-Instruct", 50, 2),
    ],
)
def test_a_model_that_fits_one_gpu_is_split_for_a_latency_limit_alone(
    machine: str, model: str, tpot_ms: float | None, ranks: int
) -> None:
    found = answer(users=16, machine=machine, model=model, region="us-central1", tpot_ms=tpot_ms)
    assert found.deployment.engine.tensor_parallel == ranks
    assert bool(found.question.split_because) is (ranks > 1)
    assert all(verdict.holds for verdict in found.verdicts)


# Impossible goals -----------------------------------------------------------------------------------------------------


@each_row(
    ("options", "why", "nearest"),
    [
        ({"users": 1_000, "ttft_p99_ms": 50}, "TTFT p99 of 50 ms: ", r"TTFT p99 of \d+ ms"),
        ({"users": 1_000, "tpot_ms": 1}, "TPOT of 1 ms", r"TPOT of \d+ ms"),
        ({"users": 1e8}, "1,000 nodes", r"1,700,000 users on 1,000 nodes"),
        ({"requests_per_second": 1e6}, "1,000 nodes", r"requests/s on 1,000 nodes"),
        ({"tokens_per_second": 1e9}, "1,000 nodes", r"total tok/s on 1,000 nodes"),
        ({"usd_per_hour": 5}, r"\$5.00 .*1 node", r"\$34\.\d\d an hour"),
        ({"usd_per_hour": 50, "gateway": True}, "2 nodes", r"\$68\.\d\d an hour"),
        ({"usd_per_hour": 500, "capacity": "compute-class"}, "node-hour", "--usd-per-node-hour"),
        ({**DOCUMENTS, "deadline": "20m"}, "50,000 documents in 20 min: ", r"min with \d+ nodes"),
        ({**DOCUMENTS, "profile": "record"}, "--max-model-len 2,560", "--profile serve-chat"),
        ({"users": 10, "input_tokens": 200_000, "output_tokens": 10}, "--max-model-len", "200,010"),
        (
            {
                "users": 30,
                "input_tokens": 120_000,
                "output_tokens": 500,
                "machine": "a3-highgpu-1g",
                "model": "Qwen/Qwen3-32B-FP8",
            },
            "--max-model-len",
            "Qwen3-32B-FP8 ends at 40,960",
        ),
        ({"users": 10, "profile": "397b-nvfp4"}, "volume", "profile"),
    ],
)
def test_an_impossible_goal_says_why_and_what_is_nearest(options: dict[str, Any], why: str, nearest: str) -> None:
    with pytest.raises(PlanImpossibleError, match=why) as caught:
        answer(**options)
    assert re.search(nearest, caught.value.nearest), caught.value.nearest


def test_what_is_nearest_is_possible() -> None:
    with pytest.raises(PlanImpossibleError) as caught:
        answer(users=1_000, tpot_ms=1)
    limit = float(caught.value.nearest.split("TPOT of ")[1].split(" ms")[0].replace(",", ""))
    assert answer(users=1_000, tpot_ms=limit).verdicts[0].holds


# Options --------------------------------------------------------------------------------------------------------------


@each_row(
    ("options", "message"),
    [
        ({}, "--users, --requests-per-second"),
        ({"users": 1, "usd_per_hour": 1}, "--users and --usd-per-hour"),
        ({"users": 1, "input_tokens": 10}, "--input-tokens and --output-tokens"),
        ({"documents": 5}, "--input-tokens and --output-tokens"),
        ({"users": 1, "profile": "fast"}, "--profile fast .* record, tuned"),
        ({"users": 1, "deadline": "8h"}, "--deadline .*--documents"),
        ({**DOCUMENTS, "deadline": "soon"}, "'soon'"),
        ({**DOCUMENTS, "deadline": "0h"}, "'0h'"),
        ({"users": 0}, "users must be above 0"),
        ({"users": float("nan")}, "users must be above 0"),
        ({"users": 1, "headroom": 1}, "load_share must be above 0"),
        ({"users": 1, "ttft_p99_ms": -1}, "ttft_p99_ms must be above 0"),
        ({"users": 1, "usd_per_node_hour": 0}, "usd_per_node_hour must be above 0"),
    ],
)
def test_options_that_make_no_question_are_refused_with_what_to_write(options: dict[str, Any], message: str) -> None:
    with pytest.raises(AskingError, match=message):
        asked(**options)


@pytest.mark.parametrize(
    ("text", "hours"), [("8h", 8), ("90m", 1.5), ("90min", 1.5), ("1.5d", 36), ("1800s", 0.5), ("3", 3)]
)
def test_durations_are_read_as_people_write_them(text: str, hours: float) -> None:
    assert parse_hours(text) == hours


# What holds for every goal --------------------------------------------------------------------------------------------

goals = st.one_of(
    st.builds(lambda n: {"tokens_per_second": n}, st.floats(100, 1e7)),
    st.builds(lambda n: {"users": n}, st.floats(1, 1e6)),
    st.builds(lambda n: {"requests_per_second": n}, st.floats(0.1, 8e3)),
    st.builds(lambda n: {"usd_per_hour": n}, st.floats(100, 3e4)),
    st.builds(
        lambda n, tokens, out: {"documents": n, "input_tokens": tokens, "output_tokens": out},
        st.integers(1, 10**8),
        st.integers(1, 30_000),
        st.integers(1, 2_000),
    ),
)
questions = st.builds(
    lambda goal, **rest: asked(**goal, **rest),
    goals,
    capacity=st.sampled_from(["spot", "cud-1y"]),
    region=st.just("us-central1"),
    gateway=st.booleans(),
    headroom=st.floats(0, 0.5),
    starts_from=st.sampled_from(["nothing", "cluster", "weights"]),
)


@given(questions)
def test_no_plan_has_a_negative_number_or_more_than_all_of_a_memory(question: PlanQuestion) -> None:
    try:
        found = plan(question)
    except PlanImpossibleError as error:
        assert error.why
        assert error.nearest
        return
    assert found.nodes >= 1
    assert 0 < found.utilisation <= 1 + 1e-4
    for performance in (found.performance, found.maximum):
        for name in ("total_tokens_per_s", "requests_per_s", "ttft_ms", "tpot_ms"):
            reading = getattr(performance, name)
            assert 0 < reading.low <= reading.value <= reading.high
        assert performance.output_tokens_per_s.value < performance.total_tokens_per_s.value
        assert 0 <= performance.kv_cache_peak_percent <= 100
        memory = performance.memory
        assert 0 < memory.cache_gib < memory.budget_gib <= memory.gpu_gib
    money = found.money
    assert money.usd_per_hour > 0
    assert money.at_load is not None
    assert money.at_full_load is not None
    if not isinstance(question.goal, Users):
        assert 0 < money.at_full_load.total_usd <= money.at_load.total_usd * (1 + 1e-4)
    assert money.at_load.total_usd < money.at_load.output_usd
    if found.batch is not None:
        assert 0 < found.batch.work_low_hours <= found.batch.work_hours <= found.batch.work_high_hours


@given(questions, st.floats(1, 5))
def test_a_larger_goal_never_takes_less(question: PlanQuestion, times: float) -> None:
    goal = question.goal
    field = next(iter(goal.__dataclass_fields__))
    amount = getattr(goal, field)
    larger = replace(question, goal=replace(goal, **{field: type(amount)(amount * times)}))
    try:
        large = plan(larger)
    except PlanImpossibleError:
        return
    try:
        small = plan(question)
    except PlanImpossibleError:
        # A smaller budget may not pay for the smallest fleet; any other goal that is within reach stays so when it shrinks.
        assert isinstance(goal, Budget)
        return
    assert large.nodes >= small.nodes
    assert large.money.usd_per_hour >= small.money.usd_per_hour * (1 - 1e-9)


@given(rate=st.floats(1, 3_000), headroom=st.floats(0, 0.5), gateway=st.booleans())
def test_the_fleet_reaches_the_goal_and_one_node_less_does_not(rate: float, headroom: float, gateway: bool) -> None:
    found = answer(requests_per_second=rate, headroom=headroom, gateway=gateway)
    most = found.maximum.requests_per_s.value * (1 - headroom)
    assert most >= rate * (1 - 1e-9)
    if found.nodes > (2 if gateway else 1):
        less = found.deployment.with_nodes(found.nodes - 1)
        full = OfferedLoad(in_flight=found.in_flight_per_node * less.nodes)
        assert estimate(less, found.question.workload, full).requests_per_s.value * (1 - headroom) < rate


@given(st.floats(1.1, 24), st.floats(1, 4))
def test_more_time_never_takes_more_nodes(hours: float, times: float) -> None:
    batch = {**DOCUMENTS, "documents": 10**7}
    few, many = (answer(**batch, deadline=f"{time:f}h") for time in (hours * times, hours))
    assert few.nodes <= many.nodes
    assert many.batch is not None
    assert many.batch.total_hours <= hours + 1e-9


@pytest.mark.parametrize(
    "options",
    [{"users": 16_000}, {"usd_per_hour": 500}, {**DOCUMENTS, "deadline": "40m"}, {"users": 9_000, "gateway": True}],
)
def test_a_plan_takes_less_than_16_units(options: dict[str, Any]) -> None:
    """Of `tests.processor`: 0.1 s of an idle core."""
    question = asked(**options)
    plan(question)  # reads the ledger
    unit = unit_seconds()
    taken = []
    for _ in range(3):
        begin = time.process_time()
        plan(question)
        taken.append((time.process_time() - begin) / unit)
    assert min(taken) < 16


# How full a node is ---------------------------------------------------------------------------------------------------

LLAMA_8B: dict[str, Any] = {"model": "meta-llama/Llama-3.1-8B-Instruct"}


@each_row(
    ("options", "limit"),
    [
        ({"users": 16_000}, "the article's load"),
        ({"users": 300, "machine": "a3-highgpu-1g", **LLAMA_8B}, "cache memory"),
        ({"users": 300, "machine": "a4-highgpu-8g", **LLAMA_8B}, "max_num_seqs"),
        ({"users": 300, "machine": "a3-highgpu-1g", "tpot_ms": 60, **LLAMA_8B}, "the latency limits"),
        ({"users": 2_000, "row": "phases.mtp2-095"}, "throughput"),
    ],
)
def test_a_node_is_filled_or_the_plan_says_why_not(options: dict[str, Any], limit: str) -> None:
    found = of_phase(**options) if "row" in options else answer(**options)
    assert found.full_load_limit == limit
    assert any("its cache is" in remark for remark in found.remarks) is (found.maximum.kv_cache_peak_percent < 90)


def test_what_queues_before_full_api_servers_is_not_full_load() -> None:
    question = asked(users=1, machine="a4-highgpu-8g", model="Qwen/Qwen3.5-4B")
    flags = {**question.profile.flags, "api-server-count": 1, "max-num-seqs": 256}
    found = plan(replace(question, profile=replace(question.profile, flags=flags)))
    assert found.full_load_limit == "throughput"
    assert found.maximum.total_tokens_per_s.value == pytest.approx(110_000)
