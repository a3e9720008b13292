"""Checks of a canary: those of the stack's servers, applied to its server, and those of the canary beside them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from facts.finding import Finding
from settings.checks.lessons import lessons
from settings.checks.structure import server_problems
from settings.derived.canary import has_own_weights, release
from settings.row import Row
from settings.sections.capacity import Reservation
from settings.sections.rollout import canary_path

if TYPE_CHECKING:
    from settings.stack import Settings

_NO_PICKER = Row(
    "canary-weight-without-gateway",
    "only a gateway with endpoint pickers splits requests; without them a canary is a trial for `fleet bench run --replica canary`",
    "no weight, or gateway: {enabled: true} with endpoint: {kind: inferenceGateway}",
)
_PAUSED = Row(
    "canary-beside-paused-servers",
    "a canary is compared with running servers, and none runs",
    "replicas: 1, or change the paused servers directly",
)
_IMAGE = Row(
    "canary-of-another-image",
    "the disk image contains the servers' revision only",
    "weights: {source: hyperdisk}, which downloads the canary's revision",
)
_SAME = Row(
    "canary-without-difference",
    "the servers have its release: it only costs a node and measures noise",
    "remove rollout, once the servers run that release",
    "warning",
)
_RESERVED = Row(
    "canary-needs-a-reserved-node",
    "pods use nodes of the named reservation only, and in a full one the canary stays Pending; capacity.nodes is not set",
    "nodes: NODES OF THE RESERVATION",
    "warning",
)


def rollout_problems(settings: Settings, of_servers: Iterable[Finding]) -> Iterator[Finding]:
    """Every problem of the canary that is not among `of_servers`, the servers' problems."""
    canary = settings.as_canary
    if canary is None:
        return
    known = set(map(_identity, of_servers))
    for problem in (*server_problems(canary), *lessons(canary)):
        if _identity(problem) not in known:
            yield with_canarys_keys(problem)
    yield from _beside_the_servers(settings, canary)


def with_canarys_keys(problem: Finding) -> Finding:
    """A server's problem with the canary's keys."""
    texts = {
        name: getattr(problem, name).replace("server.image", "rollout.image").replace("server.engine", "rollout.engine")
        for name in ("allowed", "why", "write")
    }
    return replace(problem, subject=canary_path(problem.subject), **texts)


def _identity(problem: Finding) -> tuple[str, str, str, str]:
    return problem.id, problem.subject, str(problem.found), problem.allowed


def _beside_the_servers(settings: Settings, canary: Settings) -> Iterator[Finding]:
    rollout, capacity = settings.rollout, settings.capacity
    weight = None if rollout is None else rollout.weight
    if weight is not None and not settings.has_picker:
        yield _NO_PICKER("rollout.weight", weight, "a weight with endpoint.kind inferenceGateway only")
    if settings.server.replicas == 0:
        yield _PAUSED("server.replicas", 0, "1 or more with rollout")
    if settings.weights.source == "image" and has_own_weights(settings):
        allowed = "left out with weights.source: image"
        yield _IMAGE("rollout.model", canary.serving.model.revision, allowed)
    if release(settings) == release(canary):
        yield _SAME("rollout", None, "a canary that differs from the servers")
    if isinstance(capacity, Reservation) and capacity.nodes is None:
        allowed = f"a reservation of {settings.nodes} nodes or more: the servers' and the canary's"
        yield _RESERVED("capacity.name", capacity.name, allowed)
