"""What speaks against a canary: all that would speak against its server as the stack's own, and what it needs beside the others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from settings.derived.canary import release, weights_ending
from settings.problems import Problem
from settings.sections.capacity import Reservation
from settings.sections.rollout import CANARY_ENDING, canary_path
from settings.sections.section import key

if TYPE_CHECKING:
    from settings.stack import Settings

_LONGEST_NAME = 40
"""Of a server: settings/sections/section.py, ShortName."""


def rollout_problems(settings: Settings, of_servers: Iterable[Problem]) -> Iterator[Problem]:
    """Everything about the canary that `of_servers`, what there is about the servers, does not say yet."""
    canary = settings.as_canary
    if canary is None:
        if settings.rollout.promoted is not None:
            yield Problem(
                id="promoted-without-canary",
                path=key("rollout.promoted"),
                value=settings.rollout.promoted,
                allowed="left out without rollout.canary",
                why="it says that the servers were given what the canary runs, and there is no canary",
                write="remove vllm-fleet:rollout",
            )
        return
    from settings.checks.lessons import lessons
    from settings.checks.structure import server_problems

    known = set(map(_identity, of_servers))
    for problem in (*server_problems(canary), *lessons(canary)):
        if _identity(problem) not in known:
            yield with_canarys_keys(problem)
    yield from _beside_the_servers(settings, canary)


def with_canarys_keys(problem: Problem) -> Problem:
    """A problem of a server as one of the canary: with the keys that set it there."""
    texts = {
        name: getattr(problem, name)
        .replace("server.image", "rollout.canary.image")
        .replace("server.engine", "rollout.canary.engine")
        for name in ("allowed", "why", "write")
    }
    return replace(problem, path=canary_path(problem.path), **texts)


def _identity(problem: Problem) -> tuple[str, str, str, str]:
    return problem.id, problem.path, str(problem.value), problem.why


def _beside_the_servers(settings: Settings, canary: Settings) -> Iterator[Problem]:
    if len(canary.server.name) > _LONGEST_NAME:
        yield Problem(
            id="name-too-long-for-canary",
            path=key("server.name"),
            value=settings.server.name,
            allowed=f"{_LONGEST_NAME - len(CANARY_ENDING)} characters at most with rollout.canary",
            why=f"the canary is called {canary.server.name}, and names of {_LONGEST_NAME} characters are the longest",
            write="a canary in a stack whose server has a shorter name: a new name makes a new fleet",
        )
    if settings.server.replicas == 0:
        yield Problem(
            id="canary-beside-paused-servers",
            path=key("server.replicas"),
            value=0,
            allowed="1 or more with rollout.canary",
            why="a canary is measured against the servers that run what it shall replace, and none runs",
            write="replicas: 1, or change the paused servers themselves: nobody notices",
        )
    if settings.weights.source == "image" and weights_ending(settings):
        yield Problem(
            id="canary-of-another-image",
            path=key("rollout.canary.model"),
            value=canary.serving.model.revision,
            allowed="left out with weights.source: image",
            why="the volume is made of one disk image, and that one holds the servers' revision",
            write="weights: {source: hyperdisk}, whose writer downloads the canary's",
        )
    if (release(settings) == release(canary)) != (settings.rollout.promoted is not None):
        promoted = settings.rollout.promoted is not None
        yield Problem(
            id="canary-after-promotion" if promoted else "canary-without-difference",
            path=key("rollout.promoted" if promoted else "rollout.canary"),
            value=settings.rollout.promoted,
            allowed="servers that run what the canary runs" if promoted else "something that differs from the servers",
            why="somebody has changed the servers or the canary since"
            if promoted
            else "a canary that is like the servers shows how much two equal servers differ, and nothing else",
            write="fleet rollout abort, then start anew" if promoted else "an engine setting, an image, a revision",
            level="finding",
        )
    capacity = settings.capacity
    if isinstance(capacity, Reservation) and capacity.nodes is None:
        yield Problem(
            id="canary-needs-a-reserved-node",
            path=key("capacity.name"),
            value=capacity.name,
            allowed=f"a reservation of {settings.nodes} nodes or more: the servers' and the canary's",
            why="pods take nodes of the named reservation only; one that is full leaves the canary Pending. Nobody has written its size "
            "into capacity.nodes",
            write=f"nodes: {settings.nodes}, if it has so many",
            level="finding",
        )
