"""States of every pod and node over time: waiting, starting, Ready, ending. The rows of a drill's timeline."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from lab.cloud.world import World, condition
from lab.control_plane.api import Manifest
from lab.control_plane.mirror import Change
from lab.results.timeline import Moment, Mood


@dataclass(frozen=True, slots=True)
class _State:
    """State of a pod or node."""

    text: str
    mood: Mood


WAITING = _State("waiting for a node", "waiting")
STARTING = _State("starting", "waiting")
READY = _State("Ready", "good")
UNREADY = _State("not Ready", "bad")
NOTICE = _State("terminating: its node shuts down", "bad")
ENDING = _State("ending", "plain")
DONE = _State("done", "good")
FAILED = _State("failed", "bad")


@dataclass(slots=True)
class _Life:
    """State changes of one pod or node."""

    lane: Literal["pod", "node"]
    subject: str
    steps: list[tuple[float, _State]]
    ended_seconds: float | None = None
    been_ready: bool = False

    def become(self, at_seconds: float, state: _State) -> None:
        if self.steps[-1][1] is not state:
            self.steps.append((at_seconds, state))


class Story:
    """Records states of pods and nodes. Construct it before the world is entered."""

    def __init__(self, world: World) -> None:
        self._clock = world.clock
        self._lives: dict[str, _Life] = {}
        """By UID: a node may be recreated with the same name."""
        self._lock = threading.Lock()
        world.pods.listen(self._pod)
        world.nodes.listen(self._node)

    def moments(self, since_seconds: float = 0.0) -> tuple[Moment, ...]:
        """All states since then, until now."""
        until = self._clock.now_seconds()
        with self._lock:
            found = [stretch for life in self._lives.values() for stretch in _stretches(life, since_seconds, until)]
        return tuple(sorted(found, key=lambda one: (one.at_seconds, one.lane, one.subject)))

    def _pod(self, change: Change, pod: Manifest, _: Manifest | None) -> None:
        self._take("pod", change, pod, _pod_state)

    def _node(self, change: Change, node: Manifest, _: Manifest | None) -> None:
        self._take("node", change, node, _node_state)

    def _take(self, lane: Literal["pod", "node"], change: Change, manifest: Manifest, read: _Reader) -> None:
        now, metadata = self._clock.now_seconds(), manifest["metadata"]
        with self._lock:
            life = self._lives.get(metadata["uid"])
            state = read(manifest, life is not None and life.been_ready)
            if life is None:
                life = self._lives[metadata["uid"]] = _Life(lane, metadata["name"], [(now, state)])
            life.been_ready = life.been_ready or state is READY
            if change == "deleted":
                life.ended_seconds = now
            else:
                life.become(now, state)


_Reader = Callable[[Manifest, bool], _State]
"""From an object and whether it has been Ready before."""


def _pod_state(pod: Manifest, been_ready: bool) -> _State:
    phase = pod.get("status", {}).get("phase")
    if phase == "Failed":
        return FAILED
    if phase == "Succeeded":
        return DONE
    if pod["metadata"].get("deletionTimestamp"):
        return ENDING
    if condition(pod, "DisruptionTarget") == "True":
        return NOTICE
    if condition(pod, "Ready") == "True":
        return READY
    if been_ready:
        return UNREADY
    return STARTING if pod["spec"].get("nodeName") else WAITING


def _node_state(node: Manifest, been_ready: bool) -> _State:
    if condition(node, "Ready") == "True":
        return READY
    return UNREADY if been_ready else STARTING


def _stretches(life: _Life, since: float, until: float) -> Iterator[Moment]:
    end_of_life = until if life.ended_seconds is None else min(until, life.ended_seconds)
    ends = [at for at, _ in life.steps[1:]] + [end_of_life]
    for (began, state), ended in zip(life.steps, ends, strict=True):
        first, last = max(began, since), min(ended, end_of_life)
        if last > first:
            yield Moment(
                lane=life.lane,
                subject=life.subject,
                text=state.text,
                at_seconds=first,
                until_seconds=last,
                mood=state.mood,
            )
