"""A judged measurement for a terminal: rates, latencies, servers, cost, checks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

from fleet.report.terminal import Page, Paper, Part
from fleet.report.words import format_change, format_percent, format_usd, plural

if TYPE_CHECKING:
    from fleet.bench.measurement import (
        Check,
        Comparison,
        Distribution,
        Estimate,
        Judged,
        Measurement,
        Point,
        Rates,
        Run,
        SummedRates,
    )

_LOADS = (
    ("in flight", ">9"), ("total tok/s", ">18"), ("output tok/s", ">17"), ("TTFT p50", ">10"), ("TPOT p50", ">10"), ("USD/M", ">9"),
)  # fmt: skip
_CHANGES_SHOWN = 4
"""Most regressed quantities in the first lines."""
_COMPARED_WORST_FIRST = ("regressed", "improved", "same within noise")


def print_judged(paper: Paper, judged: Judged, *, written: Path) -> None:
    """Write the outcome to `paper`; `written` is the path of merged.json."""
    page = Page(paper)
    measurement, certificate = judged.measurement, judged.certificate
    page.prose(certificate.headline, indent=0, style="bold green" if certificate.verdict == "certified" else "bold red")
    if certificate.reason:
        page.prose(certificate.reason, indent=0)
    _gate(page, judged.comparisons)
    _subject(page, measurement)
    if len(measurement.points) > 1:
        _loads(page, measurement)
    for point in measurement.points:
        runs = [run for run in measurement.runs if run.name in point.runs]
        _throughput(page, measurement, point, runs)
        _latencies(page, point)
    _failures(page, measurement.runs)
    _goodput(page, measurement.runs)
    _servers(page, _shown_run(measurement))
    _cost(page, measurement)
    _compared(page, judged)
    _checks(page, certificate.checks)
    _remarks(page, measurement)
    page.blank()
    page.pointer(str(written), " has everything")
    page.print()


def _gate(page: Page, comparisons: Sequence[Comparison]) -> None:
    """Outcome of the comparison with a baseline, which may turn the exit code to 1."""
    from fleet.bench.certificate.baseline import incomparable

    worse = [one for one in comparisons if one.verdict == "regressed"]
    if worse:
        changes = [f"{one.quantity} {format_change(one.change_share)}" for one in worse[:_CHANGES_SHOWN]]
        more = f" and {len(worse) - _CHANGES_SHOWN} more" if len(worse) > _CHANGES_SHOWN else ""
        page.prose(f"Worse than baseline {worse[0].baseline}: {'; '.join(changes)}{more}.", indent=0, style="bold red")
    elif incomparable(comparisons):
        page.prose(f"Not comparable with baseline {comparisons[0].baseline}.", indent=0, style="bold red")


def _subject(page: Page, measurement: Measurement) -> None:
    asked = measurement.asked
    if asked is None:
        page.prose("Bare results: run.json is missing, so stack and load are unknown.", indent=0, style="dim")
        return
    shape = asked.shape
    page.prose(
        f"{asked.name or 'unnamed'} · {shape.model}, vLLM {shape.engine_version} · {plural(shape.replicas, 'node')} of "
        f"{shape.machine_type} · profile {asked.profile} · workload {asked.workload.name} · {asked.created}",
        indent=0,
        style="dim",
    )


def _loads(page: Page, measurement: Measurement) -> None:
    page.title("Loads")
    best = max(measurement.points, key=lambda point: point.total_tokens_per_s.mean)
    rows = []
    for point in measurement.points:
        tpot, usd = point.latencies.tpot, point.usd_per_million_tokens
        cells = (
            f"{point.connections:,}",
            _interval(point.total_tokens_per_s),
            _interval(point.output_tokens_per_s),
            _ms(point.latencies.ttft.p50),
            _ms(tpot.p50) if tpot else "-",
            f"{usd:,.4f}" if usd else "-",
        )
        rows.append([(cell, "bold" if point is best else "") for cell in cells])
    page.table(_LOADS, rows)


def _throughput(page: Page, measurement: Measurement, point: Point, runs: Sequence[Run]) -> None:
    page.title(f"{point.connections:,} requests in flight, {plural(len(runs), 'repeat')}")
    page.table(
        (("throughput", "<30"), ("total tok/s", ">17"), ("output tok/s", ">18"), ("req/s", ">9")),
        _rates(measurement, point, runs),
    )
    one = runs[0]
    if len(runs) == 1 or any(run.steady is None for run in runs):
        bad = next((run for run in runs if run.steady is None), one)
        page.prose(bad.steady_why, style="dim" if bad.steady else "yellow")


def _rates(measurement: Measurement, point: Point, runs: Sequence[Run]) -> Iterator[tuple[Part, ...]]:
    """The certified rate, and the same run counted in other ways."""
    basis = _basis(runs)
    certified = "steady window" if basis == "steady" else f"{basis} window (never steady)"
    requests = point.requests_per_s.mean
    rates = (_interval(point.total_tokens_per_s), _interval(point.output_tokens_per_s), f"{requests:,.1f}")
    yield certified, *((rate, "bold") for rate in rates)
    total = point.total_tokens_per_s_per_node
    nodes = measurement.asked.shape.replicas if measurement.asked else 1
    if total is not None and nodes > 1:
        yield _rate("  per node", (total, point.output_tokens_per_s.mean / nodes, requests / nodes))
    common = [run.common for run in runs if run.common is not None]
    if len(common) == len(runs):
        yield _rate("all clients active", *map(_three, common))
    yield _rate("first request to last answer", *(_three(run.whole) for run in runs))
    yield _rate("sum of clients (article's way)", *(_three(run.summed) for run in runs))


def _rate(label: str, *runs: tuple[float, float, float]) -> tuple[str, ...]:
    """The mean of the runs."""
    total, output, requests = (fmean(values) for values in zip(*runs, strict=True))
    return label, f"{total:,.0f}", f"{output:,.0f}", f"{requests:,.1f}"


def _three(rates: Rates | SummedRates) -> tuple[float, float, float]:
    return rates.total_tokens_per_s, rates.output_tokens_per_s, rates.requests_per_s


def _basis(runs: Sequence[Run]) -> str:
    if all(run.steady is not None for run in runs):
        return "steady"
    return "common" if all(run.common is not None for run in runs) else "whole"


def _interval(estimate: Estimate) -> str:
    if estimate.low is None or estimate.high is None:
        return f"{estimate.mean:,.0f}"
    return f"{estimate.mean:,.0f} ±{(estimate.high - estimate.low) / 2:,.0f}"


def _latencies(page: Page, point: Point) -> None:
    wide = page.width >= 90
    names = ["mean", "p50", "p90", "p95", "p99", "p99.9", "max"] if wide else ["p50", "p90", "p99", "p99.9", "max"]
    found = point.latencies
    latencies = (("TTFT", found.ttft), ("TPOT", found.tpot), ("ITL, chunks", found.itl), ("E2E", found.e2e))
    page.table(
        (("latency, ms", "<12"), *((name, ">11") for name in names)),
        ((name, *(_ms(value) for value in _values(one, wide))) for name, one in latencies if one is not None),
    )


def _values(one: Distribution, wide: bool) -> tuple[float, ...]:
    if wide:
        return one.mean, one.p50, one.p90, one.p95, one.p99, one.p999, one.max
    return one.p50, one.p90, one.p99, one.p999, one.max


def _ms(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:,.1f}" if value >= 10 else f"{value:,.2f}"


def _failures(page: Page, runs: Sequence[Run]) -> None:
    from fleet.bench.report.shown import errors_by_kind

    failed = sum(run.failed for run in runs)
    if not failed:
        return
    share = failed / sum(run.failed + run.completed for run in runs)
    where = max(runs, key=lambda run: run.failed)
    most = f", most ({where.failed:,}) in {where.title}" if len(runs) > 1 else ""
    page.title(f"{plural(failed, 'request')} failed, {format_percent(share, 2)} of all{most}", style="bold yellow")
    for one in errors_by_kind(runs):
        page.item(f"{one.count:,} {one.kind}: {one.example}")


def _goodput(page: Page, runs: Sequence[Run]) -> None:
    known = [(run, run.goodput) for run in runs if run.goodput is not None]
    if not known:
        return
    first = known[0][1]
    limits = [
        f"{name} {limit:g} ms"
        for name, limit in (("TTFT", first.ttft_ms), ("TPOT", first.tpot_ms), ("E2E", first.e2e_ms))
        if limit is not None
    ]
    page.title(f"Goodput: {', '.join(limits)}")
    for run, good in known:
        page.prose(
            f"{run.title}: {format_percent(good.share)} of all requests; {good.requests_per_s:,.1f} req/s, "
            f"{good.output_tokens_per_s:,.0f} output tok/s"
        )


def _shown_run(measurement: Measurement) -> Run:
    """The run whose servers are shown: the fastest."""
    return max(measurement.runs, key=lambda run: run.looked_at.total_tokens_per_s)


def _servers(page: Page, run: Run) -> None:
    server, gpus = run.server, run.gpus
    if server is None and gpus is None:
        return
    page.title(f"Servers of {run.title}")
    if server is not None:
        engines = server.engines
        running = [one.running_mean for one in engines]
        page.prose(
            f"{plural(server.servers, 'server')}, {plural(len(engines), 'engine')}: {min(running):,.1f} to {max(running):,.1f} "
            f"requests running on each (mean), at most {max(one.waiting_peak for one in engines):,.0f} waiting, KV cache "
            f"{format_percent(fmean(one.kv_mean for one in engines))} full "
            f"(peak {format_percent(max(one.kv_peak for one in engines))})"
            if engines
            else f"{plural(server.servers, 'server')}, none could be read"
        )
        page.prose("; ".join(_server_facts(run)))
    if gpus is not None:
        powers = [one for one in gpus.readings if one.name == "power_watts"]
        power = max(powers, key=lambda one: (one.gpus, one.source == "nvidia-smi dmon"), default=None)
        if power is not None:
            energy = gpus.watt_hours_per_million_tokens
            page.prose(
                f"{plural(power.gpus, 'GPU')}: {power.mean:,.0f} W each (peak {power.peak:,.0f} W), by {power.source}"
                + (f"; {energy:,.1f} Wh per million tokens, GPUs alone" if energy is not None else "")
            )
        if gpus.problem:
            page.prose(gpus.problem, style="yellow")


def _server_facts(run: Run) -> Iterator[str]:
    server = run.server
    if server is None:
        return
    if server.acceptance_rate is not None:
        yield f"{format_percent(server.acceptance_rate)} of drafted tokens accepted"
    if server.mean_acceptance_length is not None:
        yield f"{server.mean_acceptance_length:.2f} tokens a step"
    if server.prefix_hit_share is not None:
        yield f"{format_percent(server.prefix_hit_share, 2)} of prompt tokens from the prefix cache"
    yield f"{server.preemptions:,.0f} preemptions"
    tflops = [one.tflops_mean for one in server.engines if one.tflops_mean is not None]
    if tflops:
        yield f"{fmean(tflops):,.0f} TFLOP/s a GPU by vLLM's estimate, rough for a hybrid model"


def _cost(page: Page, measurement: Measurement) -> None:
    cost = measurement.asked.cost if measurement.asked else None
    if cost is None:
        return
    least = "at least " if cost.at_least else ""
    page.title(f"Cost at {least}{format_usd(cost.usd_per_hour)} an hour ({cost.capacity})")
    for point in measurement.points:
        if point.usd_per_million_tokens is not None and point.usd_per_million_output_tokens is not None:
            page.prose(
                f"{point.connections:,} in flight: {least}${point.usd_per_million_tokens:,.4f} per million tokens, "
                f"${point.usd_per_million_output_tokens:,.4f} per million output tokens"
            )


def _compared(page: Page, judged: Judged) -> None:
    if not judged.comparisons:
        return
    page.title(f"Against {judged.comparisons[0].baseline}")
    styles = {"regressed": "bold red", "improved": "green", "not comparable": "yellow", "same within noise": ""}
    compared = [one for one in judged.comparisons if one.verdict != "not comparable"]
    for one in sorted(compared, key=lambda one: _COMPARED_WORST_FIRST.index(one.verdict)):
        change = f"{format_change(one.change_share)} (noise ±{format_percent(one.noise_share)})"
        page.prose(f"{one.quantity}: {one.verdict} {change}", mark="· ", style=styles[one.verdict])
        page.prose(one.why, indent=4, style="dim")
    # Most reasons hold for all quantities: each is printed once.
    reasons: dict[str, list[str]] = {}
    for one in judged.comparisons:
        if one.verdict == "not comparable":
            reasons.setdefault(one.why, []).append(one.quantity)
    for why, quantities in reasons.items():
        page.prose(f"{'; '.join(quantities)}: not comparable", mark="· ", style=styles["not comparable"])
        page.prose(why, indent=4, style="dim")


def _checks(page: Page, checks: Sequence[Check]) -> None:
    passed = sum(check.verdict == "passed" for check in checks)
    page.title(f"Certificate: {passed} of {len(checks)} checks passed")
    for check in (check for check in checks if check.verdict == "failed"):
        page.prose(f"{check.title}: failed [{check.id}]", mark="✗ ", mark_style="bold red")
        page.prose(f"found: {check.found}", indent=4)
        page.prose(f"allowed: {check.allowed}", indent=4)
        page.prose(check.why, indent=4, style="dim")
    # Many checks of bare results miss the same file: it is printed once.
    gaps: dict[str, list[Check]] = {}
    for check in (check for check in checks if check.verdict == "not measured"):
        gaps.setdefault(check.found, []).append(check)
    for found, waiting in gaps.items():
        for check in waiting:
            needed = "" if check.required else ", not required"
            page.prose(f"{check.title}: not measured{needed} [{check.id}]", mark="? ", mark_style="yellow")
        page.prose(found, indent=4)


def _remarks(page: Page, measurement: Measurement) -> None:
    if measurement.excluded:
        page.title(f"Excluded ({len(measurement.excluded)})")
        for one in measurement.excluded:
            page.item(f"{one.file}: {one.why}")
    if measurement.remarks:
        page.title(f"Remarks ({len(measurement.remarks)})")
        for remark in measurement.remarks:
            page.item(remark)
