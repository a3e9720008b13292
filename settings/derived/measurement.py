"""A benchmark's definition, derived from a stack's settings for `pulumi up` and `fleet bench run`."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from facts import ledger, machines, pickers
from facts.capacity import PROVISIONING_MINUTES
from settings.derived.benchmark_load import Load, load_of, longest_minutes, ready_minutes, run_minutes
from settings.derived.canary import release
from settings.derived.figures import figures, measured_shape

if TYPE_CHECKING:
    from settings.sections.benchmark import Dataset
    from settings.sections.gateway import Gateway
    from settings.sections.model import Model
    from settings.sections.secret_stores import SecretStore
    from settings.stack import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """One benchmark of one configuration."""

    run: Mapping[str, Any]
    """run.json without name and time, which the pods add: stack, model, workload, loads, repeats, limits, shape and cost as plain data.
    `fleet.bench.folder.Asked` reads it."""
    bearing: Mapping[str, Any]
    """Everything that affects the figures, as plain data. The Job's name has a hash of it, so a change is a new measurement."""
    model: Model
    """The served model, whose tokenizer is downloaded at its revision."""
    dataset: Dataset | None = None
    """The file with requests, if the workload uses one."""
    machine_type: str = "c4-standard-16"
    """Machine type of the clients' pod, from facts.sizing.BENCHMARK_MACHINES."""
    provisioning_minutes: int = PROVISIONING_MINUTES
    """Minutes to wait for a server's node."""
    startup_minutes: int = 30
    """Timeout of a server's start in minutes."""
    ready_minutes: int = 20
    """Timeout of clients to become ready in minutes."""
    run_minutes: int = 10
    """Timeout of a run under load in minutes."""
    longest_minutes: int = 60
    """Timeout of the whole benchmark in minutes, without the servers' start."""
    hf_token: SecretStore | None = None
    """Store of the Hugging Face token, for a gated model."""


def measurement(settings: Settings) -> Measurement:
    """The measurement of this stack, whether its benchmark is enabled or not; `fleet bench run` uses a changed copy of the settings."""
    load, benchmark = load_of(settings), settings.benchmark
    workload = _workload(settings)
    return Measurement(
        run=_run(settings, load, workload),
        bearing=_bearing(settings, load, workload),
        model=settings.serving.model,
        dataset=benchmark.dataset,
        machine_type=load.machine_type,
        provisioning_minutes=settings.placement.provisioning_minutes,
        startup_minutes=settings.server.startup_minutes,
        ready_minutes=ready_minutes(settings),
        run_minutes=run_minutes(settings),
        longest_minutes=longest_minutes(settings),
        hf_token=settings.hf_token_store,
    )


def _run(settings: Settings, load: Load, workload: Mapping[str, Any]) -> dict[str, Any]:
    benchmark, serving = settings.benchmark, settings.serving
    slo = benchmark.slo
    # A canary must not change the cost in the servers' measurement.
    bill = figures(settings.without_canary).bill
    return {
        "schema": 1,
        "stack": settings.stack,
        "profile": serving.profile.name,
        "served_model": serving.served_model_name,
        "model_revision": serving.model.revision,
        "image": settings.serving.image.reference,
        "release": hashlib.sha256(json.dumps(release(settings), sort_keys=True).encode()).hexdigest(),
        "engines_per_replica": serving.engine.data_parallel_size,
        "speculative_tokens": serving.engine.speculative_tokens,
        "workload": workload,
        "points": _points(load),
        "repeats": benchmark.repeats,
        "prompts_per_client": benchmark.prompts_per_client,
        "slo": None if slo is None else slo.model_dump(mode="json"),
        "shape": _shape(settings),
        "cost": None
        if bill.usd_per_hour is None
        else {
            "usd_per_hour": round(bill.usd_per_hour, 2),
            "at_least": bool(bill.unknown),
            "capacity": settings.placement.price_key,
        },
    }


def _bearing(settings: Settings, load: Load, workload: Mapping[str, Any]) -> dict[str, Any]:
    """Settings that affect figures, without prices or fits. Nothing that is None or empty is in it: a new setting renames no Job."""
    left_out = {"enabled", "run_on_update", "slo", "concurrency"}
    benchmark = settings.benchmark.model_dump(mode="json", exclude=left_out, exclude_none=True)
    chosen: dict[str, Any] = {} if settings.endpoint.kind is None else {"endpoint": settings.endpoint_kind}
    if settings.server.rank_ports:
        chosen["ranks"] = settings.rank_ports
    if settings.server.shape is not None:
        chosen["shape"] = settings.server.shape.model_dump(mode="json")
    return {
        "benchmark": benchmark,
        "engine": settings.serving.engine.model_dump(mode="json", exclude_none=True),
        "image": settings.serving.image.digest or settings.serving.image.reference,
        "model": settings.serving.model.model_dump(
            mode="json", exclude=None if settings.serving.model.adapters else {"adapters"}
        ),
        "points": _points(load),
        "workload": workload,
        "resources": asdict(settings.resources),
        "gateway": _gateway(settings.gateway) if settings.gateway.enabled else None,
        "key": settings.guards_v1_only,
        **chosen,
    } | ({} if settings.machine.type == machines.DEFAULT else {"machine": settings.machine.type})


def _gateway(gateway: Gateway) -> dict[str, Any]:
    found = gateway.model_dump(mode="json", exclude={"address", "tls"}, exclude_none=True)
    if gateway.epp.release == pickers.ARTICLES:
        del found["epp"]["release"]
    return found


def _workload(settings: Settings) -> dict[str, Any]:
    name = settings.benchmark.workload
    entry = ledger.entry("workloads", "workloads", name)
    return {
        "name": name,
        "kind": entry["kind"],
        "arguments": {option: str(value) for option, value in entry["bench_0_18_1"].items()},
        "ignore_eos": entry["ignore_eos"],
        "dataset": measured_shape(settings).dataset,
    }


def _points(load: Load) -> list[dict[str, int]]:
    return [{"connections": point.connections, "clients": point.clients} for point in load.points]


def _shape(settings: Settings) -> dict[str, Any]:
    shape = measured_shape(settings)
    return {
        "model": shape.model,
        "engine_version": shape.engine_version,
        "machine_type": shape.machine_type,
        "replicas": shape.replicas,
        "gpus_per_replica": shape.gpus_per_replica,
        "flags": dict(shape.flags),
        "env": dict(shape.env),
        "routing": shape.routing,
        "workload": shape.workload,
    }
