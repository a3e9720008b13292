"""The answers probe's pods: the program of each pod's command, against the loopback servers of the Service that it names.

The program's own loop is replaced by one on the simulated clock. Simulated servers ask for no key.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import sys
import threading
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from facts.names import PROBE_APP
from lab.cloud.world import World, is_ready
from lab.control_plane.api import ApiRefusedError, ApiUnreachableError, Manifest
from lab.stage.service import REFUSES, Services

if TYPE_CHECKING:
    from lab.results.clock import Clock
    from lab.stage.traffic.traffic import Traffic

LEAST_WALL_SECONDS: Final = 0.05
"""Minimum wall time between two questions. Measured: an answer takes a few milliseconds."""
LEAST_ANSWER_WALL_SECONDS: Final = 2.0
"""Minimum wall time that the program waits for an answer, so that a busy machine is not a server that gives none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line of a probe's log."""

    at_seconds: float
    container: str
    payload: Mapping[str, str]


class AnswersProbes:
    """Runs the program of every Ready probe pod of a namespace. A context manager."""

    def __init__(self, world: World, traffic: Traffic, namespace: str) -> None:
        self._world, self._namespace = world, namespace
        self._services, self._requests = Services(world, traffic), itertools.count()
        self._probes: dict[str, _Probe] = {}
        self.lines: list[Line] = []
        """Log lines of all probes, in order."""
        self.turns = 0
        """Questions asked so far: a right answer leaves no line."""
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="answers-probes", daemon=True)

    def __enter__(self) -> AnswersProbes:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        for probe in self._probes.values():
            del sys.modules[probe.program.__name__]

    def told(self, step: str, since: int = 0) -> list[Line]:
        """Log lines of a step, from index `since` on."""
        return [line for line in self.lines[since:] if line.payload["step"] == step]

    def _run(self) -> None:
        interval = 60.0
        while not self._over.wait(max(LEAST_WALL_SECONDS, self._world.clock.wall_seconds(interval))):
            for pod in self._world.pods.all():
                metadata = pod["metadata"]
                labels = metadata.get("labels") or {}
                if labels.get("app") == PROBE_APP and metadata["namespace"] == self._namespace and is_ready(pod):
                    with contextlib.suppress(ApiRefusedError, ApiUnreachableError):
                        interval = self._turn(pod)

    def _turn(self, pod: Manifest) -> float:
        """One question of the pod's program; returns the seconds until its next one."""
        uid = pod["metadata"]["uid"]
        if uid not in self._probes:
            self._probes[uid] = _Probe(pod, self._world.clock, self._write)
        probe = self._probes[uid]
        at = urlsplit(probe.url)
        urls = self._services.routed(at.hostname or "", at.port)
        probe.asks.url = urls[next(self._requests) % len(urls)] if urls else REFUSES
        probe.asks.turn()
        self.turns += 1
        seconds: float = probe.program.INTERVAL_SECONDS
        return seconds

    def _write(self, container: str, text: str) -> None:
        line = Line(at_seconds=self._world.clock.now_seconds(), container=container, payload=json.loads(text))
        step = line.payload["step"]
        if not self.lines or self.lines[-1].payload["step"] != step:
            text = f"answers {step}: {line.payload['message']}"
            self._world.timeline.note("pod", PROBE_APP, text, mood="good" if step in ("started", "changed") else "bad")
        self.lines.append(line)


class _Probe:
    """The program of one pod, ready to ask."""

    def __init__(self, pod: Manifest, clock: Clock, write: Callable[[str, str], None]) -> None:
        """`write` takes the container's name and a line of its log."""
        (container,) = pod["spec"]["containers"]
        command = container["command"]
        code, *arguments = command[command.index("-c") + 1 :]
        program: Any = types.ModuleType(f"answers probe {pod['metadata']['uid']}")
        self.program = sys.modules[program.__name__] = program
        exec(compile(code, PROBE_APP, "exec"), program.__dict__)  # noqa: S102 - the stack's own program
        program.ANSWER_SECONDS = max(LEAST_ANSWER_WALL_SECONDS, clock.wall_seconds(program.ANSWER_SECONDS))
        log = types.SimpleNamespace(write=lambda text: write(container["name"], text), flush=lambda: None)
        program.sys = types.SimpleNamespace(stdout=log)
        options = program.options_of(arguments)
        self.url: str = options.url
        self.asks = program.Probe(options.url, options.model, None, program.log)
