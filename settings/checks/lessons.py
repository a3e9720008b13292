"""The lessons the article paid for, held against a stack's settings before it pays for them again.

Each lesson has an id, an exact condition and a figure. A profile that reproduces one of the article's rows names the lessons
it repeats on purpose: those become findings. The same value written by hand in a stack file stays refused.
"""

from __future__ import annotations

from dataclasses import replace
from math import ceil
from typing import TYPE_CHECKING

from facts.engines import CORES_PER_API_SERVER, CORES_PER_ENGINE
from facts.sizing import EPP_CONNECTIONS, EPP_CPU
from settings.checks.engine_lessons import Judged, engine_key, engine_lessons
from settings.problems import Problem
from settings.sections.section import NAMESPACE

if TYPE_CHECKING:
    from settings.stack import Settings

CONNECTIONS_PER_CLIENT = 1_000
"""Connections one client process carried in the article; at 16,000 one core was busy to 99 %."""


def repeated_on_purpose(settings: Settings) -> tuple[str, ...]:
    """Ids of the lessons that the stack repeats because its profile reproduces a published row, sorted."""
    return tuple(sorted({problem.id for problem in lessons(settings) if problem.on_purpose}))


def lessons(settings: Settings) -> tuple[Problem, ...]:
    """Every lesson that these settings repeat."""
    serving = settings.serving
    found: list[Problem] = []
    for keys, problem in _all(settings):
        on_purpose = problem.id in serving.profile.lessons_reproduced and not (serving.overrides & set(keys))
        if on_purpose:
            why = f"{problem.why} (profile {serving.profile.name} repeats it on purpose: it reproduces {serving.profile.reproduces})"
            problem = replace(problem, level="finding", why=why, on_purpose=True)
        found.append(problem)
    return tuple(found)


def _all(settings: Settings) -> Judged:
    yield from engine_lessons(settings)
    yield from _image(settings)
    yield from _host(settings)
    yield from _weights_writer(settings)
    yield from _gateway(settings)
    yield from _benchmark(settings)


def _image(settings: Settings) -> Judged:
    tag, engine = settings.server.image.tag, settings.serving.engine
    if tag.startswith("v0.18.0") and engine.use_deep_gemm is not False:
        yield (
            ("useDeepGemm",),
            Problem(
                id="deepgemm-accuracy",
                path=f"{NAMESPACE}:server.image.tag",
                value=tag,
                allowed="v0.18.1, or v0.18.0 with useDeepGemm: false",
                why="0.18.0 runs Qwen3.5 on B200 with DeepGEMM, whose scales cost accuracy; 0.18.1 switches it off by itself",
                write="tag: v0.18.1 and its digest",
            ),
        )
    elif not tag.startswith((f"v{engine.version}", "v0.18.0")):
        yield (
            (),
            Problem(
                id="image-not-checked",
                path=f"{NAMESPACE}:server.image.tag",
                value=tag,
                allowed=f"v{engine.version}",
                why=f"flags are written for and checked against vLLM {engine.version}; other releases rename and remove some",
                write=f"tag: v{engine.version}",
            ),
        )


def _host(settings: Settings) -> Judged:
    engine, server = settings.serving.engine, settings.server
    needed = ceil(engine.data_parallel_size * CORES_PER_ENGINE + engine.api_servers * CORES_PER_API_SERVER + 1)
    if server.resources.cpu < needed:
        yield (
            ("dataParallelSize", "apiServerCount", "entrypoint"),
            Problem(
                id="cpu-starves-engines",
                path=f"{NAMESPACE}:server.resources.cpu",
                value=server.resources.cpu,
                allowed=f"{needed} or more for {engine.data_parallel_size} engine(s) and {engine.api_servers} API server(s)",
                why="one engine keeps 1.1 to 1.3 cores busy (measured on an H200); starved of CPU its GPU waits",
                write="cpu: 160",
            ),
        )
    timeout, budget = engine.engine_ready_timeout_seconds, server.startup_minutes * 60
    if timeout is not None and timeout < budget:
        yield (
            ("engineReadyTimeoutSeconds",),
            Problem(
                id="engine-ready-timeout",
                path=engine_key("engineReadyTimeoutSeconds"),
                value=timeout,
                allowed=f"{budget} (server.startupMinutes) or more, or left out",
                why="the front end gives up on engines that are still loading; vLLM's 600 s is the article's whole start-up",
                write=f"engineReadyTimeoutSeconds: {budget}",
            ),
        )


def _weights_writer(settings: Settings) -> Judged:
    from facts import disks

    family = settings.weights.writer.machine_family
    if settings.weights.source == "hyperdisk" and not disks.attaches_hyperdisk_ml(family):
        yield (
            (),
            Problem(
                id="writer-cannot-attach",
                path=f"{NAMESPACE}:weights.writer.machineFamily",
                value=family,
                allowed="c4a",
                why=f"{family} machines cannot attach Hyperdisk ML, so the writer pod would wait for its volume for ever",
                write="machineFamily: c4a",
            ),
        )


def _gateway(settings: Settings) -> Judged:
    gateway = settings.gateway
    if not gateway.enabled:
        return
    if settings.owns_platform and not settings.proxy_only_subnet:
        yield (
            (),
            Problem(
                id="gateway-without-proxy-only-subnet",
                path=f"{NAMESPACE}:network.proxyOnly.enabled",
                value=False,
                allowed="true (or left out) with the gateway",
                why="without the subnet the Gateway stays at PROGRAMMED False for ever, without a message",
                write="proxyOnly: {enabled: true}",
            ),
        )
    connections = settings.serving.concurrency_per_replica * settings.replicas
    if gateway.epp.cpu < EPP_CPU:
        yield (
            (),
            Problem(
                id="epp-undersized",
                path=f"{NAMESPACE}:gateway.epp.cpu",
                value=gateway.epp.cpu,
                allowed=f"{EPP_CPU} or more from {EPP_CONNECTIONS:,} connections on; this fleet is offered {connections:,}",
                why="at its default of half a CPU the endpoint picker crashed under 8,000 connections; with 10 it did not",
                write=f"epp: {{cpu: {EPP_CPU}, memoryGib: 16}}",
                level="refused" if connections >= EPP_CONNECTIONS else "finding",
            ),
        )
    if gateway.epp.replicas > 1:
        yield (
            (),
            Problem(
                id="epp-replicas-are-standby",
                path=f"{NAMESPACE}:gateway.epp.replicas",
                value=gateway.epp.replicas,
                allowed="1, or 2 to 3 where standby is wanted",
                why="one endpoint picker is active by leader election whatever the number: replicas add availability, no throughput",
                write="epp: {replicas: 1}",
                level="finding",
            ),
        )
    yield (
        (),
        Problem(
            id="gateway-overhead",
            path=f"{NAMESPACE}:gateway.enabled",
            value=True,
            allowed="true where traffic shares prefixes or is uneven; false for uniform traffic",
            why="every streamed token passes the endpoint picker: 31 % less at 2 nodes, 35 % at 4, 37 % at 8",
            write="gateway: {enabled: false}, for uniform traffic",
            level="notice",
        ),
    )


def _benchmark(settings: Settings) -> Judged:
    benchmark = settings.benchmark
    if benchmark.enabled and benchmark.connections_per_client > CONNECTIONS_PER_CLIENT:
        yield (
            (),
            Problem(
                id="client-saturates",
                path=f"{NAMESPACE}:benchmark.connectionsPerClient",
                value=benchmark.connections_per_client,
                allowed=f"up to {CONNECTIONS_PER_CLIENT}",
                why="one client process is one core: at 16,000 connections it measured 242K tok/s on 8 nodes where 740K was there",
                write=f"connectionsPerClient: {CONNECTIONS_PER_CLIENT}",
            ),
        )
