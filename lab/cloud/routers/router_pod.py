"""One pod whose programs run here: its containers, from their start to the pod's end, as the kubelet runs them.

A router's pod, or a server's with prefill apart from decode: rank_servers.py, simulated servers instead of vLLM's, and vllm-router.
"""

from __future__ import annotations

import json
import os
import re
import signal
import threading
import time
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from lab.cloud.routers import files, program
from lab.control_plane.process import Process, last_lines
from lab.results.result import RehearsalError
from lab.simulators.model_server.vllm_command import SPEED
from workloads.router.haproxy import BACKEND

if TYPE_CHECKING:
    from lab.cloud.routers.program import Place
    from lab.control_plane.api import ClusterApi, Manifest

POLL_WALL_SECONDS: Final = 0.03
_PROBE_WALL_SECONDS: Final = 2.0
POD_ROUTER: Final = "vllm-router"
"""Program of the router in a server's pod; a router's own pod has it in a sidecar."""


@dataclass(frozen=True, slots=True)
class _Main:
    """A container's program."""

    process: Process
    stop: signal.Signals
    pause_seconds: float
    """Before its stop signal, simulated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RouterEnding:
    """How a pod ended."""

    pod: str
    killed: bool
    """Whether its grace period ended before its programs did."""
    took_seconds: float
    """From the pod's deletion to the last program's end, simulated."""


class RouterPod:
    """The programs of one pod. `start` and `end` take their time: call them from a thread."""

    def __init__(
        self,
        pod: Manifest,
        *,
        api: ClusterApi,
        place: Place,
        folder: Path,
        account: Callable[[Manifest], str],
        on_death: Callable[[RouterPod, int, str], None],
        vllm: str = "",
    ) -> None:
        """`account`: a kubeconfig for the pod's service account. `on_death`: told when a program ended by itself: its exit code and the
        end of its log. `vllm`: a folder with what runs as `vllm`.
        """
        self.pod, self.place = pod, place
        self._api, self._folder, self._account, self._on_death = api, folder, account, on_death
        self._vllm = vllm
        self._sidecars: list[Process] = []
        self._main: list[_Main] = []
        self._ending = threading.Event()
        self._lock = threading.Lock()

    @property
    def name(self) -> str:
        """Name of the pod."""
        name: str = self.pod["metadata"]["name"]
        return name

    @property
    def url(self) -> str:
        """Where it serves clients."""
        return f"http://{self.place.address}:{self._port('http')}"

    @property
    def metrics_url(self) -> str:
        """Where its metrics are read."""
        return f"http://{self.place.address}:{self._port('metrics')}/metrics"

    @property
    def status_url(self) -> str:
        """Where a server's pod answers for all of its engines."""
        return f"http://{self.place.address}:{self._port('status')}"

    @property
    def logs(self) -> str:
        """What its programs wrote."""
        return "".join(path.read_text(errors="replace") for path in sorted(self._folder.glob("*.log")))

    def servers(self) -> int:
        """Servers to which it sends requests now, by HAProxy's metrics or vllm-router's answer; 0 while it does not answer."""
        if self.inner_url is None:
            return self._of_backend("active_servers")
        try:
            with urllib.request.urlopen(f"{self.inner_url}/readiness", timeout=_PROBE_WALL_SECONDS) as answer:  # noqa: S310 - loopback
                return int(json.load(answer)["healthy_workers"])
        except OSError:
            return 0

    @property
    def inner_url(self) -> str | None:
        """Where vllm-router listens, inside the pod; None without one."""
        for container in self.pod["spec"].get("initContainers") or ():
            for word in container.get("command") or ():
                if word.startswith("--port="):
                    return f"http://{self.place.own}:{word.removeprefix('--port=')}"
        return None

    def queued(self) -> int:
        """Requests that wait in it, by its metrics."""
        return self._of_backend("current_queue")

    def _of_backend(self, metric: str) -> int:
        try:
            with urllib.request.urlopen(self.metrics_url, timeout=_PROBE_WALL_SECONDS) as answer:  # noqa: S310 - loopback
                text = answer.read().decode()
        except OSError:
            return 0
        found = re.search(rf'^haproxy_backend_{metric}{{proxy="{BACKEND}"}} (\S+)$', text, re.MULTILINE)
        return int(float(found[1])) if found else 0

    def start(self) -> None:
        """Start sidecars, then containers, and watch them. Raises RehearsalError for what is missing on this machine."""
        with self._lock:
            if self._ending.is_set():
                return
            self._folder.mkdir(parents=True, exist_ok=True)
            spec = self.pod["spec"]
            for container in spec.get("initContainers") or ():
                # A server's keeps what is compiled, and nothing is here.
                if container.get("restartPolicy") == "Always" and not has_pod_router(self.pod):
                    self._sidecars.append(self._run(container))
            for container in spec["containers"]:
                stop = signal.SIGUSR1 if program.is_haproxy(container) else signal.SIGTERM
                self._main.append(_Main(self._run(container), stop, _pre_stop_seconds(container)))
            running = [*self._sidecars, *(one.process for one in self._main)]
        threading.Thread(target=self._watch, args=(running,), name=f"{self.name}-watch", daemon=True).start()

    def wait_until_ready(self) -> bool:
        """Ask its readiness probes until all succeed; False if the pod ends or dies before."""
        urls = self._probe_urls()
        while not self._ending.is_set() and all(one.process.exit_code is None for one in self._main):
            try:
                for url in urls:
                    urllib.request.urlopen(url, timeout=_PROBE_WALL_SECONDS).close()  # noqa: S310 - loopback
            except OSError:
                self._ending.wait(POLL_WALL_SECONDS)
            else:
                return True
        return False

    def end(self, grace_seconds: float) -> RouterEnding:
        """Pause, stop signal, and the end of the grace period, all in simulated seconds."""
        began = time.monotonic()
        deadline = began + grace_seconds / self.place.speed
        with self._lock:
            self._ending.set()
        for one in sorted(self._main, key=lambda one: one.pause_seconds):
            due = min(began + one.pause_seconds / self.place.speed, deadline)
            time.sleep(max(0.0, due - time.monotonic()))
            one.process.send(one.stop)
        in_time = all(_ended(one.process, deadline) for one in self._main)
        for process in self._sidecars:
            process.send(signal.SIGTERM)
        in_time = in_time and all(_ended(process, deadline) for process in self._sidecars)
        self.kill()
        took = (time.monotonic() - began) * self.place.speed
        return RouterEnding(pod=self.name, killed=not in_time, took_seconds=took)

    def kill(self) -> None:
        """End everything at once."""
        self._ending.set()
        with self._lock:
            running = [*self._sidecars, *(one.process for one in self._main)]
            self._sidecars, self._main = [], []
        for process in running:
            process.tell_to_stop()
        for process in running:
            process.stop()

    def crash(self) -> None:
        """Have its containers killed, as for want of memory."""
        for one in self._main:
            one.process.send(signal.SIGKILL)

    def kill_program(self, word: str) -> None:
        """Kill the one program that a container's own has started with this word in its command line, as a dead GPU does. Raises
        RehearsalError without one.
        """
        found = [
            number
            for one in self._main
            if one.process.program is not None
            for number in _with_descendants(one.process.program)[1:]
            if word in _command_line(number).split("\0")
        ]
        if len(found) != 1:
            raise RehearsalError(f"{len(found)} programs of pod {self.name} have {word} in their command lines")
        os.kill(found[0], signal.SIGKILL)

    # Containers

    def _run(self, container: Mapping[str, Any]) -> Process:
        folder = self._folder / container["name"]
        folders = files.mounted(self._api, self.pod, container, folder)
        command = program.command_of(container, self.place, folders)
        if program.is_haproxy(container):
            for file in (path for mount in folders.values() for path in mount.glob("*.cfg")):
                text = file.read_text(encoding="utf-8")
                file.write_text(program.haproxy_config(text, self.place, folders), encoding="utf-8")
        for file in (path for mount in folders.values() for path in mount.glob("*.py")):
            text = file.read_text(encoding="utf-8")
            file.write_text(program.python_program(text, self.place), encoding="utf-8")
        environment = {name: value for name, value in os.environ.items() if name in ("PATH", "TMPDIR", "LANG")}
        environment |= program.environment_of(container) | {"HOME": str(folder)}
        if self._vllm:
            environment |= {
                "PATH": f"{self._vllm}{os.pathsep}{environment.get('PATH', '')}",
                SPEED: str(self.place.speed),
            }
        if files.has_token(self.pod, container):
            file = folder / ".kube" / "config"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.touch(mode=0o600)
            file.write_text(self._account(self.pod), encoding="utf-8")
            environment["KUBECONFIG"] = str(file)
        log = self._folder / f"{container['name']}.log"
        return Process(f"{self.name}/{container['name']}", command, folder=folder, log=log, environment=environment)

    def _watch(self, running: list[Process]) -> None:
        while not self._ending.wait(POLL_WALL_SECONDS):
            for process in running:
                if process.exit_code is not None and not self._ending.is_set():
                    self._on_death(self, process.exit_code, last_lines(process.log, 6))
                    return

    def _probe_urls(self) -> list[str]:
        asked = [(one.get("readinessProbe") or {}).get("httpGet") for one in self.pod["spec"]["containers"]]
        if not any(asked):
            raise RehearsalError(f"pod {self.name}: no container has a readiness probe by HTTP")
        return [f"http://{self.place.address}:{self._port(one['port'])}{one['path']}" for one in asked if one]

    def _port(self, wanted: str | int) -> int:
        for container in self.pod["spec"]["containers"]:
            for port in container.get("ports") or ():
                if wanted in (port.get("name"), port["containerPort"]):
                    return int(port["containerPort"])
        raise RehearsalError(f"pod {self.name}: no container has a port {wanted}")


def has_pod_router(pod: Manifest) -> bool:
    """Whether a server's pod has prefill apart from decode, with a router between them."""
    return any((one.get("command") or [""])[0] == POD_ROUTER for one in pod["spec"]["containers"])


def _pre_stop_seconds(container: Mapping[str, Any]) -> float:
    return float((((container.get("lifecycle") or {}).get("preStop") or {}).get("sleep") or {}).get("seconds", 0))


def _with_descendants(number: int) -> list[int]:
    try:
        text = Path(f"/proc/{number}/task/{number}/children").read_text(encoding="ascii")
    except OSError:
        return []
    return [number, *(below for child in text.split() for below in _with_descendants(int(child)))]


def _command_line(number: int) -> str:
    try:
        return Path(f"/proc/{number}/cmdline").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _ended(process: Process, deadline: float) -> bool:
    return process.wait(max(0.0, deadline - time.monotonic())) is not None
