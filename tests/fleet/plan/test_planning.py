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
from fleet.plan.nodes_for import ImpossibleGoalError
from fleet.plan.plan import Plan
from fleet.plan.planning import plan
from fleet.plan.question.asking import AskingError, question_of
from fleet.plan.question.goals import Budget, PlanImpossibleError, PlanQuestion, Users, parse_hours
from fleet.plan.stack_file import stack_text
from tests.processor import unit_seconds
from tests.support.phases import PHASES
from tests.support.rows import each_row
from tests.support.settings import make_settings


def asked(**options: Any) -> PlanQuestion:
    return question_of(Asked(**options))


def answer(**options: Any) -> Plan:
    return plan(asked(**options))


def of_phase(row: str, **options: Any) -> Plan:
    """A plan with the engine of one of the article's phases."""
    question = asked(profile="record", machine="a4-highgpu-8g", **options)
    stack = facts_of_stack(make_settings(server={"replicas": 1, "engine": PHASES[row]}))
    return plan(replace(question, profile=replace(question.profile, flags=stack.flags, env=stack.env)))


SPOT_USD = 34.0736
"""Of an A4 node-hour in europe-west4."""

DOCUMENTS: dict[str, Any] = {"documents": 50_000, "tokens_per_document": 3_000, "output_tokens": 500}


def test_the_article_s_third_phase_is_planned_within_captured_graphs() -> None:
    asked_for = of_phase("phases.mtp2-095", tokens_per_second=89_400, headroom=0.0)
    assert asked_for.nodes == 1
    for users, beyond in ((1_500, False), (1_820, False), (1_830, True), (2_000, True)):
        found = of_phase("phases.mtp2-095", users=users, headroom=0.0)
        assert found.nodes == 1
        assert found.maximum == asked_for.maximum
        assert found.performance.total_tokens_per_s.value <= found.maximum.total_tokens_per_s.value
        assert any("--max-cudagraph-capture-size 576" in remark for remark in found.remarks) is beyond
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
    assert slow.money.at_full_load is not None
    assert whole.money.at_full_load is not None
    assert slow.money.at_full_load.total_usd == pytest.approx(whole.money.at_full_load.total_usd / middle)
    assert any(reason.startswith("unaligned-fp8-rows-b200") for reason in slow.reasons)
    assert not any("unaligned" in reason for reason in whole.reasons)


def test_a_slow_release_takes_more_nodes_and_longer() -> None:
    whole, slow = (of_release(version, tokens_per_second=700_000) for version in ("0.18.0", "0.18.1"))
    assert slow.nodes > 1.5 * whole.nodes
    assert slow.performance.tpot_ms.value > 1.5 * whole.performance.tpot_ms.value
    assert slow.performance.ttft_ms.high > whole.performance.ttft_ms.high
    assert (whole.nodes_as_engine is None, slow.nodes_as_engine) == (False, None)
    assert slow.money.usd_per_hour > 1.5 * whole.money.usd_per_hour


# The article's own answers --------------------------------------------------------------------------------------------


def test_the_record_without_headroom_is_twelve_nodes_and_its_price() -> None:
    found = answer(tokens_per_second=1_103_941, headroom=0.0)
    assert found.nodes == 12
    assert found.money.usd_per_hour == pytest.approx(12 * SPOT_USD, rel=0.001)
    assert found.published.figure is not None
    assert found.published.figure.id == "cluster_ip.nodes-12"
    assert found.published.kind == "equivalent"
    assert found.maximum.total_tokens_per_s.basis == "predicted"
    assert found.utilisation == pytest.approx(0.99, abs=0.01)


def test_a_million_tokens_cost_what_the_article_says_at_its_price_and_load() -> None:
    found = answer(tokens_per_second=1_103_941, headroom=0.0, capacity="cud-1y", usd_per_node_hour=88.93)
    assert found.money.at_load is not None
    assert found.money.at_load.total_usd == pytest.approx(0.2685, abs=0.001)  # provenance.md: 0.30 is rounded up
    assert found.money.at_load.output_usd == pytest.approx(3 * found.money.at_load.total_usd)


# Goals ----------------------------------------------------------------------------------------------------------------


def test_limits_on_latency_are_kept_by_the_high_end() -> None:
    found = answer(requests_per_second=640, isl=1024, osl=512, ttft_p99_ms=15_000, tpot_ms=60)
    assert [verdict.name for verdict in found.verdicts] == ["TTFT p99", "TPOT"]
    assert all(verdict.holds for verdict in found.verdicts)
    assert found.performance.requests_per_s.value == 640
    tight = answer(requests_per_second=640, isl=1024, osl=512, tpot_ms=30)
    assert tight.nodes > found.nodes
    assert tight.verdicts[0].holds


def test_a_budget_buys_as_many_nodes_as_it_pays_for() -> None:
    found = answer(usd_per_hour=500)
    assert found.money.usd_per_hour <= 500 < found.money.usd_per_hour + SPOT_USD
    assert found.utilisation == pytest.approx(0.85)


@pytest.mark.parametrize("capacity", ["spot", "cud-1y"])
def test_the_price_that_a_plan_shows_buys_its_nodes(capacity: str) -> None:
    shown = round(answer(users=16_000, capacity=capacity, region="us-central1").money.usd_per_hour, 2)
    bought = answer(usd_per_hour=shown, capacity=capacity, region="us-central1")
    assert bought.machines == answer(users=16_000, capacity=capacity, region="us-central1").machines
    assert bought.machines == answer(usd_per_hour=shown + 0.01, capacity=capacity, region="us-central1").machines


def test_a_budget_with_limits_buys_the_same_nodes_and_asks_less_of_them() -> None:
    plain, limited = answer(usd_per_hour=500), answer(usd_per_hour=500, tpot_ms=35)
    assert limited.nodes == plain.nodes
    assert limited.verdicts[0].holds
    assert limited.performance.requests_per_s.value < plain.performance.requests_per_s.value


def test_a_budget_pays_for_spares_too() -> None:
    found = answer(usd_per_hour=500, loss_per_node_day=2, confidence=0.99)
    assert found.spares >= 1
    assert found.money.usd_per_hour <= 500
    assert found.nodes < answer(usd_per_hour=500).nodes


def test_a_batch_takes_one_node_if_there_is_time_and_more_if_there_is_less() -> None:
    easy = answer(**DOCUMENTS, deadline="8h")
    assert easy.nodes == 1
    assert easy.batch is not None
    assert easy.batch.total_hours < 8
    assert easy.batch.input_tokens == 150_000_000
    assert easy.batch.usd is not None
    assert 16 < easy.batch.usd < 33  # less than the hour that the node is there
    hard = answer(**DOCUMENTS, deadline="45m")
    assert hard.nodes > 1
    assert hard.batch is not None
    assert hard.batch.total_hours <= 0.75


def test_spares_of_a_batch_are_started_too_and_its_deadline_holds() -> None:
    batch = answer(**DOCUMENTS, deadline="45m", spares=40).batch
    assert batch is not None
    assert batch.total_hours <= 0.75


def test_a_batch_costs_nothing_of_the_nodes_when_it_is_done() -> None:
    batch = answer(**DOCUMENTS, deadline="8h").batch
    assert batch is not None
    assert batch.usd_per_hour_after < 0.2


def test_a_batch_without_a_deadline_is_one_nodes_work() -> None:
    assert answer(documents=10_000_000, tokens_per_document=3_000, output_tokens=500).nodes == 1


def test_a_batch_starts_sooner_where_the_weights_are_there() -> None:
    cold, warm = (answer(**DOCUMENTS, starts_from=state).batch for state in ("nothing", "weights"))
    assert cold is not None
    assert warm is not None
    assert warm.start_hours < cold.start_hours - 0.2
    assert warm.work_hours == pytest.approx(cold.work_hours)


def test_kept_compile_caches_make_the_next_start_shorter_and_not_the_first() -> None:
    plain, kept = (answer(users=10_000, compile_cache=kept) for kept in (False, True))
    assert kept.restart.likely_seconds < plain.restart.likely_seconds
    assert kept.time_to_serve.likely_seconds == plain.time_to_serve.likely_seconds
    assert "compileCache: {enabled: true}" in stack_text(kept)
    assert "compileCache" not in stack_text(plain)


def test_documents_that_the_server_would_refuse_are_flagged() -> None:
    remarks = " ".join(answer(**DOCUMENTS, longest_document=20_000).remarks)
    assert "32,768 tokens" in remarks
    assert "20,500" in remarks
    assert "23,000" in " ".join(answer(**DOCUMENTS, longest_output=20_000).remarks)


# Spares, price, duty --------------------------------------------------------------------------------------------------


def test_spares_are_apart_from_headroom_and_paid_for() -> None:
    plain, spare = answer(users=16_000), answer(users=16_000, spares=3)
    assert (spare.nodes, spare.spares, spare.machines) == (plain.nodes, 3, plain.nodes + 3)
    assert spare.performance == plain.performance
    assert spare.money.usd_per_hour - plain.money.usd_per_hour == pytest.approx(3 * SPOT_USD, abs=0.005)
    assert spare.sizing.quota_gpus == plain.sizing.quota_gpus + 24


def test_spares_follow_from_losses_on_spot_and_from_nothing_on_a_reservation() -> None:
    spot = answer(users=16_000, loss_per_node_day=4, confidence=0.99)
    assert spot.spares >= 2
    assert "4 losses" in spot.spares_why
    reserved = answer(users=16_000, loss_per_node_day=4, capacity="reservation")
    assert reserved.spares == 0
    assert "not reclaimed" in reserved.spares_why
    assert "--loss-per-node-day" in answer(users=16_000).spares_why


def test_what_is_planned_is_what_is_shipped_and_more_memory_takes_no_more_nodes() -> None:
    assert answer(users=2_000, headroom=0.0, profile="record").nodes == 1
    assert of_phase("phases.mtp1-095", users=2_000, headroom=0.0).nodes == 1


def test_a_phase_is_not_said_to_have_run_otherwise_than_it_ran() -> None:
    reasons = of_phase("phases.tp8", users=400).reasons
    assert [reason.partition(":")[0] for reason in reasons] == ["load"]


def test_an_unknown_price_stays_unknown_and_a_stated_one_counts() -> None:
    unknown = answer(users=16_000, capacity="flex-start").money
    assert unknown.usd_per_node_hour is None
    assert unknown.at_load is None
    assert all(api.break_even_utilisation is None for api in unknown.apis)
    stated = answer(users=16_000, capacity="flex-start", usd_per_node_hour=50.0).money
    assert stated.usd_per_node_hour == 50
    assert stated.usd_per_hour == pytest.approx(500, abs=1)


def test_business_hours_cost_less_a_month_and_the_same_for_a_token_on_spot() -> None:
    whole, business = answer(users=16_000).money, answer(users=16_000, hours_per_week=50).money
    assert business.usd_per_month == pytest.approx(whole.usd_per_month * 50 / 168, rel=0.01)
    assert whole.at_load is not None
    assert business.at_load is not None
    assert business.at_load.total_usd == pytest.approx(whole.at_load.total_usd, rel=0.01)


def test_business_hours_on_committed_nodes_cost_the_same_month_and_more_for_a_token() -> None:
    whole = answer(users=16_000, capacity="cud-1y", region="us-east1").money
    business = answer(users=16_000, capacity="cud-1y", region="us-east1", hours_per_week=50)
    assert business.money.usd_per_month == pytest.approx(whole.usd_per_month)
    assert whole.at_load is not None
    assert business.money.at_load is not None
    assert business.money.at_load.total_usd == pytest.approx(whole.at_load.total_usd * 168 / 50)
    assert any("168 hours" in remark for remark in business.remarks)


# How sure -------------------------------------------------------------------------------------------------------------


def test_a_plan_beyond_what_was_measured_says_in_what() -> None:
    found = answer(requests_per_second=640, isl=1024, osl=512)
    assert found.basis == "extrapolated"
    assert any(reason.startswith("prompts:") for reason in found.reasons)


def test_the_gateway_is_advised_against_where_nobody_tried_it() -> None:
    found = answer(users=40_000, gateway=True)
    assert not found.sizing.gateway.use
    assert found.sizing.gateway.text in found.remarks


# Impossible goals -----------------------------------------------------------------------------------------------------


@each_row(
    ("options", "why", "nearest"),
    [
        ({"users": 1_000, "ttft_p99_ms": 50}, "TTFT p99 of 50 ms: ", r"TTFT p99 of \d+ ms"),
        ({"users": 1_000, "tpot_ms": 1}, "TPOT of 1 ms", r"TPOT of \d+ ms"),
        ({"users": 1e8}, "4,096 nodes", r"1,700,000 users on 1,000 nodes"),
        ({"requests_per_second": 1e6}, "4,096 nodes", r"requests/s on 1,000 nodes"),
        ({"tokens_per_second": 1e9}, "4,096 nodes", r"total tok/s on 1,000 nodes"),
        ({"usd_per_hour": 5}, r"\$5.00 .*1 node", r"\$34\.\d\d an hour"),
        ({"usd_per_hour": 50, "gateway": True}, "2 nodes", r"\$68\.\d\d an hour"),
        ({"usd_per_hour": 500, "capacity": "ladder"}, "node-hour", "--usd-per-node-hour"),
        ({**DOCUMENTS, "deadline": "20m"}, "50,000 documents in 20 min: ", r"min with \d nodes"),
        ({**DOCUMENTS, "profile": "record"}, "--max-model-len 2,560", "--profile serve-chat"),
        ({"users": 10, "isl": 200_000, "osl": 10}, "--max-model-len", "200,010"),
        (
            {
                "users": 30,
                "isl": 120_000,
                "osl": 500,
                "machine": "a3-highgpu-1g",
                "model": "Qwen/Qwen3-32B-FP8",
            },
            "--max-model-len",
            "Qwen3-32B-FP8 ends at 40,960",
        ),
        ({"users": 10, "profile": "397b-nvfp4"}, "volume", "profile"),
        ({"users": 5e5, "loss_per_node_day": 150, "confidence": 0.999}, "100 spares", "not reclaimed"),
    ],
)
def test_an_impossible_goal_says_why_and_what_is_nearest(options: dict[str, Any], why: str, nearest: str) -> None:
    with pytest.raises(PlanImpossibleError, match=why) as caught:
        answer(**options)
    assert isinstance(caught.value, ImpossibleGoalError)
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
        ({}, "--tokens-per-second, "),
        ({"users": 1, "usd_per_hour": 1}, "--users and --usd-per-hour"),
        ({"users": 1, "isl": 10}, "--isl and --osl"),
        ({"users": 1, "isl": 10, "osl": 10, "workload": "article"}, "--workload .*--isl and --osl"),
        ({"users": 1, "workload": "chat"}, "--workload chat .* article, vllm-1024-512, shared-prefix-512;"),
        (
            {"users": 1, "workload": "trace"},
            "--workload trace .* article, vllm-1024-512",
        ),
        ({"users": 1, "profile": "fast"}, "--profile fast .* record, tuned"),
        ({"users": 1, "deadline": "8h"}, "--deadline .*--documents"),
        ({**DOCUMENTS, "hours_per_week": 50}, "--hours-per-week .*--documents"),
        ({"documents": 5}, "--documents .*--tokens-per-document .*--output-tokens"),
        ({**DOCUMENTS, "deadline": "soon"}, "'soon'"),
        ({**DOCUMENTS, "deadline": "0h"}, "'0h'"),
        ({**DOCUMENTS, "longest_document": 10}, "--longest-document 10 .*--tokens-per-document 3000"),
        ({**DOCUMENTS, "longest_output": 10}, "--longest-output 10 .*--output-tokens 500"),
        ({"users": 5, "longest_output": 10}, "--longest-output requires --documents"),
        ({"users": 0}, "users must be above 0"),
        ({"users": float("nan")}, "users must be above 0"),
        ({"users": 1, "headroom": 1}, "load_share must be above 0"),
        ({"users": 1, "spares": -1}, "spares must be 0 or more"),
        ({"users": 1, "ttft_p99_ms": -1}, "ttft_p99_ms must be above 0"),
        ({"users": 1, "confidence": 1}, "confidence .* 0 and 1"),
        ({"users": 1, "loss_per_node_day": -1}, "notices_per_node_day must be 0 or more"),
        ({"users": 1, "usd_per_node_hour": 0}, "usd_per_node_hour must be above 0"),
        ({"users": 1, "hours_per_week": 200}, "at most 168"),
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
        lambda n, tokens, out: {"documents": n, "tokens_per_document": tokens, "output_tokens": out},
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
    spares=st.sampled_from([None, 0, 2]),
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
    now, most = found.performance, found.maximum
    assert found.machines >= found.nodes >= 1
    assert 0 < found.utilisation <= 1 + 1e-4
    for performance in (now, most):
        for name in ("total_tokens_per_s", "requests_per_s", "ttft_ms", "tpot_ms"):
            estimate = getattr(performance, name)
            assert 0 < estimate.low <= estimate.value <= estimate.high
        assert performance.output_tokens_per_s.value < performance.total_tokens_per_s.value
        assert 0 <= performance.kv_cache_peak_percent.high <= 100
        memory = performance.memory
        assert 0 < memory.cache_gib < memory.budget_gib <= memory.gpu_gib
    money = found.money
    assert money.usd_per_hour > 0
    assert money.at_load is not None
    assert money.at_full_load is not None
    assert money.at_full_load.total_usd > 0
    if not isinstance(question.goal, Users):
        assert money.at_full_load.total_usd <= money.at_load.total_usd * (1 + 1e-4)
    assert money.at_load.total_usd < money.at_load.output_usd
    if found.batch is not None:
        assert 0 < found.batch.work_low_hours <= found.batch.work_hours <= found.batch.work_high_hours
        assert found.batch.usd is not None
        assert found.batch.usd > 0


@given(questions, st.floats(1, 5))
def test_a_larger_goal_never_takes_less(question: PlanQuestion, times: float) -> None:
    goal = question.goal
    field = next(iter(goal.__dataclass_fields__))
    amount = getattr(goal, field)
    more = type(amount)(amount * times)
    larger = replace(question, goal=replace(goal, **{field: more}))
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


@given(st.floats(100, 1e6), st.floats(0.5, 1), st.floats(0, 0.5))
def test_more_headroom_never_takes_fewer_nodes(users: float, share: float, less: float) -> None:
    less_load = answer(users=users, headroom=1 - share * (1 - less))
    assert less_load.nodes >= answer(users=users, headroom=1 - share).nodes


@given(st.floats(1.1, 24), st.floats(1, 4))
def test_more_time_never_takes_more_nodes(hours: float, times: float) -> None:
    few = answer(documents=10**7, tokens_per_document=3_000, output_tokens=500, deadline=f"{hours * times:f}h")
    many = answer(documents=10**7, tokens_per_document=3_000, output_tokens=500, deadline=f"{hours:f}h")
    assert few.nodes <= many.nodes
    assert many.batch is not None
    assert many.batch.total_hours <= hours + 1e-9


# Speed ----------------------------------------------------------------------------------------------------------------


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


# How full a node is, and how busy users are ------------------------------------------------------------------------------

LLAMA_8B: dict[str, Any] = {"model": "meta-llama/Llama-3.1-8B-Instruct"}


def test_300_users_of_a_small_model_fill_one_gpu_before_a_second_is_bought() -> None:
    found = answer(users=300, machine="a3-highgpu-1g", **LLAMA_8B)
    assert found.nodes == 1
    assert found.full_load_limit == "cache memory"
    assert found.maximum.kv_cache_peak_percent.value > 95
    assert found.deployment.engine.max_num_seqs * 2 > found.maximum.memory.running_limit(found.question.workload)


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
    said = any("its cache is" in remark for remark in found.remarks)
    assert said is (found.maximum.kv_cache_peak_percent.value < 90)


@each_row("think_seconds", [1, 30, 73, 600])
def test_users_who_think_are_fewer_requests_in_flight_by_littles_law(think_seconds: float) -> None:
    busy, thinking = (answer(users=16_000, think_seconds=seconds) for seconds in (None, think_seconds))
    now = thinking.performance
    assert now.in_flight.value + think_seconds * now.requests_per_s.value == pytest.approx(16_000, rel=1e-3)
    assert thinking.nodes <= busy.nodes
    assert thinking.utilisation <= 0.85 + 1e-9


def test_the_default_of_the_think_time_and_what_reading_would_change_are_said() -> None:
    found = answer(users=16_000)
    assert found.nodes_with_readers == answer(users=16_000, think_seconds=72.6).nodes < found.nodes
    assert answer(users=16_000, think_seconds=5).nodes_with_readers is None
    with pytest.raises(AskingError, match="--think-seconds requires --users"):
        asked(requests_per_second=10, think_seconds=5)


@each_row(("rate", "said"), [(100, False), (3_000, True)])
def test_more_requests_than_an_api_server_was_seen_to_take_are_said(rate: float, said: bool) -> None:
    found = answer(requests_per_second=rate, isl=20, osl=2)
    assert any("What a short request costs" in remark for remark in found.remarks) is said
