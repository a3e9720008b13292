"""Tables of every client, engine and GPU quantity."""

from __future__ import annotations

from fleet.bench.measurement import Gpus, Run, ServerMetrics
from fleet.bench.report.plots_balance import sorted_engines
from fleet.bench.report.shown import window_name
from fleet.bench.report.words import rate
from fleet.report.table import Cell, Table, numbers, texts
from fleet.report.words import NOTHING, format_milliseconds, format_number, format_percent


def clients(run: Run) -> Table:
    """Every client of the shown run."""
    return Table(
        id="clients-table",
        caption="Every client of this run",
        columns=(
            *numbers("client", "in flight", "answered", "failed", "total tok/s", "output tok/s", "chunks/s"),
            *numbers("CPU mean, peak", "lag p99", "open files", "TTFT p50"),
        ),
        rows=tuple(
            (
                Cell(str(client.client), note="" if client.node is None else client.node),
                Cell(f"{client.connections:,}"),
                Cell(f"{client.completed:,}"),
                Cell(f"{client.failed:,}"),
                Cell(format_number(client.total_tokens_per_s)),
                Cell(format_number(client.output_tokens_per_s)),
                Cell(format_number(client.chunks_per_s)),
                Cell(f"{_share(client.cpu_share_mean)}, {_share(client.cpu_share_peak)}"),
                Cell(NOTHING if client.loop_lag_p99_ms is None else format_milliseconds(client.loop_lag_p99_ms)),
                Cell(_open_files(client.open_files_peak, client.open_files_limit)),
                Cell(format_milliseconds(client.ttft_p50_ms)),
            )
            for client in run.clients
        ),
    )


def _share(value: float | None) -> str:
    return NOTHING if value is None else format_percent(value, 0)


def _open_files(peak: int | None, limit: int | None) -> str:
    if peak is None:
        return NOTHING
    return f"{peak:,}" if limit is None else f"{peak:,} of {limit:,}"


def engines(run: Run, server: ServerMetrics) -> Table:
    """Every engine of the shown run; servers are numbered as in the plot."""
    order = list(dict.fromkeys(engine.server for engine in sorted_engines(server)))
    with_mfu = any(engine.tflops_mean is not None for engine in server.engines)
    return Table(
        id="engines-table",
        caption=f"Every engine of this run, over the {window_name(run)}",
        columns=(
            *texts("server"),
            *numbers(
                "rank",
                "output tokens",
                "prompt tokens",
                "running mean, peak",
                "waiting mean, peak",
                "KV mean, peak",
                "preempted",
            ),
            *(numbers("TFLOP/s a GPU", "HBM read GB/s a GPU") if with_mfu else ()),
        ),
        rows=tuple(
            (
                Cell(engine.server if len(order) == 1 else f"{order.index(engine.server) + 1}: {engine.server}"),
                Cell(engine.engine),
                Cell(format_number(engine.generation_tokens)),
                Cell(format_number(engine.prompt_tokens)),
                Cell(f"{format_number(engine.running_mean)}, {format_number(engine.running_peak)}"),
                Cell(f"{format_number(engine.waiting_mean)}, {format_number(engine.waiting_peak)}"),
                Cell(f"{format_percent(engine.kv_mean, 0)}, {format_percent(engine.kv_peak, 0)}"),
                Cell(format_number(engine.preemptions)),
                *((Cell(rate(engine.tflops_mean)), Cell(rate(engine.hbm_read_gb_per_s_mean))) if with_mfu else ()),
            )
            for engine in sorted_engines(server)
        ),
    )


# Name, unit and meaning. Source: DCGM's field identifiers and profiling metrics.
_GPU_NAMES = {
    "power_watts": ("Power", " W", ""),
    "temperature_celsius": ("Temperature", " °C", ""),
    "gpu_percent": ("GPU busy", " %", "share of time with any kernel running"),
    "sm_clock_mhz": ("Clock of the processors", " MHz", "drops at the power or heat limit"),
    "sm_active_share": ("Processors (SMs) active", "share", "mean share with work"),
    "tensor_active_share": ("Tensor cores active", "share", "share of cycles with matrix multiplication"),
    "dram_active_share": ("Memory traffic", "share", "share of cycles with data transfer"),
    "nvlink_sent_bytes_per_s": ("NVLink, sent", " B/s", ""),
    "nvlink_received_bytes_per_s": ("NVLink, received", " B/s", ""),
}


def gpus(run: Run, found: Gpus) -> Table:
    """Every GPU quantity."""
    return Table(
        id="gpus-table",
        caption=f"Readings of the GPUs over the {window_name(run)}",
        columns=(*texts("quantity"), *numbers("mean", "peak", "GPUs")),
        rows=tuple(
            (
                _gpu_name(reading.name),
                Cell(_gpu_value(reading.name, reading.mean)),
                Cell(_gpu_value(reading.name, reading.peak)),
                Cell(f"{reading.gpus:,}"),
            )
            for reading in found.readings
        ),
    )


def _gpu_name(name: str) -> Cell:
    known = _GPU_NAMES.get(name)
    return Cell(name.replace("_", " ")) if known is None else Cell(known[0], note=known[2])


def _gpu_value(name: str, value: float) -> str:
    known = _GPU_NAMES.get(name)
    unit = known[1] if known is not None else "share" if name.endswith("_share") else ""
    return format_percent(value) if unit == "share" else f"{format_number(value)}{unit}"
