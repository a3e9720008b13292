"""What a benchmark of a stack is asked to do: the one translation from settings, for `pulumi up` and `fleet bench run` alike."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from facts import ledger, machines
from settings.derived.benchmark_load import Load, load_of, longest_minutes, ready_minutes, run_minutes
from settings.derived.canary import release
from settings.derived.figures import figures, measured_shape

if TYPE_CHECKING:
    from settings.sections.benchmark import Dataset
    from settings.sections.model import Model
    from settings.sections.secret_stores import SecretStore
    from settings.stack import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """One benchmark of one configuration: what its pods are told, and what they need for it."""

    run: Mapping[str, Any]
    """run.json without the name and the moment, which the pods add: stack, model, workload, loads, repeats, limits, shape and cost
    as plain data. `fleet.bench.folder.Asked` reads it back."""
    bearing: Mapping[str, Any]
    """Whatever bears on the figures, as plain data. The Job's name is a hash of it: another value is another measurement."""
    model: Model
    """The served model; its tokenizer is fetched at its revision."""
    dataset: Dataset | None = None
    """The file that requests are drawn from, where the workload takes one."""
    machine_type: str = "c4-standard-16"
    """Machine of the client pods, one pod to a machine: a C4 of settings.derived.benchmark_load.MACHINES."""
    pods: int = 1
    """Client pods, all at once."""
    startup_minutes: int = 30
    """Longest time from a server's start to ready, in minutes."""
    ready_minutes: int = 20
    """Minutes after which clients that are not ready are given up."""
    run_minutes: int = 10
    """Minutes under load after which a run is given up."""
    longest_minutes: int = 60
    """Minutes after which everything is given up, the servers' start not counted: every run at its last moment."""
    hf_token: SecretStore | None = None
    """Store of the Hugging Face token, where the model is gated."""


def measurement(settings: Settings) -> Measurement:
    """The measurement of this stack. Its benchmark's settings count whether it is enabled or not; `fleet bench run` asks with a
    changed copy of them.
    """
    load, benchmark = load_of(settings), settings.benchmark
    workload = _workload(settings)
    return Measurement(
        run=_run(settings, load, workload),
        bearing=_bearing(settings, load, workload),
        model=settings.serving.model,
        dataset=benchmark.dataset,
        machine_type=benchmark.machine_type,
        pods=load.pods,
        startup_minutes=settings.server.startup_minutes,
        ready_minutes=ready_minutes(settings),
        run_minutes=run_minutes(settings),
        longest_minutes=longest_minutes(settings),
        hf_token=settings.hf_token_store,
    )


def _run(settings: Settings, load: Load, workload: Mapping[str, Any]) -> dict[str, Any]:
    benchmark, serving = settings.benchmark, settings.serving
    slo = benchmark.slo
    # A canary's node is on nobody's measurement, and must not change the measurement of the others.
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
        "pods": load.pods,
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
    """What the stack asks for, never a price or a fit. A setting that is None leaves no trace: a release that adds one renames no
    Job.
    """
    benchmark = settings.benchmark.model_dump(
        mode="json", exclude={"enabled", "run_on_update", "slo", "concurrency"}, exclude_none=True
    )
    return {
        "benchmark": benchmark,
        "engine": settings.serving.engine.model_dump(mode="json", exclude_none=True),
        "image": settings.serving.image.digest,
        "model": settings.serving.model.model_dump(mode="json"),
        "points": _points(load),
        "workload": workload,
        "resources": asdict(settings.resources),
        "gateway": settings.gateway.model_dump(mode="json") if settings.gateway.enabled else None,
        "key": settings.guards_v1_only,
    } | ({} if settings.machine.type == machines.DEFAULT else {"machine": settings.machine.type})


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
