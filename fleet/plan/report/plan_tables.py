"""Tables of a plan: performance, prices, infrastructure, start-up."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from facts.routers import CPU_STEPS, MOST_REPLICAS
from facts.texts import plural
from facts.time_to_serve import TimeToServe
from fleet.plan.model.estimates import Estimate
from fleet.plan.model.performance import Performance
from fleet.plan.plan import PerMillion, Plan
from fleet.plan.routers import routers_for
from fleet.plan.words import format_quota, format_span
from fleet.report.table import Cell, Column, Table, numbers, texts
from fleet.report.words import format_duration, format_milliseconds, format_number, format_usd

_Words = Callable[[float], str]
_READINGS: tuple[tuple[str, str, Callable[[Performance], Estimate], _Words], ...] = (
    ("tok/s total", "input and output", lambda one: one.total_tokens_per_s, format_number),
    ("tok/s output", "", lambda one: one.output_tokens_per_s, format_number),
    ("Requests/s", "", lambda one: one.requests_per_s, format_number),
    ("Requests in flight", "", lambda one: one.in_flight, format_number),
    ("Time to first token (TTFT)", "mean", lambda one: one.ttft_ms, format_milliseconds),
    ("TTFT, 99th percentile", "", lambda one: one.ttft_p99_ms, format_milliseconds),
    ("Time per output token (TPOT)", "mean, after the first", lambda one: one.tpot_ms, format_milliseconds),
    ("Whole request", "mean", lambda one: one.seconds_per_request, lambda seconds: format_milliseconds(1e3 * seconds)),
    ("Running sequences per engine", "mean", lambda one: one.running_per_engine, format_number),
    ("KV cache in use", "peak", lambda one: one.kv_cache_peak_percent, lambda value: f"{value:.0f} %"),
)


def price_of(plan: Plan) -> PerMillion | None:
    """Price per million tokens at the planned load; a batch includes its start-up."""
    return plan.batch.usd_per_million if plan.batch else plan.money.at_load


def performance(plan: Plan) -> Table:
    """Every reading with its interval, at the planned load and at full load; one column where both are the same."""
    loads = [
        ("at best" if plan.basis == "upper bound" else "planned", plan.performance),
        ("full load", plan.maximum),
    ]
    if plan.performance == plan.maximum:
        loads = [("full load", plan.maximum)]
    columns = [
        column for index, (title, _) in enumerate(loads) for column in (*numbers(title), *numbers("low to high"))
    ]
    return Table(
        id="performance-table",
        caption="Throughput, latency and memory at the planned load and at full load",
        columns=(*texts("reading"), *columns),
        rows=tuple(
            (
                Cell(f"{title}, {note}" if note else title),
                *(cell for _, load in loads for cell in _reading(of(load), format_)),
            )
            for title, note, of, format_ in _READINGS
        ),
    )


def _reading(estimate: Estimate, format_: _Words) -> tuple[Cell, Cell]:
    """The value and its interval, or "given" where the goal states it."""
    span = "given" if estimate.low == estimate.high else format_span(estimate, format_)
    return Cell(format_(estimate.value)), Cell(span)


def apis(plan: Plan) -> Table:
    """API prices and the load from which the fleet is cheaper."""
    return Table(
        id="apis-table",
        caption="API prices and break-even load",
        columns=(
            *texts("API"),
            Column(title="provider"),
            *numbers("per million in", "per million out"),
            *numbers("this mix", "break-even load"),
            *(numbers("the same tokens") if plan.batch is not None else ()),
        ),
        rows=tuple(
            (
                Cell(one.price.name),
                Cell(one.price.provider),
                _price(one.price.usd_per_million_input),
                _price(one.price.usd_per_million_output),
                Cell(
                    format_usd(one.usd_per_million),
                    "" if one.exact_mix else f"at {one.price.input_per_output:g} input tokens to one output token",
                ),
                _break_even(one.break_even_utilisation),
                *_of_batch(plan, one.usd_per_million),
            )
            for one in plan.money.apis
        ),
    )


def _of_batch(plan: Plan, usd_per_million: float) -> tuple[Cell, ...]:
    batch = plan.batch
    if batch is None:
        return ()
    return (Cell(format_usd(usd_per_million * (batch.input_tokens + batch.output_tokens) / 1e6)),)


def _price(price: float | None) -> Cell:
    return Cell("unknown") if price is None else Cell(format_usd(price))


def _break_even(share: float | None) -> Cell:
    if share is None:
        return Cell("unknown", "no price of a node-hour")
    if share > 1:
        return Cell("never", f"at {share:.1f} times full load")
    return Cell(f"{100 * share:.1f} % of full load")


def sizing(plan: Plan) -> Table:
    """Infrastructure around the servers."""
    return Table(
        id="sizing-table",
        caption="Infrastructure around the servers",
        columns=(*texts("item"), *numbers("size")),
        rows=tuple((Cell(what, why), Cell(size)) for what, size, why in _sizes(plan)),
    )


def _sizes(plan: Plan) -> Iterator[tuple[str, str, str]]:
    found, ranges = plan.sizing, plan.sizing.ranges
    per_node = plan.deployment.gpus_per_node
    nodes = f"{plural(plan.machines, 'node')} of {per_node}, spares included"
    more = "`fleet doctor --for up --live` counts the stack's other quotas: all regions' GPUs, vCPU, disks"
    gpus = format_quota(plan.question.capacity, found.quota_gpus, plan.question.machine)
    yield "GPU quota to request", gpus, f"{nodes}; {more}"
    copies = f" × {found.volume_copies}" if found.volume_copies > 1 else ""
    yield "Hyperdisk ML, size", f"{found.volume_gib:,} GiB{copies}", "weights plus 10 %, in steps of 16 GiB"
    reading = "sized to read the weights in about 75 s, within the limit for that volume size"
    yield "Hyperdisk ML, throughput", f"{found.volume_mibps:,} MiB/s{copies}", reading
    yield (
        "Node IP range",
        f"/{ranges.nodes_prefix}",
        f"{plural(ranges.nodes, 'node')}, including those without GPUs",
    )
    yield "Pod IP range", f"/{ranges.pods_prefix}", "a /26 per Autopilot node"
    yield "Service IP range", f"/{ranges.services_prefix}", "the fleet's and GKE's"
    if ranges.proxy_only_prefix is not None:
        yield "Proxy-only range", f"/{ranges.proxy_only_prefix}", "for the gateway's load balancer"
    yield "NAT ports per VM", f"{found.nat_ports_per_vm:,}", "weights download once, over few connections"
    yield "Active endpoint pickers", f"{found.gateway.pickers:,}", found.gateway.text
    yield _routers(plan)
    clients = f"{plural(found.benchmark_connections, 'connection')}: at most half a core and 1,000 connections each"
    yield "Benchmark clients", f"{found.benchmark_clients:,}", clients


def _routers(plan: Plan) -> tuple[str, str, str]:
    what, found = "Routers", routers_for(plan)
    if found is None:
        return what, "too many", f"it would take more than {MOST_REPLICAS} routers of {CPU_STEPS[-1]} vCPU"
    wanted = "as asked" if plan.question.routers else "if you choose it"
    why = (
        f"endpoint.kind leastRequest, {wanted}: {found.busy_cores:.1f} busy cores at full load by docs/routers.md; one router may "
        "be away. No dated price for Autopilot pods is known"
    )
    return what, f"{found.replicas} × {found.cpu} vCPU, {found.memory_gib} GiB", why


def steps_to_serve(way: TimeToServe, machine: str) -> Table:
    """The steps to the first response, one after the other."""
    return Table(
        id="way-table",
        caption="Steps to the first response",
        columns=(*texts("step"), *numbers("likely", "low to high")),
        rows=tuple(
            (
                Cell(step.title.replace("A4 node", f"{machine} node")),
                Cell(format_duration(step.likely_seconds)),
                Cell(f"{format_duration(step.low_seconds)} to {format_duration(step.high_seconds)}"),
            )
            for step in way.steps
        ),
    )
