"""A local control plane: etcd, API server, controllers, scheduler and kwok on loopback."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, Self

from fleet.clients.scratch import scratch
from lab.control_plane import programs
from lab.control_plane.api import ApiRefusedError, ApiUnreachableError, ClusterApi, Kind, Manifest
from lab.control_plane.build import Binaries
from lab.control_plane.cluster_side import CONFIG, ClusterSide, egress_config
from lab.control_plane.credentials import Credentials, issue
from lab.control_plane.port import HeldPort
from lab.control_plane.process import Process, last_lines
from lab.results.result import RehearsalError

Progress = Callable[[str], None]

START_SECONDS: Final = 60.0
"""Timeout for API server and controllers, wall time. Measured: 2 s on two idle cores."""
LOOK_SECONDS: Final = 0.02
"""Wall time between two checks of a starting server."""
_ETCD: Final = "etcd"
_API_SERVER: Final = "kube-apiserver"
_CONTROLLER_MANAGER: Final = "kube-controller-manager"
_SCHEDULER: Final = "kube-scheduler"
_SERVICE_ACCOUNT: Final = Kind("v1", "ServiceAccount")


class ControlPlane:
    """A real Kubernetes control plane with simulated nodes. A context manager.

    It is not reachable from other machines; keys and data are in a temporary folder of this user. The programs end with the block, on
    Ctrl-C, SIGTERM and SIGHUP, and when this process is killed.
    """

    api: ClusterApi
    kubeconfig: Path
    """For kubectl."""
    credentials: Credentials
    cluster_side: ClusterSide
    """What the API server calls in the cluster."""

    def __init__(self, binaries: Binaries, *, progress: Progress = lambda _: None) -> None:
        self._binaries, self._progress = binaries, progress
        self._processes: dict[str, Process] = {}
        self._stack = contextlib.ExitStack()
        self.folder: Path
        """Private, and removed at the end, also if this process is killed."""

    def __enter__(self) -> Self:
        try:
            self.folder = self._stack.enter_context(scratch("rehearsal"))
            self._stack.callback(self._stop_programs)
            self._start()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, _type: object, error: BaseException | None, _traceback: object) -> None:
        try:
            # If a program has died, report its log instead of the failed request.
            if isinstance(error, ApiUnreachableError | ApiRefusedError):
                self.require_running()
        finally:
            self._stack.close()

    def require_running(self) -> None:
        """Raise RehearsalError, with the end of its log, if a program has died."""
        for process in tuple(self._processes.values()):  # `play` may add one meanwhile.
            process.require_running()

    def restart_api_server(self, down_seconds: float = 0.0) -> None:
        """Kill the API server, wait that much wall time, restart it on the same port and data, and wait until it is ready."""
        self._processes[_API_SERVER].stop()
        time.sleep(down_seconds)
        self._run_api_server()
        self._wait("API server", self.api.is_ready)

    def _start(self) -> None:
        self._progress("starting a Kubernetes control plane on loopback")
        self._port = HeldPort()
        self._stack.callback(self._port.release)
        self._run(_ETCD, programs.etcd(self._binaries.etcd))
        self.credentials = issue(self.folder, self._port.number)
        self.address = f"127.0.0.1:{self._port.number}"
        (self.folder / CONFIG).write_text(json.dumps(egress_config()), encoding="utf-8")
        self.cluster_side = self._stack.enter_context(ClusterSide(self.folder, self.credentials.signer))
        self._run_api_server()
        # While the server starts: slow steps that do not need it.
        self.kubeconfig = self.credentials.kubeconfig
        scheduler_config = self.folder / "scheduler.json"
        scheduler_config.write_text(json.dumps(programs.scheduler_config(self.kubeconfig)), encoding="utf-8")
        self.api = ClusterApi.from_kubeconfig(self.kubeconfig)
        self._stack.callback(self.api.close)
        self._wait("API server", self.api.is_ready)
        # Not earlier: a controller sleeps for a second if the server is not ready.
        self._run(
            _CONTROLLER_MANAGER,
            programs.controller_manager(self._binaries.controller_manager, self.credentials),
        )
        self._run(_SCHEDULER, programs.scheduler(self._binaries.scheduler, scheduler_config))
        # The controllers run once they have created a service account, which pods require.
        self._wait("controllers", lambda: self.api.get(_SERVICE_ACCOUNT, "default", "default") is not None)

    def play(self, name: str, stages: Sequence[Manifest], *, nodes: bool = False) -> None:
        """Start a kwok that plays these Stages, and with `nodes` is the kubelet of simulated nodes.

        Every kind must be served, in discovery and OpenAPI: kwok ends otherwise.
        """
        config = self.folder / f"{name}.yaml"
        config.write_text(programs.kwok_config(stages, nodes=nodes), encoding="utf-8")
        self._run(name, programs.kwok(self._binaries.kwok, self.kubeconfig, config))

    def _run_api_server(self) -> None:
        command = programs.api_server(self._binaries.api_server, self.credentials, self._port.number)
        self._run(_API_SERVER, command, {**os.environ, **programs.api_server_environment(self.credentials)})

    def _run(self, name: str, command: Sequence[str | Path], environment: Mapping[str, str] | None = None) -> None:
        self._processes[name] = Process(
            name,
            command,
            folder=self.folder,
            log=self.folder / f"{name}.log",
            orphaned_folder=self.folder,
            environment=environment,
        )

    def _stop_programs(self) -> None:
        for process in self._processes.values():
            process.tell_to_stop()
        for process in self._processes.values():
            process.stop()

    def _wait(self, what: str, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + START_SECONDS
        while not condition():
            self.require_running()
            if time.monotonic() > deadline:
                log = self.folder / f"{_API_SERVER}.log"
                raise RehearsalError(
                    f"the {what} did not become ready within {START_SECONDS:.0f} s; the machine may be too busy. End of the API "
                    f"server's log:\n{last_lines(log)}"
                )
            time.sleep(LOOK_SECONDS)
