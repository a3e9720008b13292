"""Cost of a plan: bill, price per million tokens, API comparison."""

from __future__ import annotations

from dataclasses import replace
from math import ceil

from facts import cost
from facts.cost import HOURS_PER_MONTH, SECONDS_PER_HOUR, Bill, FleetShape, WeightsShape
from facts.disks import throughput_floor_mibps
from facts.node_room import boot_disk_of, pod_disk_gib
from facts.sizing import VLLM_IMAGE_GIB, Sizing
from fleet.plan.economics import api_prices, break_even_utilisation
from fleet.plan.model.performance import Performance
from fleet.plan.plan import ApiComparison, Money, PerMillion
from fleet.plan.question.goals import PlanQuestion


def bill_of(question: PlanQuestion, sizing: Sizing, nodes: int) -> Bill:
    """Hourly bill of a stack with that many nodes and the benchmark off; of a stack that exists, its own bill."""
    if question.billed is not None:
        return cost.bill(_bought(question.billed, question, nodes))
    weights_gb = question.profile.weights_gb
    assert weights_gb is not None
    return cost.bill(
        FleetShape(
            nodes=nodes,
            machine=question.machine,
            boot_disk_gib=boot_disk_of(
                question.machine, requested_gib=pod_disk_gib(question.machine, question.machine.gpus)
            ),
            region=question.region,
            capacity=question.capacity,
            # A stated price is every priority's: the plan knows no reservation whose price it would be.
            priorities=cost.PRIORITIES if question.usd_per_node_hour is None else cost.PRIORITIES[1:],
            usd_per_node_hour=question.usd_per_node_hour,
            weights=WeightsShape(
                size_gib=sizing.volume_gib,
                throughput_mibps=sizing.volume_mibps,
                copies=sizing.volume_copies,
                writer_throughput_mibps=ceil(throughput_floor_mibps(sizing.volume_gib)),
                image_gib=ceil(weights_gb * 1e9 / 2**30),
            ),
            download_gib=ceil(weights_gb * 1e9 / 2**30),
            nat_gateways=1,
            registry_gib=VLLM_IMAGE_GIB,
        )
    )


def _bought(billed: FleetShape, question: PlanQuestion, nodes: int) -> FleetShape:
    """What a stack has billed with other nodes, or with nodes that are bought in another way."""
    shape = replace(
        billed,
        nodes=nodes,
        usd_per_node_hour=question.usd_per_node_hour,
        batch_vcpus=billed.batch_vcpus * nodes / max(1, billed.nodes),
    )
    if billed.capacity == question.capacity:
        return shape
    return replace(
        shape, capacity=question.capacity, priorities=cost.PRIORITIES, committed_nodes=None, reserved_nodes=0
    )


def node_hour_usd(question: PlanQuestion) -> float | None:
    """Price of a node-hour: stated, else list price; None if no dated price is known."""
    if question.usd_per_node_hour is not None:
        return question.usd_per_node_hour
    price = cost.node_price(question.capacity, question.region, question.machine)
    return None if price is None else price.usd


def money(question: PlanQuestion, bill: Bill, at_load: Performance, at_full_load: Performance) -> Money:
    """Cost an hour, a month and per million tokens."""
    node_hour = node_hour_usd(question)
    month = bill.usd_per_hour_known * HOURS_PER_MONTH
    priced = node_hour is not None
    workload, full_rate = question.workload, at_full_load.total_tokens_per_s.value
    apis = []
    for price in api_prices():
        asked = price.usd_per_million(workload.input_tokens.mean, workload.output_tokens.mean)
        apis.append(
            ApiComparison(
                price=price,
                usd_per_million=asked,
                exact_mix=price.usd_per_million_input is not None,
                break_even_utilisation=break_even_utilisation(month / HOURS_PER_MONTH, full_rate, asked)
                if priced
                else None,
            )
        )
    return Money(
        bill=bill,
        usd_per_node_hour=node_hour,
        usd_per_month=month,
        at_load=per_million(month, at_load, HOURS_PER_MONTH) if priced else None,
        at_full_load=per_million(month, at_full_load, HOURS_PER_MONTH) if priced else None,
        apis=tuple(sorted(apis, key=lambda api: api.usd_per_million)),
    )


def per_million(usd: float, performance: Performance, hours: float) -> PerMillion:
    """Price per million tokens, given the cost of some hours at that throughput."""
    millions = hours * SECONDS_PER_HOUR / 1e6
    return PerMillion(
        total_usd=usd / (performance.total_tokens_per_s.value * millions),
        output_usd=usd / (performance.output_tokens_per_s.value * millions),
    )
