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
                Cell(str(one.client), note="" if one.node is None else one.node),
                Cell(f"{one.connections:,}"),
                Cell(f"{one.completed:,}"),
                Cell(f"{one.failed:,}", style="lost" if one.failed else ""),
                Cell(format_number(one.total_tokens_per_s)),
                Cell(format_number(one.output_tokens_per_s)),
                Cell(format_number(one.chunks_per_s)),
                Cell(f"{_share(one.cpu_share_mean)}, {_share(one.cpu_share_peak)}"),
                Cell(NOTHING if one.loop_lag_p99_ms is None else format_milliseconds(one.loop_lag_p99_ms)),
                Cell(_open_files(one.open_files_peak, one.open_files_limit)),
                Cell(format_milliseconds(one.ttft_p50_ms)),
            )
            for one in run.clients
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
    order = list(dict.fromkeys(one.server for one in sorted_engines(server)))
    with_mfu = any(one.tflops_mean is not None for one in server.engines)
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
                Cell(one.server if len(order) == 1 else f"{order.index(one.server) + 1}: {one.server}"),
                Cell(one.engine),
                Cell(format_number(one.generation_tokens)),
                Cell(format_number(one.prompt_tokens)),
                Cell(f"{format_number(one.running_mean)}, {format_number(one.running_peak)}"),
                Cell(f"{format_number(one.waiting_mean)}, {format_number(one.waiting_peak)}"),
                Cell(f"{format_percent(one.kv_mean, 0)}, {format_percent(one.kv_peak, 0)}"),
                Cell(format_number(one.preemptions)),
                *((Cell(rate(one.tflops_mean)), Cell(rate(one.hbm_read_gb_per_s_mean))) if with_mfu else ()),
            )
            for one in sorted_engines(server)
        ),
    )


_ANY_KERNEL = "share of time with any kernel running"
# Name, unit and meaning. Source: nvidia-smi's manual, utilization; DCGM's profiling metrics.
_GPU_NAMES = {
    "power_watts": ("Power", " W", ""),
    "temperature_celsius": ("Temperature", " °C", ""),
    "memory_temperature_celsius": ("Temperature of the memory", " °C", ""),
    "sm_percent": ("GPU busy", " %", _ANY_KERNEL),
    "gpu_percent": ("GPU busy", " %", _ANY_KERNEL),
    "memory_percent": ("Memory busy", " %", "share of time with any memory access"),
    "memory_mib": ("Memory in use", " MiB", "weights and the reserved KV cache"),
    "sm_clock_mhz": ("Clock of the processors", " MHz", "drops at the power or heat limit"),
    "memory_clock_mhz": ("Clock of the memory", " MHz", ""),
    "graphics_active_share": ("GPU active", "share", "share of time with any part active"),
    "sm_active_share": ("Processors (SMs) active", "share", "mean share with work"),
    "sm_occupancy_share": ("Processors (SMs) filled", "share", "resident warps of those that fit"),
    "tensor_active_share": ("Tensor cores active", "share", "share of cycles with matrix multiplication"),
    "dram_active_share": ("Memory traffic", "share", "share of cycles with data transfer"),
}


def gpus(run: Run, found: Gpus) -> Table:
    """Every GPU quantity."""
    return Table(
        id="gpus-table",
        caption=f"Readings of the GPUs over the {window_name(run)}",
        columns=(*texts("quantity"), *numbers("mean", "peak", "GPUs"), *texts("from")),
        rows=tuple(
            (
                _gpu_name(one.name),
                Cell(_gpu_value(one.name, one.mean)),
                Cell(_gpu_value(one.name, one.peak)),
                Cell(f"{one.gpus:,}"),
                Cell(one.source),
            )
            for one in found.readings
        ),
    )


def _gpu_name(name: str) -> Cell:
    known = _GPU_NAMES.get(name)
    return Cell(name.replace("_", " ")) if known is None else Cell(known[0], note=known[2])


def _gpu_value(name: str, value: float) -> str:
    known = _GPU_NAMES.get(name)
    unit = known[1] if known is not None else "share" if name.endswith("_share") else ""
    return format_percent(value) if unit == "share" else f"{format_number(value)}{unit}"
