"""Title and headline figures of the page."""

from __future__ import annotations

from collections.abc import Iterator

from facts.texts import plural
from fleet.bench.measurement import Judged, Measurement, ServerMetrics
from fleet.bench.report.article import IN_FLIGHT_PER_NODE, Published, is_like_load, some_of
from fleet.bench.report.shown import Shown, has_steady, summed_total
from fleet.bench.report.words import interval
from fleet.plan.words import CAPACITIES
from fleet.report.outline import Number
from fleet.report.words import format_milliseconds, format_number, format_percent, format_usd


def title(judged: Judged) -> str:
    """What was measured."""
    asked = judged.measurement.asked
    if asked is None:
        return "Benchmark of an unknown stack"
    return f"Benchmark of {asked.stack}: {plural(asked.shape.replicas, 'node')}"


def subtitle(measurement: Measurement) -> str:
    """Name, time, model and workload."""
    asked = measurement.asked
    if asked is None:
        return f"{plural(len(measurement.runs[0].clients), 'client')} without `run.json`"
    when = f", {asked.created}" if asked.created else ""
    name = f"`{asked.name}`{when}; " if asked.name else ""
    return (
        f"{name}`{asked.shape.model}`, profile `{asked.profile}`, vLLM {asked.shape.engine_version}; workload "
        f"`{asked.workload.name}`, {plural(len(measurement.points), 'load')}, {plural(asked.repeats, 'repeat')}"
    )


def figures_of(judged: Judged, found: Shown) -> str:
    """Load and window of the figures, with a warning where they are not certified."""
    point = found.point
    points = found.measurement.points
    steady = sum(has_steady(found.measurement, one) for one in points)
    of_several = f", the fastest of {len(points)} loads" if len(points) > 1 else ""
    if of_several and 0 < steady < len(points):
        of_several = f", the fastest of {plural(steady, 'load')} that {'was' if steady == 1 else 'were'} steady (of {len(points)})"
    window = (
        "over the steady window, without warm-up and tail"
        if found.is_steady
        else "not every repeat had a steady window, so there is no steady rate"
    )
    doubt = "" if judged.certificate.verdict == "certified" else " Not certified: do not quote these figures."
    return f"At {point.connections:,} requests in flight{of_several}, {plural(len(found.runs), 'repeat')}: {window}.{doubt}"


def articles_way(found: Shown) -> str:
    """The figure for a comparison with the article's rows, and why it differs from the steady one."""
    output = sum(run.summed.output_tokens_per_s for run in found.runs) / len(found.runs)
    return (
        f"Counted the article's way, as the sum of each client's rate over its own time: {format_number(summed_total(found))} total and "
        f"{format_number(output)} output tokens a second. It includes every client's warm-up and tail; compare only this one with the "
        "article's rows."
    )


def numbers(judged: Judged, found: Shown, published: Published) -> Iterator[Number]:
    """The headline figures."""
    if found.is_steady:
        yield from _rates(found, published)
        yield from _prices(found)
    else:
        never = next(run for run in found.runs if run.steady is None)
        yield Number(name="total tokens a second", now="none", more=f"repeat {never.repeat + 1} was never steady")
    ttft, tpot = found.point.latencies.ttft, found.point.latencies.tpot
    yield Number(
        name="first token (TTFT), p50",
        now=format_milliseconds(ttft.p50),
        more=f"p99 {format_milliseconds(ttft.p99)}",
    )
    if tpot is not None:
        yield Number(
            name="time per token (TPOT), p50",
            now=format_milliseconds(tpot.p50),
            more=f"p99 {format_milliseconds(tpot.p99)}",
        )
    good = [run.goodput for run in found.runs if run.goodput is not None]
    if good:
        share = sum(one.share for one in good) / len(good)
        rate = sum(one.requests_per_s for one in good) / len(good)
        yield Number(
            name="within the limits", now=format_percent(share), more=f"{format_number(rate)} good requests a second"
        )
    failed, done = (sum(getattr(run, name) for run in judged.measurement.runs) for name in ("failed", "completed"))
    yield Number(name="failed requests", now=f"{failed:,}", more=f"of {failed + done:,}, all runs")
    server = found.run.server
    if server is not None and server.acceptance_rate is not None:
        more = "" if server.mean_acceptance_length is None else f"{server.mean_acceptance_length:.2f} tokens a step"
        yield Number(name="drafted tokens accepted", now=format_percent(server.acceptance_rate), more=more)


def _rates(found: Shown, published: Published) -> Iterator[Number]:
    point = found.point
    yield Number(
        name="total tokens a second",
        now=format_number(point.total_tokens_per_s.mean),
        more=interval(point.total_tokens_per_s),
    )
    yield Number(
        name="output tokens a second",
        now=format_number(point.output_tokens_per_s.mean),
        more=interval(point.output_tokens_per_s),
    )
    yield Number(
        name="requests a second", now=format_number(point.requests_per_s.mean), more=interval(point.requests_per_s)
    )
    each = point.total_tokens_per_s_per_node
    if each is None or found.nodes is None:
        return
    yield Number(
        name="a node", now=format_number(each), more=f"total tokens a second, one of {plural(found.nodes, 'node')}"
    )
    one, name = published.one_node, "efficiency against one node"
    if one is None or not one.total_tokens_per_s:
        yield Number(name=name, now="unknown", more="no published single node with this workload")
    elif not is_like_load(found.measurement.asked, point.connections):
        yield Number(
            name=name,
            now="unknown",
            more=f"the article's single node held {format_number(IN_FLIGHT_PER_NODE)} in flight",
        )
    elif published.unlike:
        yield Number(
            name=name,
            now="unknown",
            more=f"the article's single node had a different configuration: {some_of(published.unlike)}",
        )
    else:
        summed = summed_total(found) / found.nodes
        theirs = f"{format_number(one.total_tokens_per_s)} of the article's single node ({one.label})"
        more = f"{format_number(summed)} a node, counted the article's way, over {theirs}"
        yield Number(name=name, now=format_percent(summed / one.total_tokens_per_s), more=more)


def _prices(found: Shown) -> Iterator[Number]:
    asked, point = found.measurement.asked, found.point
    if asked is None or asked.cost is None:
        return
    least = ", at least" if asked.cost.at_least else ""
    bought = CAPACITIES.get(asked.cost.capacity, asked.cost.capacity)
    hour = f"{bought}, {'at least ' if asked.cost.at_least else ''}{format_usd(asked.cost.usd_per_hour)} an hour"
    missing = "; excludes unknown prices" if asked.cost.at_least else ""
    if point.usd_per_million_tokens is not None:
        yield Number(
            name=f"a million tokens{least}", now=format_usd(point.usd_per_million_tokens), more=f"{hour}{missing}"
        )
    if point.usd_per_million_output_tokens is not None:
        yield Number(
            name=f"a million output tokens{least}",
            now=format_usd(point.usd_per_million_output_tokens),
            more="the whole price over output tokens alone",
        )


def server_numbers(server: ServerMetrics) -> Iterator[Number]:
    """Figures from the servers' metrics."""
    yield Number(
        name="preemptions",
        now=format_number(server.preemptions),
        more="requests evicted from the cache and computed again",
    )
    yield Number(name="aborted requests", now=format_number(server.aborted), more="counted by the servers")
    if server.prefix_hit_share is not None:
        yield Number(
            name="prefix cache",
            now=format_percent(server.prefix_hit_share),
            more="of prompt tokens found",
        )
    blocks = server.cache_config.get("num_gpu_blocks")
    if blocks is not None:
        size = server.cache_config.get("block_size")
        differ = "; servers differ" if server.cache_configs_differ else ""
        yield Number(
            name="KV blocks an engine", now=blocks, more=f"of {size} tokens{differ}" if size else differ.strip("; ")
        )
    yield Number(name="samples missed", now=f"{server.failed_scrapes:,}", more=f"of {server.scrapes:,}")
