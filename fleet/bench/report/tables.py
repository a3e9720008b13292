"""The three tables: every load, the latency percentiles, and what the GPUs and engines did."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from facts.machines import MACHINES
from facts.texts import plural
from fleet.bench.measurement import Distribution, GpuReading, Measurement, Point, Run
from fleet.bench.report.article import Published
from fleet.bench.report.plots import QUANTITIES, article_way
from fleet.report.table import Cell, Table, numbers, texts
from fleet.report.words import NOTHING, format_milliseconds, format_number, format_percent, format_usd

GPU_ROWS: Final = (
    ("sm_active_share", "SM active", "share"),
    ("tensor_active_share", "tensor cores active", "share"),
    ("dram_active_share", "DRAM active", "share"),
    ("nvlink_sent_bytes_per_s", "NVLink sent", " B/s"),
    ("nvlink_received_bytes_per_s", "NVLink received", " B/s"),
    ("power_watts", "power", " W"),
    ("temperature_celsius", "temperature", " °C"),
)
"""Readings of DCGM that the table always names, with their units."""


def loads(measured: Sequence[Measurement]) -> Table:
    """Every load of every measurement: rates with their intervals, latencies, price."""
    return Table(
        id="loads-table",
        caption="Every load",
        columns=numbers(
            "nodes",
            "in flight",
            "total tok/s",
            "output tok/s",
            "a node",
            "article's way",
            "in limits",
            "TTFT p50, p99",
            "TPOT p50, p99",
            "a million tokens",
        ),
        rows=tuple(_load(one, point) for one in measured for point in one.points),
    )


def _load(measurement: Measurement, point: Point) -> tuple[Cell, ...]:
    nodes, total = measurement.asked.shape.replicas, point.total_tokens_per_s
    good = [run.goodput.share for run in measurement.runs if run.point == point.point and run.goodput is not None]
    interval = "" if total.low is None else f"{format_number(total.low)} to {format_number(total.high or 0)}"
    least = "at least " if measurement.asked.cost is not None and measurement.asked.cost.at_least else ""
    return (
        Cell(f"{nodes:,}"),
        Cell(f"{point.connections:,}"),
        Cell(format_number(total.mean), note=interval),
        Cell(format_number(point.output_tokens_per_s.mean)),
        Cell(format_number(total.mean / nodes)),
        Cell(format_number(article_way(measurement, point))),
        Cell(format_percent(sum(good) / len(good)) if good else NOTHING),
        *(
            Cell(NOTHING if one is None else f"{format_milliseconds(one.p50)}, {format_milliseconds(one.p99)}")
            for one in (point.latencies.ttft, point.latencies.tpot)
        ),
        Cell(NOTHING if point.usd_per_million_tokens is None else least + format_usd(point.usd_per_million_tokens)),
    )


def latency(point: Point, published: Published) -> Table:
    """Percentiles over every answered request of one load, with the article's."""
    return Table(
        id="latency-table",
        caption="Latency percentiles",
        columns=(*texts("quantity"), *numbers("mean", "p50", "p90", "p99", "p99.9", "longest", "values")),
        rows=tuple(_latency_rows(point, published)),
    )


def _latency_rows(point: Point, published: Published) -> Iterator[tuple[Cell, ...]]:
    for name, title in QUANTITIES.items():
        one: Distribution | None = getattr(point.latencies, name)
        if one is None:
            yield (Cell(title), *(Cell(NOTHING),) * 7)
            continue
        values = (one.mean, one.p50, one.p90, one.p99, one.p999, one.max)
        yield (Cell(title), *(Cell(format_milliseconds(value)) for value in values), Cell(f"{one.count:,}"))
        figure = published.latency
        theirs = {} if figure is None else figure.details.get(f"{name}_ms", {})
        if figure is not None and theirs:
            known = [theirs.get(key) for key in ("mean", "median", "", "p99", "", "")]
            cells = (Cell("" if value is None else format_milliseconds(value)) for value in known)
            yield (Cell("article", note=plural(figure.shape.replicas, "node")), *cells, Cell(""))


def gpus(run: Run, machine_type: str) -> Table:
    """What DCGM read of the GPUs and vLLM of its engines, over the run's steady window. Rows without data stay."""
    found = {} if run.gpus is None else {reading.name: reading for reading in run.gpus.readings}
    return Table(
        id="gpus-table",
        caption="GPU activity",
        columns=(*texts("quantity"), *numbers("mean", "peak")),
        rows=(
            *(_gpu_row(title, found.get(name), unit) for name, title, unit in GPU_ROWS),
            *_engine_rows(run, machine_type),
        ),
    )


def _gpu_row(title: str, reading: GpuReading | None, unit: str) -> tuple[Cell, ...]:
    if reading is None:
        return (Cell(title), Cell(NOTHING), Cell(NOTHING))
    values = (reading.mean, reading.peak)
    return (
        Cell(title, note=plural(reading.gpus, "GPU")),
        *(Cell(format_percent(value) if unit == "share" else f"{format_number(value)}{unit}") for value in values),
    )


def _engine_rows(run: Run, machine_type: str) -> Iterator[tuple[Cell, ...]]:
    engines = () if run.server is None else run.server.engines
    flops = [engine.tflops_mean for engine in engines if engine.tflops_mean is not None]
    machine = MACHINES.get(machine_type)
    peak = None if machine is None else machine.gpu.fp8_flop_per_s
    mfu = format_percent(1e12 * sum(flops) / len(flops) / peak) if flops and peak else NOTHING
    yield (Cell("MFU", note="vLLM's estimate over the GPU's FP8 peak"), Cell(mfu), Cell(NOTHING))
    for title, key in (("requests running, an engine", "running"), ("requests waiting, an engine", "waiting")):
        means, peaks = ([getattr(engine, f"{key}_{kind}") for engine in engines] for kind in ("mean", "peak"))
        cells = (format_number(sum(means) / len(means)), format_number(max(peaks))) if engines else (NOTHING, NOTHING)
        yield (Cell(title), *map(Cell, cells))
    fullest = format_percent(max(engine.kv_peak for engine in engines)) if engines else NOTHING
    yield (Cell("KV cache in use, fullest engine"), Cell(NOTHING), Cell(fullest))
