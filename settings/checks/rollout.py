"""Checks of a canary: those of the stack's servers, applied to its server, and those of the canary beside them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from facts.finding import Finding
from facts.names import CANARY_ENDING, MAX_POOL_NAME, MAX_SERVER_NAME
from settings.checks.lessons import lessons
from settings.checks.structure import server_problems
from settings.derived.canary import release, weights_ending
from settings.sections.capacity import Reservation
from settings.sections.rollout import canary_path
from settings.sections.section import key

if TYPE_CHECKING:
    from settings.stack import Settings


def rollout_problems(settings: Settings, of_servers: Iterable[Finding]) -> Iterator[Finding]:
    """Every problem of the canary that is not among `of_servers`, the servers' problems."""
    canary = settings.as_canary
    if canary is None:
        if settings.rollout.promoted is not None:
            yield Finding(
                id="promoted-without-canary",
                subject=key("rollout.promoted"),
                found=settings.rollout.promoted,
                allowed="left out without rollout.canary",
                why="it marks the canary's release as given to the servers, but there is no canary",
                write="remove vllm-fleet:rollout",
            )
        return
    known = set(map(_identity, of_servers))
    for problem in (*server_problems(canary), *lessons(canary)):
        if _identity(problem) not in known:
            yield with_canarys_keys(problem)
    yield from _beside_the_servers(settings, canary)


def with_canarys_keys(problem: Finding) -> Finding:
    """A server's problem with the canary's keys."""
    texts = {
        name: getattr(problem, name)
        .replace("server.image", "rollout.canary.image")
        .replace("server.engine", "rollout.canary.engine")
        for name in ("allowed", "why", "write")
    }
    return replace(problem, subject=canary_path(problem.subject), **texts)


def _identity(problem: Finding) -> tuple[str, str, str, str]:
    return problem.id, problem.subject, str(problem.found), problem.why


def _beside_the_servers(settings: Settings, canary: Settings) -> Iterator[Finding]:
    if len(canary.server.name) > MAX_SERVER_NAME:
        yield Finding(
            id="name-too-long-for-canary",
            subject=key("server.name"),
            found=settings.server.name,
            allowed=f"up to {MAX_SERVER_NAME - len(CANARY_ENDING)} characters with rollout.canary",
            why=f"the canary is called {canary.server.name}, and a name has up to {MAX_SERVER_NAME} characters",
            write="a canary in a stack whose server has a shorter name: renaming a server replaces the fleet",
        )
    if settings.rollout.canary is not None and settings.rollout.canary.weight is not None:
        yield from _among_users(settings, settings.rollout.canary.weight)
    if settings.server.replicas == 0:
        yield Finding(
            id="canary-beside-paused-servers",
            subject=key("server.replicas"),
            found=0,
            allowed="1 or more with rollout.canary",
            why="a canary is compared with running servers, and none runs",
            write="replicas: 1, or change the paused servers directly",
        )
    if settings.weights.source == "image" and weights_ending(settings):
        yield Finding(
            id="canary-of-another-image",
            subject=key("rollout.canary.model"),
            found=canary.serving.model.revision,
            allowed="left out with weights.source: image",
            why="the disk image contains the servers' revision only",
            write="weights: {source: hyperdisk}, which downloads the canary's revision",
        )
    if (release(settings) == release(canary)) != (settings.rollout.promoted is not None):
        promoted = settings.rollout.promoted is not None
        yield Finding(
            id="canary-after-promotion" if promoted else "canary-without-difference",
            subject=key("rollout.promoted" if promoted else "rollout.canary"),
            found=settings.rollout.promoted,
            allowed="servers with the canary's release" if promoted else "a canary that differs from the servers",
            why="the servers or the canary changed after the promotion"
            if promoted
            else "a canary identical to the servers only measures noise",
            write="fleet rollout abort, then a new rollout"
            if promoted
            else "another engine setting, image or revision",
            severity="warning",
        )
    capacity = settings.capacity
    if isinstance(capacity, Reservation) and capacity.nodes is None:
        yield Finding(
            id="canary-needs-a-reserved-node",
            subject=key("capacity.name"),
            found=capacity.name,
            allowed=f"a reservation of {settings.nodes} nodes or more: the servers' and the canary's",
            why="pods use nodes of the named reservation only, and in a full one the canary stays Pending; capacity.nodes is not set",
            write=f"nodes: {settings.nodes}, if it has that many",
            severity="warning",
        )


def _among_users(settings: Settings, weight: int) -> Iterator[Finding]:
    """What splitting the users' requests needs: a gateway, and a second pool with a name of its own."""
    pool, room = settings.gateway.pool_name, MAX_POOL_NAME - len(CANARY_ENDING)
    if not settings.has_picker:
        yield Finding(
            id="canary-weight-without-gateway",
            subject=key("rollout.canary.weight"),
            found=weight,
            allowed="a weight with endpoint.kind inferenceGateway only",
            why="only a gateway with endpoint pickers splits requests; without them a canary is an offline trial, which "
            "`fleet rollout judge` measures",
            write="no weight, or "
            + ("endpoint: {kind: inferenceGateway}" if settings.gateway.enabled else "gateway: {enabled: true}"),
        )
    elif len(pool) > room:
        yield Finding(
            id="pool-name-too-long-for-canary",
            subject=key("gateway.pool"),
            found=settings.gateway.pool,
            allowed=f"up to {room - len(pool) + len(settings.gateway.pool)} characters with rollout.canary.weight",
            why=f"the canary's pool is called {pool}{CANARY_ENDING}, and names of pickers are cut at {MAX_POOL_NAME} characters",
            write="an offline trial, without weight: renaming a pool replaces the route's backend",
        )
