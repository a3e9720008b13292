"""The ledger entry of a measurement, and which measurements are accepted."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from statistics import fmean
from typing import Any, Final

import yaml

from fleet.bench.certificate import certify
from fleet.bench.errors import BenchmarkError
from fleet.bench.folder import AskedWorkload
from fleet.bench.measurement import Certificate, Distribution, Estimate, Latencies, Measurement, Point, Run

ID: Final = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
RAW: Final = re.compile(r"(https|gs)://[A-Za-z0-9\[][^\s/]*(/\S*)?")
"""URL of raw results."""
SOURCE: Final = "own-measurement"
"""Of facts/data/sources.yaml."""
_WIDTH: Final = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One entry of facts/data/measured.yaml."""

    id: str
    fields: Mapping[str, Any]
    """As in YAML."""
    certificate: Certificate


def one_point(measurement: Measurement, point: int | None) -> Point:
    """The chosen load. Raises BenchmarkError for a sweep without a choice, and for an unknown load."""
    there = ", ".join(f"{one.point} ({one.connections:,} in flight)" for one in measurement.points)
    if point is None:
        if len(measurement.points) > 1:
            raise BenchmarkError(
                f"this measurement is a sweep of {len(measurement.points)} loads, and an entry holds one; pass --point with one of: "
                f"{there}"
            )
        return measurement.points[0]
    for one in measurement.points:
        if one.point == point:
            return one
    raise BenchmarkError(f"--point {point} is not in this measurement; allowed: {there}")


def entry_of(
    measurement: Measurement, *, results: str, id_: str, title: str, point: int | None = None, raw: str | None = None
) -> Entry:
    """The entry for one load of a measurement. `results`: digest of all its files.

    Raises BenchmarkError for a load that is not certified, for a sweep without a named load, and for an id, a title or a place of raw
    results that a ledger cannot keep.
    """
    _check_names(id_, title)
    _check_raw(raw)
    asked = measurement.asked
    chosen = one_point(measurement, point)
    certificate = certify(measurement, chosen.point)
    if certificate.verdict != "certified":
        failing = [check.id for check in certificate.checks if check.prevents]
        raise BenchmarkError(
            f"the ledger accepts certified measurements only. {certificate.headline} Checks: {', '.join(failing)}; "
            "`fleet bench report DIR` shows what each found and how to fix it"
        )
    runs = [run for run in measurement.runs if run.point == chosen.point]
    fields: dict[str, Any] = {
        "title": title,
        "date": datetime.fromtimestamp(min(run.whole.began for run in runs), UTC).date(),
        "source": SOURCE,
        "certificate": certificate.verdict,
        "measurement": asked.name or "unnamed",
        "raw": raw or f"runs/{asked.name} in the results bucket of stack {asked.stack}",
        "results_sha256": results,
        "profile": asked.profile,
        "image": asked.image,
        "model_revision": asked.model_revision,
        "replicas": asked.shape.replicas,
        "routing": asked.shape.routing,
        "in_flight": chosen.connections,
        "clients": len(runs[0].clients),
        "repeats": chosen.total_tokens_per_s.repeats,
        "steady_seconds": round(min(run.steady.seconds for run in runs if run.steady), 1),
        "total_tokens_per_s": _rate(chosen.total_tokens_per_s),
        "output_tokens_per_s": _rate(chosen.output_tokens_per_s),
        "requests_per_s": _rate(chosen.requests_per_s, 2),
        "latencies_ms": _latencies(chosen.latencies),
        "servers": _servers(runs),
        "prompts": _prompts(asked.workload),
        "shape": {
            "model": asked.shape.model,
            "engine_version": asked.shape.engine_version,
            "machine_type": asked.shape.machine_type,
            "gpus_per_replica": asked.shape.gpus_per_replica,
            "workload": asked.shape.workload,
            "flags": dict(asked.shape.flags),
            "env": dict(asked.shape.env),
        },
    }
    return Entry(id=id_, fields=fields, certificate=certificate)


def as_yaml(entry: Entry) -> str:
    """The entry's text, indented as it stands below `figures`."""
    text = yaml.safe_dump(
        {entry.id: dict(entry.fields)}, sort_keys=False, allow_unicode=True, width=_WIDTH, default_flow_style=None
    )
    return "".join(f"  {line}\n" for line in text.splitlines())


def _prompts(workload: AskedWorkload) -> dict[str, Any]:
    made: dict[str, Any] = {"kind": workload.kind, "ignore_eos": workload.ignore_eos, **workload.arguments}
    return made if workload.dataset is None else {**made, "dataset_sha256": workload.dataset}


def _check_names(id_: str, title: str) -> None:
    if not ID.fullmatch(id_):
        raise BenchmarkError(
            f"--id {id_!r} must be lower-case letters and digits joined by single dashes, for example "
            "spot-12-nodes-2026-11-21"
        )
    if not title.strip() or "\n" in title:
        raise BenchmarkError(
            f"--title {title!r} must be one line of text, for example 'twelve Spot nodes, vLLM 0.18.1'"
        )


def _check_raw(raw: str | None) -> None:
    if raw is not None and not RAW.fullmatch(raw):
        raise BenchmarkError(
            f"--raw {raw!r} must be an https:// or gs:// URL, for example gs://my-results/runs/bench-20261121; omit it for the "
            "path in the stack's results bucket"
        )


def _rate(estimate: Estimate, digits: int = 0) -> dict[str, float | None]:
    def rounded(value: float | None) -> float | None:
        return None if value is None else round(value, digits) if digits else round(value)

    return {"mean": rounded(estimate.mean), "low": rounded(estimate.low), "high": rounded(estimate.high)}


def _latencies(latencies: Latencies) -> dict[str, dict[str, float]]:
    found: dict[str, Distribution | None] = {name: getattr(latencies, name) for name in ("ttft", "tpot", "itl", "e2e")}
    return {
        name: {"mean": round(one.mean, 1), "p50": round(one.p50, 1), "p99": round(one.p99, 1)}
        for name, one in found.items()
        if one is not None
    }


def _servers(runs: list[Run]) -> dict[str, float]:
    """Figures of the servers' metrics: peaks over all runs, mean shares."""
    servers = [run.server for run in runs if run.server is not None]
    engines = [engine for server in servers for engine in server.engines]
    values: dict[str, float] = {
        "running_peak_per_engine": round(max((engine.running_peak for engine in engines), default=0)),
        "waiting_peak_per_engine": round(max((engine.waiting_peak for engine in engines), default=0)),
        "kv_cache_peak_percent": round(100 * max((engine.kv_peak for engine in engines), default=0.0), 1),
        "preemptions": round(sum(server.preemptions for server in servers)),
    }
    for key, name in (("acceptance_percent", "acceptance_rate"), ("prefix_hit_percent", "prefix_hit_share")):
        shares = [value for server in servers if (value := getattr(server, name)) is not None]
        if shares:
            values[key] = round(100 * fmean(shares), 2)
    watts = [reading for run in runs if run.gpus for reading in run.gpus.readings if reading.name == "power_watts"]
    if watts:
        values["watts_per_gpu_mean"] = round(fmean(reading.mean for reading in watts))
        values["watts_per_gpu_peak"] = round(max(reading.peak for reading in watts))
    return values
