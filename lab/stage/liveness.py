"""The kubelet's liveness probes of server pods that run a program: the one of the pod's ConfigMap, against the pod's loopback server.

A probe on /health is not played: no drill makes a whole server stop answering. Source of what follows the last failure: Kubernetes
docs, "Configure Liveness, Readiness and Startup Probes": the containers stop within the probe's grace period and start again.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import threading
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from lab.cloud.spot import KILLED, kill_containers
from lab.cloud.world import World, is_ready, restarts_of
from lab.control_plane.api import CONFIG_MAP, ApiRefusedError, ApiUnreachableError, Manifest

LEAST_WALL_SECONDS: Final = 0.02
"""Minimum wall time between two rounds of probes. Measured: a probe takes a millisecond or two."""
Targets = Callable[[], list[tuple[str, str, str]]]
"""Pod, node and URL of every server."""


@dataclass
class _Probed:
    """A container's probes so far."""

    restarts: int
    failures: int = 0
    ends_at: float | None = None


class LivenessProbes:
    """Probes every Ready pod at its period, and restarts those that fail too often. A context manager."""

    def __init__(self, world: World, targets: Targets) -> None:
        self._world, self._targets = world, targets
        self._probed: dict[str, _Probed] = {}
        self._programs: dict[str, types.ModuleType] = {}
        self._folder = Path(tempfile.mkdtemp(prefix="liveness-"))
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="liveness", daemon=True)

    def __enter__(self) -> LivenessProbes:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        for name in self._programs:
            del sys.modules[name]
        shutil.rmtree(self._folder, ignore_errors=True)

    def _run(self) -> None:
        period = 10.0
        while not self._over.wait(max(LEAST_WALL_SECONDS, self._world.clock.wall_seconds(period))):
            pods = [(pod, probe) for pod in self._world.pods.all() if is_ready(pod) and (probe := _program_of(pod))]
            if not pods:
                continue
            period = min(probe.get("periodSeconds", 10) for _, probe in pods)
            urls = {name: url for name, _, url in self._targets()}
            for pod, probe in pods:
                if url := urls.get(pod["metadata"]["name"]):
                    self._probe(pod, probe, url.partition("//")[2])

    def _probe(self, pod: Manifest, probe: Mapping[str, Any], host: str) -> None:
        uid, name, now = pod["metadata"]["uid"], pod["metadata"]["name"], self._world.clock.now_seconds()
        restarts = restarts_of(pod)
        known = self._probed.get(uid)
        if known is None or known.restarts != restarts:
            known = self._probed[uid] = _Probed(restarts)
        if known.ends_at is not None:
            if now >= known.ends_at:
                kill_containers(self._world, pod, exit_code=KILLED, reason="Error")
                known.ends_at = float("inf")
            return
        try:
            program, arguments = self._loaded(pod, probe["exec"]["command"])
        except (ApiRefusedError, ApiUnreachableError):
            return
        options = program.options_of(arguments)
        # Of this container: in a pod, the program itself tells two containers apart.
        state = self._folder / f"{uid}-{restarts}"
        why = program.probe(host, state, options.stalled_seconds, now)
        known.failures = known.failures + 1 if why else 0
        if known.failures >= probe.get("failureThreshold", 3):
            self._world.timeline.note("pod", name, f"Liveness probe failed: {why}", mood="bad")
            known.ends_at = now + probe.get(
                "terminationGracePeriodSeconds", pod["spec"]["terminationGracePeriodSeconds"]
            )

    def _loaded(self, pod: Manifest, command: list[str]) -> tuple[types.ModuleType, list[str]]:
        """The program that the command names, from the ConfigMap that is mounted there, and its arguments."""
        path = next(word for word in command if word.endswith(".py"))
        folder, _, file = path.rpartition("/")
        (mount,) = (one for one in pod["spec"]["containers"][0]["volumeMounts"] if one["mountPath"] == folder)
        (volume,) = (one["configMap"]["name"] for one in pod["spec"]["volumes"] if one["name"] == mount["name"])
        name = f"liveness of {volume}"
        if name not in self._programs:
            config_map = self._world.api.get(CONFIG_MAP, volume, pod["metadata"]["namespace"])
            assert config_map is not None
            module = sys.modules[name] = self._programs[name] = types.ModuleType(name)
            exec(compile(config_map["data"][file], file, "exec"), module.__dict__)  # noqa: S102 - the stack's own program
        return self._programs[name], command[command.index(path) + 1 :]


def _program_of(pod: Manifest) -> Mapping[str, Any] | None:
    """The liveness probe of the pod's first container, if it runs a program."""
    probe: Mapping[str, Any] = pod["spec"]["containers"][0].get("livenessProbe") or {}
    return probe if "exec" in probe else None
