"""Client pods of a batch: the program of each pod's own manifest, against the loopback servers and a simulated bucket.

Time and names are replaced inside of the process (inside_pod.py beside this file), and the addresses of storage and metadata server by
options of the program. A deleted pod's program gets its stop signal and its grace period; its exit code becomes the pod's.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import formatdate
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from facts.names import BATCH_APP
from fleet.clients.scratch import scratch
from lab.cloud.agenda import Agenda
from lab.cloud.kubelet_stages import EXIT_CODE
from lab.cloud.routers import files, program
from lab.cloud.world import condition, has_ended
from lab.control_plane.api import POD, Manifest
from lab.control_plane.process import Process, last_lines
from lab.simulators.bucket import LocalBucket, Stored, is_state_of_a_batch
from lab.simulators.local_server import Answer, Request, served
from lab.stage import inside_pod
from lab.stage.service import REFUSES, Services
from workloads.server.pod_end import DEFAULT_GRACE_SECONDS

if TYPE_CHECKING:
    from lab.cloud.world import World
    from lab.control_plane.mirror import Change
    from lab.stage.traffic.traffic import Traffic

PYTHON: Final[str] = getattr(sys, "_base_executable", sys.executable)
"""Python without this environment's packages: among them is this repository, which would be run instead of the pod's files."""
MOST_SPEED: Final = 20.0
"""Of the clients' clock and their bucket's, so that a busy machine takes no lease from a client: they end 90 s after a renewal."""
POLL_WALL_SECONDS: Final = 0.05
LEAST_GRACE_WALL_SECONDS: Final = 5.0
"""Minimum wall time from a stop signal to the kill, so that a busy machine kills no program that ends in time."""
_MOODS: Final[Mapping[str, Any]] = {
    "stalled": "bad",
    "late": "bad",
    "limit": "bad",
    "waiting": "waiting",
    "done": "good",
}
_PLACE: Final = {"address": "127.0.0.1", "own": "127.0.0.1", "nameserver": ""}


@dataclass(frozen=True, slots=True)
class Write:
    """One object that was written."""

    at_seconds: float
    name: str
    content: bytes


class BatchClock:
    """The time of day of clients and bucket, faster than the wall's, and slower than a quick stage's."""

    def __init__(self, stage_speed: float) -> None:
        self.speed = min(stage_speed, MOST_SPEED)
        self.began, self.monotonic = time.time(), time.monotonic()

    def time(self) -> float:
        """Epoch seconds."""
        return self.began + (time.monotonic() - self.monotonic) * self.speed


class BatchBucket(LocalBucket):
    """The stack's bucket with simulated time, and its history."""

    def __init__(self, name: str, clock: BatchClock, stage_seconds: Callable[[], float]) -> None:
        super().__init__(name, overwritable=is_state_of_a_batch)
        self._clock, self._stage_seconds = clock, stage_seconds
        self.history: list[Write] = []

    def put(self, name: str, content: bytes) -> Stored:
        """As LocalBucket."""
        with self.lock:
            at = datetime.fromtimestamp(self._clock.time(), UTC)
            stored = Stored(content, super().put(name, content).generation, at.strftime("%Y-%m-%dT%H:%M:%S.%fZ"))
            self.objects[name] = stored
            self.history.append(Write(self._stage_seconds(), name, content))
        return stored

    def answer(self, request: Request) -> Answer:
        """As LocalBucket."""
        said = super().answer(request)
        return Answer(said.status, said.content, {**said.headers, "Date": formatdate(self._clock.time(), usegmt=True)})


@dataclass(eq=False)
class _Running:
    """One pod's program."""

    pod: Manifest
    process: Process
    read: int = 0
    """Characters of its log that were read."""
    told: bool = False
    """Whether it has its stop signal."""

    @property
    def name(self) -> str:
        """Name of the pod."""
        name: str = self.pod["metadata"]["name"]
        return name


class BatchPods:
    """Runs the program of every running client pod. A context manager, entered while the world is."""

    def __init__(self, world: World, traffic: Traffic, bucket: str) -> None:
        """`bucket`: its name."""
        self._world, self._services = world, Services(world, traffic)
        self.clock = BatchClock(world.clock.speed)
        self.bucket = BatchBucket(bucket, self.clock, world.clock.now_seconds)
        self.lines: list[dict[str, Any]] = []
        """Log lines of all pods."""
        self.exits: list[tuple[str, int]] = []
        """Pods and exit codes of their programs, in order."""
        self.troubles: list[str] = []
        """Ends of the logs of programs that failed."""
        self._running: dict[str, _Running] = {}
        self._seen: set[str] = set()
        """UIDs of pods whose program was started or is no longer to be."""
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._agenda = Agenda(world.clock, "batch-pods", workers=4)
        self._stack = contextlib.ExitStack()
        self._thread = threading.Thread(target=self._watch, name="batch-pods", daemon=True)

    def __enter__(self) -> BatchPods:
        self._folder = self._stack.enter_context(scratch("rehearsal"))
        (self._folder / "clock").mkdir()
        shutil.copy(inside_pod.__file__, self._folder / "clock" / "sitecustomize.py")
        self._stack.enter_context(self.bucket)
        self._names = f"127.0.0.1:{self._stack.enter_context(served(self._resolve))}"
        self._thread.start()
        self._world.pods.listen(self._on_pod)
        for pod in self._world.pods.all():
            self._on_pod("added", pod, None)
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        self._agenda.close()
        for one in self._running.values():
            one.process.stop()
        self._stack.close()

    def _resolve(self, request: Request) -> Answer:
        """Addresses of `/HOST:PORT`: of all servers behind a headless Service, of a random one behind another."""
        host, _, port = request.path.removeprefix("/").rpartition(":")
        found = self._services.routed(host, int(port))
        if not self._services.is_headless(host):
            found = [random.choice(found or [REFUSES])]  # noqa: S311 - a load, not a secret
        return Answer.of_json(200, [(at.hostname, at.port) for at in map(urlsplit, found)])

    # Pods

    def _on_pod(self, change: Change, pod: Manifest, _: Manifest | None) -> None:
        metadata = pod["metadata"]
        if (metadata.get("labels") or {}).get("app") != BATCH_APP or self._over.is_set():
            return
        gone = change == "deleted" or has_ended(pod)
        if gone or metadata.get("deletionTimestamp") or condition(pod, "DisruptionTarget") == "True":
            self._agenda.soon(self._end, pod, gone)
        elif pod["status"].get("phase") == "Running":
            self._agenda.soon(self._start, pod)

    def _start(self, pod: Manifest) -> None:
        (container,) = pod["spec"]["containers"]
        uid: str = pod["metadata"]["uid"]
        with self._lock:
            if uid in self._seen:
                return
        folder = self._folder / uid
        folders = files.mounted(self._world.api, pod, container, folder)
        given = {one["name"]: _value(one, pod) for one in container.get("env") or ()}
        words = {**container, "env": [{"name": name, "value": value} for name, value in given.items()]}
        command = program.command_of(words, program.Place(**_PLACE, speed=self.clock.speed), folders)
        command = [PYTHON if word == sys.executable else word for word in command]
        command += [f"--storage-url={self.bucket.url}", f"--metadata-url={self.bucket.url}"]
        paths = [self._folder / "clock", *(folders.get(path, path) for path in given.pop("PYTHONPATH", "").split(":"))]
        environment = {
            **given,
            "HOME": str(folder),
            "PATH": f"{Path(PYTHON).parent}:{os.environ.get('PATH', '')}",
            "PYTHONPATH": ":".join(map(str, paths)),
            "REHEARSAL_SPEED": str(self.clock.speed),
            "REHEARSAL_MONOTONIC": str(self.clock.monotonic),
            "REHEARSAL_EPOCH": str(self.clock.began),
            "REHEARSAL_NAMES": self._names,
        }
        folder.mkdir(exist_ok=True)
        name = pod["metadata"]["name"]
        with self._lock:
            if self._over.is_set() or uid in self._seen:
                return
            self._seen.add(uid)
            process = Process(name, command, folder=folder, log=folder / "log", environment=environment)
            self._running[uid] = _Running(pod, process)

    def _is_gone(self, pod: Manifest) -> bool:
        current = self._world.pods.get(pod["metadata"]["name"], pod["metadata"]["namespace"])
        return current is None or current["metadata"]["uid"] != pod["metadata"]["uid"]

    def _end(self, pod: Manifest, gone: bool) -> None:
        """Stop signal and grace period, or at once where the pod has ended without its program."""
        with self._lock:
            self._seen.add(pod["metadata"]["uid"])
            running = self._running.get(pod["metadata"]["uid"])
        if running is None:
            self._exited(pod, 143)
        elif gone:
            running.process.send(signal.SIGKILL)
        elif not running.told:
            running.told = True
            running.process.send(signal.SIGTERM)
            given = pod["metadata"].get("deletionGracePeriodSeconds")
            grace = DEFAULT_GRACE_SECONDS if given is None else given
            least = LEAST_GRACE_WALL_SECONDS * self._world.clock.speed if grace else 0.0
            self._agenda.after(max(grace, least), running.process.send, signal.SIGKILL)

    def _exited(self, pod: Manifest, code: int) -> None:
        """Tell the simulated kubelet how the program ended."""
        metadata = pod["metadata"]
        body = {"metadata": {"annotations": {EXIT_CODE: str(code)}}}
        if not self._is_gone(pod):
            self._world.api.patch(POD, metadata["name"], metadata["namespace"], body)

    def _watch(self) -> None:
        while not self._over.wait(POLL_WALL_SECONDS):
            with self._lock:
                running = list(self._running.items())
            for uid, one in running:
                code = one.process.exit_code
                self._read(one)
                if code is None:
                    continue
                self.exits.append((one.name, code))
                if code and not one.told:
                    self.troubles.append(last_lines(one.process.log, 6))
                self._world.timeline.note("pod", one.name, f"its program ends with {code}", mood="plain")
                self._agenda.soon(self._exited, one.pod, code)
                with self._lock:
                    del self._running[uid]
                one.process.stop()

    def _read(self, one: _Running) -> None:
        text = one.process.log.read_text(encoding="utf-8", errors="replace")
        whole, newline, _ = text[one.read :].rpartition("\n")
        one.read += len(whole) + len(newline)
        for line in whole.splitlines():
            with contextlib.suppress(ValueError):
                said = json.loads(line)
                self.lines.append(said)
                if said["step"] != "progress":
                    text = f"batch {said['step']}: {said['message']}"
                    self._world.timeline.note("pod", one.name, text, mood=_MOODS.get(said["step"], "plain"))


def _value(variable: Mapping[str, Any], pod: Manifest) -> str:
    """A variable's value; of a field of the pod, too."""
    if "value" in variable:
        return str(variable["value"])
    path = variable["valueFrom"]["fieldRef"]["fieldPath"]
    where, bracket, key = path.partition("['")
    found: Any = pod
    for part in where.split("."):
        found = found[part]
    return str(found[key.removesuffix("']")] if bracket else found)
