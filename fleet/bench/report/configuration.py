"""Stack, load and method as tables, and the settings and commands that measure it again."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

from facts.texts import plural
from fleet.bench.folder import Asked, AskedSlo
from fleet.bench.measurement import Measurement
from fleet.bench.report.shown import Shown
from fleet.bench.report.tables import format_clocks
from fleet.plan.words import CAPACITIES, ROUTINGS
from fleet.report.table import Cell, Table, texts
from fleet.report.words import (
    format_change,
    format_elapsed,
    format_milliseconds,
    format_percent,
    format_usd,
)


def stack(asked: Asked) -> Table:
    """The stack."""
    shape = asked.shape
    rows = [
        ("stack", asked.stack, ""),
        ("profile", asked.profile, ""),
        ("model", shape.model, f"served as {asked.served_model}"),
        ("revision", asked.model_revision, ""),
        ("server image", asked.image, f"vLLM {shape.engine_version}"),
        (
            "machines",
            f"{plural(shape.replicas, 'node')} {shape.machine_type}",
            f"{plural(shape.gpus_per_replica, 'GPU')} each",
        ),
        (
            "engines",
            f"{plural(asked.engines_per_replica * shape.replicas, 'data-parallel rank')}",
            f"{asked.engines_per_replica} on each server",
        ),
        ("behind", ROUTINGS.get(shape.routing, shape.routing), ""),
        (
            "speculation",
            plural(asked.speculative_tokens, "draft token") + " a step" if asked.speculative_tokens else "none",
            "",
        ),
    ]
    if asked.cost is not None:
        least = "at least " if asked.cost.at_least else ""
        note = "excludes unknown prices" if asked.cost.at_least else ""
        bought = CAPACITIES.get(asked.cost.capacity, asked.cost.capacity)
        rows.append(("price", f"{least}{format_usd(asked.cost.usd_per_hour)} an hour, {bought}", note))
    return _pairs("stack-table", "Measured stack", rows)


def flags(asked: Asked) -> Table:
    """Options and environment of vLLM."""
    rows = [(f"--{name}", _flag(value), "") for name, value in sorted(asked.shape.flags.items())]
    rows += [(name, value, "environment") for name, value in sorted(asked.shape.env.items())]
    return _pairs("flags-table", "vLLM's options and environment", rows)


def _flag(value: str | float | bool) -> str:
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else str(value)


def load(measurement: Measurement, asked: Asked) -> Table:
    """Workload and load."""
    workload = asked.workload
    rows = [
        (
            "workload",
            workload.name,
            f"kind {workload.kind}; {'answers have the requested length' if workload.ignore_eos else 'the model ends its answers'}",
        ),
        *(() if workload.dataset is None else (("file, by its SHA-256", workload.dataset, ""),)),
        *((f"--{name}", value, "") for name, value in sorted(workload.arguments.items())),
    ]
    for point in asked.points:
        each = point.connections / asked.shape.replicas
        rows.append(
            (
                "load",
                f"{point.connections:,} requests in flight",
                f"{each:,.0f} a node; {plural(point.clients, 'client')} in {plural(asked.pods, 'pod')}",
            )
        )
    rows.append(("repeats", str(asked.repeats), ""))
    rows.append(("prompts", f"{asked.prompts_per_client:,} a client", _seeds(measurement)))
    if asked.slo is not None:
        rows.append(("limits of a good request", format_slo(asked.slo), ""))
    return _pairs("load-table", "Workload and load", rows)


def format_slo(slo: AskedSlo) -> str:
    """The limits as text."""
    limits = (("TTFT", slo.ttft_ms), ("TPOT", slo.tpot_ms), ("E2E", slo.e2e_ms))
    return (
        ", ".join(f"{name} within {format_milliseconds(limit)}" for name, limit in limits if limit is not None)
        or "none"
    )


def _seeds(measurement: Measurement) -> str:
    seeds = [client.seed for run in measurement.runs for client in run.clients if client.seed is not None]
    if not seeds:
        return "seeds unknown"
    return f"seeds {min(seeds)} to {max(seeds)}, {len(set(seeds)):,} different of {len(seeds):,}"


def method(shown: Shown) -> Table:
    """How the figures were measured."""
    run, measurement = shown.run, shown.measurement
    rows = [("clocks", format_clocks(run), "")]
    rows.append(("steady window", "none" if run.steady is None else format_elapsed(run.steady.seconds), run.steady_why))
    if run.batches is not None:
        rows.append(
            (
                "drift of total tokens in it",
                format_change(run.batches.drift_share),
                f"a line through {plural(len(run.batches.total_tokens_per_s), 'piece')} of "
                f"{format_elapsed(run.batches.seconds)}; prompts come in waves, so the certificate checks output tokens only",
            )
        )
    variation = shown.point.total_tokens_per_s.variation
    rows.append(
        (
            "repeats differ by",
            "one run only" if variation is None else format_percent(variation),
            "" if variation is None else "standard deviation over mean",
        )
    )
    if measurement.prompts.known:
        rows.append(
            (
                "prompts",
                f"{measurement.prompts.repeated:,} of {measurement.prompts.known:,} sent before",
                "by hash, over all runs",
            )
        )
    else:
        rows.append(("prompts", "unknown", "no witness files"))
    lengths = run.lengths
    asked = (
        f"{lengths.output_shorter:,} shorter and {lengths.output_longer:,} longer than requested"
        if lengths.asked_known
        else "the requested length of each answer is unknown"
    )
    rows.append(
        (
            "answers",
            f"{lengths.output_mean:,.1f} tokens on average, {lengths.output_min:,} to {lengths.output_max:,}",
            asked,
        )
    )
    rows.append(
        ("prompt tokens", f"{lengths.input_mean:,.1f} on average, {lengths.input_min:,} to {lengths.input_max:,}", "")
    )
    return _pairs("method-table", "Method", rows)


def _pairs(id_: str, caption: str, rows: list[tuple[str, str, str]]) -> Table:
    return Table(
        id=id_,
        caption=caption,
        columns=texts("what", "value"),
        rows=tuple((Cell(name), Cell(value, note=note)) for name, value, note in rows),
    )


def measure_again(asked: Asked) -> str:
    """The command that measures the same again."""
    return f"fleet bench run --stack {shlex.quote(asked.stack)}"


def report_again(folder: Path) -> str:
    """The command that makes this page again."""
    return f"fleet bench report {shlex.quote(str(folder))}"


def settings_block(asked: Asked) -> str:
    """The section of the stack file for this measurement."""
    return "\n".join(_settings(asked))


def _settings(asked: Asked) -> Iterator[str]:
    replicas = asked.shape.replicas
    yield "vllm-fleet:benchmark:"
    yield "  enabled: true"
    yield "  runOnUpdate: false # fleet bench run starts it"
    yield f"  workload: {asked.workload.name}"
    if asked.workload.of_a_file:
        known = asked.workload.dataset
        where = "" if known else ", which run.json does not name"
        yield f"  dataset: {{url: gs://BUCKET/OBJECT, sha256: {known or 'DIGEST'}}} # the file of this measurement{where}"
    if all(point.connections % replicas == 0 for point in asked.points):
        yield f"  concurrency: [{', '.join(str(point.connections // replicas) for point in asked.points)}]"
    yield f"  repeats: {asked.repeats}"
    yield f"  connectionsPerClient: {max(-(-point.connections // point.clients) for point in asked.points)}"
    yield f"  promptsPerClient: {asked.prompts_per_client}"
    if asked.slo is not None:
        names = (("ttftMs", asked.slo.ttft_ms), ("tpotMs", asked.slo.tpot_ms), ("e2eMs", asked.slo.e2e_ms))
        limits = ", ".join(f"{name}: {limit:g}" for name, limit in names if limit is not None)
        if limits:
            yield f"  slo: {{{limits}}}"
