"""Captions of the plots."""

from __future__ import annotations

from statistics import median

from facts.texts import plural
from fleet.bench.folder import AskedSlo
from fleet.bench.report import article, configuration
from fleet.bench.report.article import IN_FLIGHT_PER_NODE, Published, is_like_load, some_of
from fleet.bench.report.plots_time import runs_drawn
from fleet.bench.report.shown import Shown, has_steady, name_of, window_name
from fleet.report.words import format_number, format_percent, sentence


def nodes_caption(found: Shown, published: Published) -> str:
    """Load of the points."""
    asked = found.measurement.asked
    if asked is None or not published.rows:
        return ""
    each = found.point.connections / asked.shape.replicas
    ours = f"This measurement held {format_number(each)} requests in flight on a node."
    unlike = "" if is_like_load(asked, found.point.connections) else " A different load is neither a gain nor a loss."
    if published.unlike:
        unlike += f" This stack has a different configuration: {some_of(published.unlike)}."
    return (
        f"{ours} Published rows are the article's own: {format_number(IN_FLIGHT_PER_NODE)} in flight on a node, vLLM 0.18.0, "
        f"summed rates of the clients. Compare the round mark with them.{unlike}"
    )


def load_caption(found: Shown) -> str:
    """Meaning of a mark, and how many loads have none."""
    without = sum(not has_steady(found.measurement, point) for point in found.measurement.points)
    none = (
        f" {plural(without, 'load')} without a steady window in every repeat {'has' if without == 1 else 'have'} no mark."
        if without
        else ""
    )
    return f"Every mark is one load: the mean of its repeats, and the median latency of all their requests.{none}"


def latency_caption(found: Shown, published: Published) -> str:
    """Requests that were counted, and what ITL is."""
    count = found.point.latencies.ttft.count
    pooled = f"All {count:,} answered requests of {plural(len(found.runs), 'run')} together; percentiles are exact, not averages."
    asked = found.measurement.asked
    chunks = (
        " With speculation a chunk carries several tokens, so ITL is not the time per token."
        if asked is None or asked.speculative_tokens
        else ""
    )
    theirs = published.latency
    if theirs is None:
        return pooled + chunks
    nodes = plural(theirs.shape.replicas, "node")
    beside = f" The article's second run was on {nodes}, {format_number(IN_FLIGHT_PER_NODE)} in flight on each"
    another = "" if is_like_load(asked, found.point.connections) else "a different load"
    another = another or ("a different configuration" if published.unlike else "")
    apart = f": {another}, so its percentiles are only in the table" if another else ""
    return f"{pooled}{chunks}{beside}{apart}."


def limits(found: Shown) -> str:
    """The limits of a good request; empty without them."""
    one = next((run.goodput for run in found.runs if run.goodput is not None), None)
    if one is None:
        return ""
    slo = AskedSlo(ttft_ms=one.ttft_ms, tpot_ms=one.tpot_ms, e2e_ms=one.e2e_ms)
    return f"Limits of a good request: {configuration.format_slo(slo)}."


def format_run(found: Shown) -> str:
    """Which run is drawn, and how its window was cut."""
    several = len(found.measurement.runs) > 1
    nearest = "" if found.run.steady is None else ", the nearest to the mean"
    which = f"Shown is {name_of(found.measurement, found.run)}{nearest}. " if several else ""
    return f"{which}{sentence(found.run.steady_why)}"


def time_caption(found: Shown) -> str:
    """How tokens are assigned to seconds."""
    if found.run.steady is None:
        return "Tokens that all clients received in each second. There is no steady window."
    return (
        "Tokens that all clients received in each second: an answer's when its chunks arrived, a prompt's with the first chunk. "
        "Only the shaded part counts."
    )


def runs_caption(found: Shown) -> str:
    """Which runs are drawn."""
    total = len(found.measurement.runs)
    drawn = len(runs_drawn(found))
    less = f" {drawn} of {total} runs: those of the load shown on this page." if drawn < total else ""
    return f"Total tokens a second of each run. Repeats of a load share one vertical axis.{less}"


def engines_caption(found: Shown) -> str:
    """Meaning of a bar, and the spread of the engines."""
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
    """What the watts include."""
    gpus = found.run.gpus
    if gpus is None or gpus.watt_hours_per_million_tokens is None:
        return "GPUs alone, without the rest of the machine."
    each = format_number(gpus.watt_hours_per_million_tokens)
    return f"GPUs alone, without the rest of the machine: {each} Wh a million tokens in the {window_name(found.run)}."


def holds_for(found: Shown) -> str:
    """Stack and load of the figures, and the nearest published row."""
    asked = found.measurement.asked
    if asked is None:
        return "Unknown: `run.json` is missing."
    matched = article.match(asked)
    near = (
        f" The nearest published row is `{matched.figure.id}` ({matched.figure.title})."
        if matched.figure is not None
        else ""
    )
    return (
        f"The figures hold for this stack, image, options and workload at {found.point.connections:,} requests in flight only. "
        f"Comparison with published figures: {matched.reason}.{near}"
    )
