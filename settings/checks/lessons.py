"""Checks of a stack's settings against the article's lessons.

A lesson (condition, figure, level) is in `facts/lessons/`; this module turns a breach into a problem with the stack file's keys.
What the profile breaks to reproduce a published run is a finding where `facts/lessons/deliberate.py` has an exception. The same value set
in a stack file stays an error.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import ceil
from typing import TYPE_CHECKING, Any, Final

from facts import disks
from facts.finding import Finding, Severity
from facts.ledger import value
from facts.lessons.deliberate import exception_for
from facts.lessons.engine_lessons import ENGINE_LESSONS
from facts.lessons.gateway import EPP_REPLICAS, EPP_UNDERSIZED, PROXY_ONLY_SUBNET
from facts.lessons.lesson import Breach, Lesson
from facts.lessons.serving_advisories import IN_PRODUCTION
from facts.lessons.words import RESOURCES
from facts.releases import CURRENT
from facts.sizing import CONNECTIONS_PER_CLIENT
from settings.checks.declared_server import DeclaredServer, stack_file
from settings.profiles import valid_for
from settings.sections.section import key

if TYPE_CHECKING:
    from settings.stack import Settings

_SEVERITIES: Final[dict[str, Severity]] = {"mandatory": "error", "advisory": "warning"}


def lesson_named(name: str) -> Lesson[Any]:
    """The lesson with that name. Raises KeyError."""
    every: tuple[Lesson[Any], ...] = (*ENGINE_LESSONS, IN_PRODUCTION, EPP_UNDERSIZED, EPP_REPLICAS, PROXY_ONLY_SUBNET)
    return {one.name: one for one in every}[name]


def repeated_on_purpose(settings: Settings) -> tuple[str, ...]:
    """Sorted ids of the stack's deliberate exceptions: lessons that its profile breaks to reproduce a published row."""
    return tuple(sorted({problem.id for problem in lessons(settings) if problem.severity == "deliberate"}))


def lessons(settings: Settings) -> tuple[Finding, ...]:
    """Every lesson that these settings break."""
    return (
        *engine_problems(settings, DeclaredServer(settings)),
        *_release_of_the_profile(settings),
        *_image_by_tag(settings),
        *_swept_load(settings),
        *_weights_writer(settings),
        *_gateway(settings),
        *_benchmark(settings),
    )


def engine_problems(settings: Settings, server: DeclaredServer) -> Iterator[Finding]:
    """Every lesson that a server breaks."""
    for lesson in (*ENGINE_LESSONS, IN_PRODUCTION):
        for breach in lesson.judge(server, lesson.defaults):
            yield _unless_on_purpose(settings, _problem(settings, lesson, breach))


def _problem(settings: Settings, rule: Lesson[Any], breach: Breach) -> Finding:
    spelled = stack_file()
    problem = spelled.finding(
        rule,
        breach,
        subject=key(spelled.path(breach.option)),
        found=RESOURCES.assignment(breach.option, breach.value) if spelled.is_extra(breach.option) else breach.value,
        severity=_SEVERITIES[rule.level],
    )
    newer = spelled.text(f"{{image-tag=v{CURRENT}}} and its digest")
    if newer in problem.write and (other := _profile_of_the_current_release(settings)):
        return replace(problem, write=problem.write.replace(newer, other))
    return problem


def _profile_of_the_current_release(settings: Settings) -> str:
    """What to write for a profile of the same model on the current release; empty if the stack's own is, or there is none."""
    chosen, server = settings.serving.profile, settings.server
    if CURRENT in chosen.versions:
        return ""
    near = next((other for other in valid_for(CURRENT) if other.model_id == chosen.model_id), None)
    if near is None:
        return ""
    old = ["server.image"] if server.image.model_fields_set else []
    old += ["engine.version"] if "version" in server.engine else []
    return f"profile: {near.name}, which runs v{CURRENT}" + (f", without {' and '.join(old)}" if old else "")


def _unless_on_purpose(settings: Settings, problem: Finding) -> Finding:
    serving = settings.serving
    exception = exception_for(serving.profile.reproduces, problem.id)
    written = {f"server.engine.{name}" for name in serving.overrides}
    if exception is None or written & {stack_file().path(option) for option in exception.options}:
        return problem
    why = (
        f"{problem.why} (deliberate exception: profile {serving.profile.name} reproduces {serving.profile.reproduces})"
    )
    return replace(problem, severity="deliberate", why=why)


def _release_of_the_profile(settings: Settings) -> Iterator[Finding]:
    chosen, version = settings.serving.profile, settings.serving.engine.version
    if version not in chosen.versions and settings.serving.engine.release.known:
        yield Finding(
            id="profile-of-another-release",
            subject=key("server.engine.version"),
            found=version,
            allowed=", ".join(chosen.versions),
            why=f"profile {chosen.name} was checked with these vLLM releases; another release has other defaults",
            write=f"version: {chosen.versions[-1]}"
            + (f", or {other}" if (other := _profile_of_the_current_release(settings)) else ""),
            severity="warning",
        )


def _image_by_tag(settings: Settings) -> Iterator[Finding]:
    image = settings.serving.image
    if image.digest is None:
        yield Finding(
            id="image-by-tag",
            subject=key("server.image.digest"),
            found=None,
            allowed=f"the digest of {image.repository}:{image.tag}",
            why="no source publishes it, so the tag decides what runs, and a tag can be moved",
            write=f"image: {{digest: sha256:...}}, as `fleet doctor --for up --live --stack {settings.stack}` prints it",
            severity="note",
        )


def _swept_load(settings: Settings) -> Iterator[Finding]:
    """The benchmark's loads, which the server does not declare."""
    swept = settings.benchmark.concurrency or () if settings.benchmark.enabled else ()
    server = DeclaredServer(settings)
    engines, each = server.answering_engines, server.sequences
    admitted = engines * each
    if swept and max(swept) > max(admitted, server.offered_concurrency):
        rule = lesson_named("sequences-below-load")
        yield Finding(
            id=rule.name,
            subject=key("benchmark.concurrency"),
            found=list(swept),
            allowed=f"up to {admitted}: maxNumSeqs {each} on each of {engines} engine(s) of a replica",
            why=f"a higher load only measures the queue: {stack_file().text(rule.evidence)}",
            write=f"maxNumSeqs: {ceil(max(swept) / engines)}, or loads up to {admitted}",
        )


def _weights_writer(settings: Settings) -> Iterator[Finding]:
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
    has_subnet = bool(settings.proxy_only_subnet) or not settings.owns_platform
    for breach in PROXY_ONLY_SUBNET.judge(has_subnet, PROXY_ONLY_SUBNET.defaults):
        yield _problem(settings, PROXY_ONLY_SUBNET, breach)
    if not settings.has_picker:
        return
    picker = _Picker(
        cpu=gateway.epp.cpu,
        replicas=gateway.epp.replicas,
        connections=settings.serving.concurrency_per_replica * settings.replicas,
    )
    for lesson in (EPP_UNDERSIZED, EPP_REPLICAS):
        for breach in lesson.judge(picker, lesson.defaults):
            yield _problem(settings, lesson, breach)
    rows = value("gateway.figures").values()
    lost = (f"{row['overhead_percent']} % less throughput at {row['replicas']} nodes" for row in rows)
    yield Finding(
        id="gateway-overhead",
        subject=key("gateway.enabled"),
        found=True,
        allowed="true if traffic shares prefixes or is uneven; false for uniform traffic",
        why=f"every streamed token passes through the endpoint picker: {', '.join(lost)}"
        + (", with the article's picker; no figure is published for this one" if gateway.has_llm_d else ""),
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
