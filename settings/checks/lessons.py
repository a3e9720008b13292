"""Checks of a stack's settings against the article's lessons.

A lesson (condition, figure, level) is in `facts/lessons/`; this module turns a breach into a problem with the stack file's keys.
What the profile breaks to reproduce a published run is a finding where `facts/lessons/deliberate.py` has an exception. The same value set
in a stack file stays an error.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

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
from settings.row import Row
from settings.sections.section import key

if TYPE_CHECKING:
    from settings.stack import Settings

_SEVERITIES: Final[dict[str, Severity]] = {"mandatory": "error", "advisory": "warning"}
_RELEASE = Row(
    "profile-of-another-release",
    "the profile was checked with these vLLM releases; another release has other defaults",
    "one of these versions, or another profile",
    "warning",
)
_QUEUE = Row("sequences-below-load", "a higher load only measures the queue", "a larger maxNumSeqs, or lower loads")
_OVERHEAD = Row(
    "gateway-overhead",
    "every streamed token passes through the endpoint picker, which cost the article this much throughput",
    "gateway: {enabled: false}, for uniform traffic",
    "note",
)
_CLIENT = Row(
    "client-saturates",
    "a client process uses one core, and a saturated one measures itself (the article's single client, on 8 nodes)",
    f"connectionsPerClient: {CONNECTIONS_PER_CLIENT}",
)


def repeated_on_purpose(settings: Settings) -> tuple[str, ...]:
    """Sorted ids of the stack's deliberate exceptions: lessons that its profile breaks to reproduce a published row."""
    return tuple(sorted({problem.id for problem in lessons(settings) if problem.severity == "deliberate"}))


def lessons(settings: Settings) -> tuple[Finding, ...]:
    """Every lesson that these settings break."""
    return (
        *engine_problems(settings, DeclaredServer(settings)),
        *_release_of_the_profile(settings),
        *_swept_load(settings),
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
        yield _RELEASE("server.engine.version", version, f"{', '.join(chosen.versions)} with profile {chosen.name}")


def _swept_load(settings: Settings) -> Iterator[Finding]:
    """The benchmark's loads, which the server does not declare."""
    swept = settings.benchmark.concurrency or () if settings.benchmark.enabled else ()
    server = DeclaredServer(settings)
    engines, each = server.answering_engines, server.sequences
    admitted = engines * each
    if swept and max(swept) > max(admitted, server.offered_concurrency):
        allowed = f"up to {admitted}: maxNumSeqs {each} on each of {engines} engine(s) of a replica"
        yield _QUEUE("benchmark.concurrency", list(swept), allowed)


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
    lost = ", ".join(f"{row['overhead_percent']} % at {row['replicas']} nodes" for row in rows)
    allowed = f"true if traffic shares prefixes or is uneven; for uniform traffic the article's picker cost {lost}"
    yield _OVERHEAD("gateway.enabled", True, allowed)


def _benchmark(settings: Settings) -> Iterator[Finding]:
    benchmark = settings.benchmark
    if benchmark.enabled and benchmark.connections_per_client > CONNECTIONS_PER_CLIENT:
        allowed = f"up to {CONNECTIONS_PER_CLIENT}"
        yield _CLIENT("benchmark.connectionsPerClient", benchmark.connections_per_client, allowed)
