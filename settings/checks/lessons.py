"""Checks of a stack's settings against the article's lessons.

A lesson (condition, figure, level) is in `facts/lessons/`; this module turns a breach into a problem with the stack file's keys.
A profile that reproduces a row of the article lists its deliberate exceptions: those become findings. The same value set in a
stack file stays an error.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import ceil
from typing import TYPE_CHECKING, Final

from facts.finding import Finding, Severity
from facts.ledger import value
from facts.lessons.engine_lessons import ENGINE_LESSONS
from facts.lessons.gateway import EPP_REPLICAS, EPP_UNDERSIZED, PROXY_ONLY_SUBNET
from facts.lessons.lesson import Broken, Told
from facts.lessons.serving_judged import OPTION_WITH_REASON
from facts.lessons.words import RESOURCES
from facts.sizing import CONNECTIONS_PER_CLIENT
from settings.checks.declared_server import DeclaredServer, stack_file
from settings.sections.section import key

if TYPE_CHECKING:
    from settings.stack import Settings

_SEVERITIES: Final[dict[str, Severity]] = {"mandatory": "error", "advisory": "warning"}


def lesson_named(name: str) -> Told:
    """The lesson with that name. Raises KeyError."""
    told: tuple[Told, ...] = (*ENGINE_LESSONS, EPP_UNDERSIZED, EPP_REPLICAS, PROXY_ONLY_SUBNET)
    return {one.name: one for one in told}[name]


def repeated_on_purpose(settings: Settings) -> tuple[str, ...]:
    """Sorted ids of the stack's deliberate exceptions: lessons that its profile breaks to reproduce a published row."""
    return tuple(sorted({problem.id for problem in lessons(settings) if problem.severity == "deliberate"}))


def lessons(settings: Settings) -> tuple[Finding, ...]:
    """Every lesson that these settings break."""
    return (
        *engine_problems(settings, DeclaredServer(settings)),
        *_release_of_the_profile(settings),
        *_swept_load(settings),
        *_weights_writer(settings),
        *_gateway(settings),
        *_benchmark(settings),
    )


def engine_problems(settings: Settings, server: DeclaredServer) -> Iterator[Finding]:
    """Every lesson that a server breaks: the declared server, or one with the flags observed on a running server."""
    for lesson in ENGINE_LESSONS:
        for broken in lesson.judge(server, lesson.defaults):
            yield _unless_on_purpose(settings, lesson, _problem(lesson, broken))


def _problem(told: Told, broken: Broken) -> Finding:
    spelled = stack_file()
    return Finding(
        id=told.id,
        subject=key(spelled.path(broken.option)),
        found=RESOURCES.assignment(broken.option, broken.value) if spelled.is_extra(broken.option) else broken.value,
        allowed=spelled.allowed(broken),
        why=spelled.text(broken.why or told.evidence),
        write=spelled.fix(told, broken),
        severity="note" if told.name == OPTION_WITH_REASON else _SEVERITIES[told.level],
    )


def _unless_on_purpose(settings: Settings, told: Told, problem: Finding) -> Finding:
    serving = settings.serving
    written = {f"server.engine.{name}" for name in serving.overrides}
    by_hand = written & {stack_file().path(option) for option in told.reads}
    if by_hand or not told.excusable or told.id not in serving.profile.lessons_reproduced:
        return problem
    why = (
        f"{problem.why} (deliberate exception: profile {serving.profile.name} reproduces {serving.profile.reproduces})"
    )
    return replace(problem, severity="deliberate", why=why)


def _release_of_the_profile(settings: Settings) -> Iterator[Finding]:
    chosen, version = settings.serving.profile, settings.serving.engine.version
    if version not in chosen.versions and settings.serving.engine.release.known and version != "0.18.0":
        yield Finding(
            id="profile-of-another-release",
            subject=key("server.engine.version"),
            found=version,
            allowed=", ".join(chosen.versions),
            why=f"profile {chosen.name} was checked with these vLLM releases; another release has other defaults",
            write=f"version: {chosen.versions[-1]}",
            severity="warning",
        )


def _swept_load(settings: Settings) -> Iterator[Finding]:
    """The benchmark's loads, which the server does not declare."""
    swept = settings.benchmark.concurrency or () if settings.benchmark.enabled else ()
    server = DeclaredServer(settings)
    engines, each = server.flags.engines, server.sequences
    admitted = engines * each
    if swept and max(swept) > max(admitted, server.offered_concurrency):
        told = lesson_named("sequences-below-load")
        problem = Finding(
            id=told.id,
            subject=key("benchmark.concurrency"),
            found=list(swept),
            allowed=f"up to {admitted}: maxNumSeqs {each} on each of {engines} engine(s) of a replica",
            why=f"a higher load only measures the queue: {stack_file().text(told.evidence)}",
            write=f"maxNumSeqs: {ceil(max(swept) / engines)}, or loads up to {admitted}",
        )
        yield _unless_on_purpose(settings, told, problem)


def _weights_writer(settings: Settings) -> Iterator[Finding]:
    from facts import disks

    family = settings.weights.writer.machine_family
    reason = disks.cannot_attach(disks.TYPE, family)
    if not reason and family not in disks.ARM_FAMILIES:
        reason = f"{family.upper()} machines have no Arm processors, which the writer's pods require"
    if settings.weights.is_written and reason:
        yield Finding(
            id="writer-cannot-attach",
            subject=key("weights.writer.machineFamily"),
            found=family,
            allowed="c4a",
            why=f"{reason}, so the writer pod would stay Pending",
            write="machineFamily: c4a",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Picker:
    cpu: float
    replicas: int
    connections: int


def _gateway(settings: Settings) -> Iterator[Finding]:
    gateway = settings.gateway
    if not gateway.enabled:
        return
    if settings.owns_platform and not settings.proxy_only_subnet:
        yield _problem(
            PROXY_ONLY_SUBNET,
            Broken(
                option="proxy-only-subnet",
                value=False,
                allowed="true (or left out) with the gateway",
                changes={"proxy-only-subnet": True},
            ),
        )
    picker = _Picker(
        cpu=gateway.epp.cpu,
        replicas=gateway.epp.replicas,
        connections=settings.serving.concurrency_per_replica * settings.replicas,
    )
    for lesson in (EPP_UNDERSIZED, EPP_REPLICAS):
        for broken in lesson.judge(picker, lesson.defaults):
            yield _problem(lesson, broken)
    rows = value("gateway.figures").values()
    lost = (f"{row['overhead_percent']} % less throughput at {row['replicas']} nodes" for row in rows)
    yield Finding(
        id="gateway-overhead",
        subject=key("gateway.enabled"),
        found=True,
        allowed="true if traffic shares prefixes or is uneven; false for uniform traffic",
        why=f"every streamed token passes through the endpoint picker: {', '.join(lost)}",
        write="gateway: {enabled: false}, for uniform traffic",
        severity="note",
    )


def _benchmark(settings: Settings) -> Iterator[Finding]:
    benchmark = settings.benchmark
    if benchmark.enabled and benchmark.connections_per_client > CONNECTIONS_PER_CLIENT:
        saturated = value("single_client.figures.nodes-8")
        served = value("cluster_ip.figures.nodes-8.total_tokens_per_s")
        yield Finding(
            id="client-saturates",
            subject=key("benchmark.connectionsPerClient"),
            found=benchmark.connections_per_client,
            allowed=f"up to {CONNECTIONS_PER_CLIENT}",
            why=f"a client process uses one core: with {saturated['details']['concurrent_connections']:,} connections it measured "
            f"{saturated['total_tokens_per_s'] / 1000:.0f}K tok/s on 8 nodes that deliver {served / 1000:.0f}K",
            write=f"connectionsPerClient: {CONNECTIONS_PER_CLIENT}",
        )
