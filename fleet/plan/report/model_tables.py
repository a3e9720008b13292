"""Tables about the model: its error on every published row, and its assumptions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from facts import ledger
from facts.machines import B200
from fleet.plan.model.calibration import FITTED, contents
from fleet.plan.model.errors import Error, mean_percent
from fleet.plan.model.roofline import peak_flop_per_s
from fleet.plan.model.rows import Metric, Role
from fleet.plan.plan import Plan
from fleet.plan.words import format_span
from fleet.report.table import Cell, Table, numbers, texts
from fleet.report.words import format_change, format_duration, format_number, format_percent

METRICS: dict[Metric, str] = {
    "total_tokens_per_s": "total tok/s",
    "requests_per_s": "requests/s",
    "tpot_ms": "TPOT, ms",
    "ttft_ms": "TTFT, ms",
    "itl_ms": "ITL, mean, ms",
    "itl_median_ms": "ITL, median, ms",
    "itl_p99_ms": "ITL p99, ms",
    "running_peak_per_engine": "sequences running, peak",
    "kv_cache_peak_percent": "cache in use, peak, %",
}
_ROLES: dict[Role, str] = {
    "fitted": "fitted",
    "predicted": "predicted",
    "check": "check only",
}


def accuracy(found: Sequence[Error]) -> Table:
    """Every published row with the errors of the model and of the straight line."""
    return Table(
        id="accuracy-table",
        caption="The model against every published row",
        columns=(*texts("row", "role"), *numbers("published", "model", "error", "straight line")),
        rows=tuple(
            (
                Cell(error.row.id.partition(":")[0], METRICS[error.row.metric]),
                Cell(_ROLES[error.row.role]),
                Cell(format_number(error.row.published)),
                Cell(format_number(error.predicted.value), format_span(error.predicted)),
                Cell(format_change(error.percent / 100)),
                Cell("–" if error.line_percent is None else format_change(error.line_percent / 100)),
            )
            for error in found
        ),
    )


def format_accuracy(found: Sequence[Error]) -> Iterator[str]:
    """One sentence on throughput errors, one on time per token."""
    predicted = [error for error in found if error.row.role == "predicted"]
    rates = [error for error in predicted if error.row.metric in ("total_tokens_per_s", "requests_per_s")]
    tpots = [error for error in predicted if error.row.metric == "tpot_ms"]
    lines = [error.line_percent for error in rates if error.line_percent is not None]
    yield (
        f"On {len(rates)} published throughputs outside the fit, the model's error is {_mean(rates)} on average and "
        f"{_worst(rates)} at most; that of a straight line through one and two nodes is {mean_percent(lines):.1f} % and "
        f"{max(abs(line) for line in lines):.1f} %."
    )
    yield (
        "Two choices were made with such rows in sight: one share of the peak for arithmetic and bandwidth, and the gateway's cost halfway "
        "between two readings."
    )
    yield f"On {len(tpots)} times per token it is {_mean(tpots)} on average and {_worst(tpots)} at most."


def _mean(found: list[Error]) -> str:
    return f"{mean_percent([error.percent for error in found]):.1f} %"


def _worst(found: list[Error]) -> str:
    return f"{max(abs(error.percent) for error in found):.1f} %"


def assumptions(plan: Plan) -> Table:
    """The plan's assumptions with their sources."""
    return Table(
        id="assumptions-table",
        caption="Assumptions and their sources",
        columns=texts("what", "value", "source"),
        rows=tuple(_assumptions(plan)),
    )


def _assumptions(plan: Plan) -> Iterator[tuple[Cell, ...]]:
    question = plan.question
    yield (
        Cell("planned load, as a share of full load"),
        Cell(format_percent(question.load_share)),
        Cell("--headroom; the default covers a lost node and uneven hours"),
    )
    yield Cell("spare machines"), Cell(f"{plan.spares:,}"), Cell(plan.spares_why)
    yield (
        Cell("hours of operation a week"),
        Cell(f"{question.duty.hours_per_week:g}"),
        Cell("--hours-per-week; default: all"),
    )
    fitted = contents()["fitted"]
    for name in FITTED:
        entry = fitted[name]
        yield (
            Cell(_sentence(entry["meaning"])),
            Cell(f"{entry['value']:g} {entry['unit']}"),
            Cell(f"fitted to {', '.join(entry['rows'])}"),
        )
    for entry in contents()["memory"].values():
        source = _source(entry["source"]) if "source" in entry else f"calibrated on {', '.join(entry['rows'])}"
        yield Cell(_sentence(entry["meaning"])), Cell(f"{entry['value']:g} {entry['unit']}"), Cell(source)
    for entry in contents()["fixed"].values():
        yield Cell(_sentence(entry["meaning"])), Cell(_value(entry["value"])), Cell(_source(entry["source"]))
    for entry in contents()["assumed"]:
        yield Cell(_sentence(entry["what"])), Cell(_value(entry["value"])), Cell(_sentence(entry["because"]))
    yield Cell("memory of a B200, as CUDA reports it"), Cell(f"{B200.memory_gib:g} GiB"), Cell(_source("torchao-4002"))
    yield (
        Cell("memory bandwidth of a B200"),
        Cell(f"{B200.bandwidth_bytes_per_s / 1e12:g} TB/s"),
        Cell(_source("article")),
    )
    yield (
        Cell("dense FP8 arithmetic of a B200"),
        Cell(f"{peak_flop_per_s(B200, 'fp8') / 1e15:g} PFLOP/s"),
        Cell(_source("torchao-4002")),
    )
    for step in plan.time_to_serve.steps:
        because = _source(step.source) if step.source else "assumed"
        low, likely, high = (
            format_duration(step.low_seconds),
            format_duration(step.likely_seconds),
            format_duration(step.high_seconds),
        )
        yield (
            Cell(f"time for: {step.title}"),
            Cell(likely, "" if low == high else f"{low} to {high}"),
            Cell(because, _sentence(step.note)),
        )


def _source(id_: str) -> str:
    source = ledger.source(id_)
    return f"{source.title}, {source.date}"


def _sentence(text: object) -> str:
    return " ".join(str(text).split())


def _value(value: object) -> str:
    return ", ".join(f"{one:g}" for one in value) if isinstance(value, list) else _sentence(value)
