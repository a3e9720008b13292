"""Tests of the way from a goal to a fleet."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from facts.machines import H200
from facts.models import CATALOGUE
from facts.workloads import Lengths, Workload, named_workload
from fleet.plan.model.deployment import Deployment, OfferedLoad, Routing, record_fleet
from fleet.plan.model.fleet_rate import OverloadedError
from fleet.plan.model.performance import ContextTooShortError, estimate
from fleet.plan.nodes_for import Goal, nodes_for

ARTICLE = named_workload("article")
ONE = record_fleet(1)
GATEWAY = record_fleet(2, routing="inference-gateway")


def _nodes(goal: Goal, deployment: Deployment = ONE) -> int:
    return nodes_for(deployment, ARTICLE, goal).nodes


def test_the_articles_own_goals_take_the_articles_nodes() -> None:
    assert _nodes(Goal(total_tokens_per_s=1_103_941, load_share=1)) == 12
    assert _nodes(Goal(in_flight=16_000, load_share=1)) == 8
    assert _nodes(Goal(requests_per_s=642, load_share=1)) == 8


def test_headroom_takes_more_nodes() -> None:
    assert _nodes(Goal(total_tokens_per_s=1e6)) == 13
    assert _nodes(Goal(total_tokens_per_s=1e6, load_share=1)) == 11
    assert _nodes(Goal(in_flight=16_000)) == 10


def test_the_gateway_takes_more_nodes_and_at_least_two() -> None:
    assert _nodes(Goal(total_tokens_per_s=50_000), GATEWAY) == 2
    assert _nodes(Goal(total_tokens_per_s=469_433, load_share=1), GATEWAY) in (8, 9)


def test_a_limit_on_latency_takes_fewer_requests_a_node() -> None:
    plain = nodes_for(record_fleet(1), ARTICLE, Goal(requests_per_s=640))
    assert plain.in_flight_per_node == 2_000
    for limits in ({"tpot_ms": 40.0}, {"ttft_p99_ms": 8_000.0}):
        limited = nodes_for(record_fleet(1), ARTICLE, Goal(requests_per_s=640, **limits))
        assert limited.in_flight_per_node < 2_000
        assert limited.nodes > plain.nodes
    limited = nodes_for(record_fleet(1), ARTICLE, Goal(requests_per_s=640, tpot_ms=40))
    assert estimate(limited.deployment, ARTICLE, OfferedLoad(requests_per_s=640)).tpot_ms.high < 40


def test_memory_limits_the_requests_a_node_is_planned_for() -> None:
    code = replace(record_fleet(1), engine=replace(record_fleet(1).engine, max_model_len_tokens=131_072))
    long = Workload(input_tokens=Lengths.exactly(100_000), output_tokens=Lengths.exactly(2_000))
    sizing = nodes_for(code, long, Goal(in_flight=400, load_share=1))
    assert sizing.in_flight_per_node < 400
    full = OfferedLoad(in_flight=sizing.in_flight_per_node * sizing.nodes)
    assert estimate(sizing.deployment, long, full).kv_cache_peak_percent.value <= 100


MTP2 = replace(ONE, engine=replace(ONE.engine, speculative_tokens=2, gpu_memory_utilization=0.95))
"""170 sequences of three tokens are as many as captured graphs hold; the article's load runs one more."""


def _total(deployment: Deployment, **offered: float) -> float:
    return estimate(deployment, ARTICLE, OfferedLoad(**offered)).total_tokens_per_s.value


def test_a_rate_is_planned_with_the_requests_in_flight_that_give_most() -> None:
    sizing = nodes_for(MTP2, ARTICLE, Goal(total_tokens_per_s=100_000, load_share=1))
    assert (sizing.nodes, sizing.most_in_flight_per_node) == (1, 2_000)
    full = _total(MTP2, in_flight=sizing.in_flight_per_node)
    assert full > max(_total(MTP2, in_flight=sizing.in_flight_per_node + more) for more in (-50, 1, 46))
    # Where it is the same anyway, as many as before: the article's own load.
    assert nodes_for(ONE, ARTICLE, Goal(requests_per_s=1)).in_flight_per_node == 2_000
    assert nodes_for(MTP2, ARTICLE, Goal(in_flight=2_000, load_share=1)).nodes == 1


def test_what_queues_before_full_api_servers_is_not_full_load() -> None:
    small = CATALOGUE["Qwen/Qwen3.5-4B"].shape
    fast = replace(ONE, gpu=H200, model=small, engine=replace(ONE.engine, api_servers=1, max_num_seqs=256))
    sizing = nodes_for(fast, ARTICLE, Goal(requests_per_s=1))
    assert sizing.in_flight_per_node < sizing.most_in_flight_per_node
    assert _total(fast, in_flight=sizing.in_flight_per_node) == pytest.approx(110_000)
    assert _total(fast, in_flight=sizing.in_flight_per_node - 1) < 110_000


@given(
    drafts=st.integers(0, 3),
    captured=st.sampled_from((0, 256, 512, 1_024)),
    api_servers=st.sampled_from((1, 8)),
    routing=st.sampled_from(("cluster-ip", "inference-gateway")),
    nodes=st.integers(2, 40),
    users=st.floats(0.01, 1),
)
def test_more_nodes_never_give_less_and_no_load_gives_more_than_full_load(
    drafts: int, captured: int, api_servers: int, routing: Routing, nodes: int, users: float
) -> None:
    engine = replace(ONE.engine, speculative_tokens=drafts, captured_tokens=captured, api_servers=api_servers)
    fleet = replace(record_fleet(nodes, routing=routing), engine=engine)
    sizing = nodes_for(fleet, ARTICLE, Goal(requests_per_s=1))
    full = [
        _total(fleet.with_nodes(count), in_flight=count * sizing.in_flight_per_node) for count in (nodes, nodes + 1)
    ]
    assert full[0] < full[1]
    # Contention grows with the requests in flight, so that fewer of them gain a part of it.
    assert _total(fleet, in_flight=users * nodes * sizing.most_in_flight_per_node) <= full[0] * 1.0001


def test_a_request_longer_than_the_context_is_refused_before_anything_is_sized() -> None:
    long = Workload(input_tokens=Lengths.exactly(3_000), output_tokens=Lengths.exactly(500))
    with pytest.raises(ContextTooShortError):
        nodes_for(record_fleet(1), long, Goal(requests_per_s=1))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({}, "total_tokens_per_s, requests_per_s and in_flight"),
        ({"in_flight": 1, "requests_per_s": 1}, "give one of"),
        ({"in_flight": 0}, "a goal must be above 0"),
        ({"in_flight": 1, "tpot_ms": -1}, "a goal must be above 0"),
        ({"in_flight": 1, "load_share": 1.5}, "load_share .* 1, got 1.5"),
    ],
)
def test_a_goal_that_cannot_be_is_refused(wrong: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Goal(**wrong)


@given(rate=st.floats(1, 3_000), share=st.floats(0.5, 1), routing=st.sampled_from(["cluster-ip", "inference-gateway"]))
def test_the_fleet_reaches_the_goal_and_one_node_less_does_not(rate: float, share: float, routing: str) -> None:
    sizing = nodes_for(
        record_fleet(2, routing=routing),  # type: ignore[arg-type]
        ARTICLE,
        Goal(requests_per_s=rate, load_share=share),
    )
    full = OfferedLoad(in_flight=sizing.in_flight_per_node * sizing.nodes)
    assert estimate(sizing.deployment, ARTICLE, full).requests_per_s.value * share >= rate * (1 - 1e-9)
    assert estimate(sizing.deployment, ARTICLE, OfferedLoad(requests_per_s=rate)).requests_per_s.value == rate
    fewest = 2 if routing == "inference-gateway" else 1
    if sizing.nodes > fewest:
        with pytest.raises(OverloadedError):
            estimate(
                sizing.deployment.with_nodes(sizing.nodes - 1),
                ARTICLE,
                OfferedLoad(requests_per_s=rate / share * (1 + 1e-6)),
            )
