"""Sentences below the plots: what is drawn, over which requests and runs, and what it holds for."""

from __future__ import annotations

from statistics import median

from fleet.bench.folder import AskedSlo
from fleet.bench.report import article, configuration
from fleet.bench.report.article import IN_FLIGHT_PER_NODE, Published, is_like_load, some_of
from fleet.bench.report.plots_time import runs_drawn
from fleet.bench.report.shown import Shown, has_steady, name_of, window_name
from fleet.report.words import format_number, format_percent, plural, sentence


def nodes_caption(found: Shown, published: Published) -> str:
    """Under which load the points stand."""
    asked = found.measurement.asked
    if asked is None or not published.rows:
        return ""
    each = found.point.connections / asked.shape.replicas
    ours = f"This measurement held {format_number(each)} requests in flight on a node."
    unlike = (
        "" if is_like_load(asked, found.point.connections) else " Another load is another point, not a gain or a loss."
    )
    if published.unlike:
        unlike += f" This stack differs from theirs in {some_of(published.unlike)}: it is another configuration."
    return (
        f"{ours} Published rows are the article's own: {format_number(IN_FLIGHT_PER_NODE)} in flight on a node, vLLM 0.18.0, "
        f"clients' rates added up. Hold the round mark against them.{unlike}"
    )


def load_caption(found: Shown) -> str:
    """What a mark of the sweep's plot is, and which loads have none."""
    without = sum(not has_steady(found.measurement, point) for point in found.measurement.points)
    none = (
        f" {plural(without, 'load')} without a steady window in every repeat {'has' if without == 1 else 'have'} no mark."
        if without
        else ""
    )
    return (
        "Every mark is a load of the sweep: the mean of its repeats. Latencies are medians over all requests of all repeats of that "
        f"load.{none}"
    )


def latency_caption(found: Shown, published: Published) -> str:
    """Over which requests, and what ITL is."""
    count = found.point.latencies.ttft.count
    pooled = (
        f"All {count:,} answered requests of {plural(len(found.runs), 'run')} together; percentiles are exact and never averaged: p99 is "
        "the time that 99 of 100 stayed within."
    )
    asked = found.measurement.asked
    chunks = (
        " A chunk carries several tokens where the server speculates, so ITL is not the time per token."
        if asked is None or asked.speculative_tokens
        else ""
    )
    theirs = published.latency
    if theirs is None:
        return pooled + chunks
    nodes = plural(theirs.shape.replicas, "node")
    beside = f" The article's second run was on {nodes}, {format_number(IN_FLIGHT_PER_NODE)} in flight on each"
    another = "" if is_like_load(asked, found.point.connections) else "another load"
    another = another or ("another configuration" if published.unlike else "")
    apart = f": {another}, so its percentiles stand in the table and not in the plot" if another else ""
    return f"{pooled}{chunks}{beside}{apart}."


def limits(found: Shown) -> str:
    """The limits of a good request; empty without any."""
    one = next((run.goodput for run in found.runs if run.goodput is not None), None)
    if one is None:
        return ""
    return f"A request is good with {configuration.format_slo(AskedSlo(ttft_ms=one.ttft_ms, tpot_ms=one.tpot_ms, e2e_ms=one.e2e_ms))}."


def format_run(found: Shown) -> str:
    """Which run is drawn second by second, and how its window was cut."""
    several = len(found.measurement.runs) > 1
    nearest = "" if found.run.steady is None else ", whose steady rate is nearest to the mean of its load"
    which = f"Shown is {name_of(found.measurement, found.run)}{nearest}. " if several else ""
    return f"{which}{sentence(found.run.steady_why)}"


def time_caption(found: Shown) -> str:
    """How tokens are laid in time."""
    if found.run.steady is None:
        return "Tokens that all clients received in each second. Nothing is shaded: there is no steady window."
    return (
        "Tokens that all clients received in each second: an answer's tokens when its chunks came, a prompt's with the first of them. "
        "The shaded part counts."
    )


def runs_caption(found: Shown) -> str:
    """Which runs are drawn."""
    total = len(found.measurement.runs)
    drawn = len(runs_drawn(found))
    less = f" {drawn} of {total} runs: those of the load that this page shows." if drawn < total else ""
    return (
        "Total tokens a second of each run, over the seconds since its first request; the axis that goes up is the same for all "
        f"repeats of a load.{less}"
    )


def engines_caption(found: Shown) -> str:
    """What a bar is, and how far the engines are apart."""
    server = found.run.server
    if server is None or not server.engines:
        return ""
    tokens = sorted(server.engines, key=lambda one: one.generation_tokens)
    beside = f", {server.servers:,} servers side by side" if server.servers > 1 else ""
    middle = median(one.generation_tokens for one in tokens)
    spread = (
        f" The least busy made {format_percent(tokens[0].generation_tokens / middle, 0)} of the median's output tokens, the busiest "
        f"{format_percent(tokens[-1].generation_tokens / middle, 0)}."
        if middle > 0
        else ""
    )
    return (
        f"A bar is a data-parallel rank over the {window_name(found.run)}{beside}; the line "
        f"above a bar is its peak.{spread}"
    )


def power_caption(found: Shown) -> str:
    """What the watts are of."""
    gpus = found.run.gpus
    if gpus is None or gpus.watt_hours_per_million_tokens is None:
        return "GPUs alone, without the rest of the machine."
    each = format_number(gpus.watt_hours_per_million_tokens)
    return f"GPUs alone, without the rest of the machine: {each} Wh a million tokens in the {window_name(found.run)}."


def holds_for(found: Shown) -> str:
    """The stack and the load that the figures are true for, and how near a published row is."""
    asked = found.measurement.asked
    if asked is None:
        return "Unknown: without `run.json` there is no stack that the figures could hold for."
    matched = article.match(asked)
    near = (
        f" The nearest published row is `{matched.figure.id}` ({matched.figure.title})."
        if matched.figure is not None
        else ""
    )
    return (
        f"For this stack, this image, these options and this workload, at {found.point.connections:,} requests in flight, and for nothing "
        "else. "
        f"Against the published figures: {matched.reason}.{near}"
    )
