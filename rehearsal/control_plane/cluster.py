"""A control plane of one's own: etcd, API server, controllers, scheduler and kwok on loopback, gone without a trace at the end."""

from __future__ import annotations

import contextlib
import json
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import Final

from rehearsal.api import ApiRefusedError, ApiUnreachableError, ClusterApi, Kind, Manifest
from rehearsal.control_plane import programs
from rehearsal.control_plane.build import Binaries
from rehearsal.control_plane.credentials import issue
from rehearsal.control_plane.port import HeldPort
from rehearsal.control_plane.process import Process, last_lines
from rehearsal.control_plane.programs import Pace
from rehearsal.results import RehearsalError

START_SECONDS: Final = 60.0
"""Wall time the API server or a controller may take to start. Measured: 2 s on two idle cores; a busy machine needs more."""
LOOK_SECONDS: Final = 0.02
"""Pause between two looks at a server that starts, wall time."""
_ETCD: Final = "etcd"
_API_SERVER: Final = "kube-apiserver"
_CONTROLLER_MANAGER: Final = "kube-controller-manager"
_SCHEDULER: Final = "kube-scheduler"
_KWOK: Final = "kwok"
_SERVICE_ACCOUNT: Final = Kind("v1", "ServiceAccount")


class ControlPlane:
    """A real Kubernetes control plane with simulated nodes. A context manager: entering starts it, leaving ends all of it.

    Nothing is reachable from another machine; keys and data live in a temporary folder that only this user may enter. Its
    programs end on success, on an exception, on Ctrl-C and SIGTERM, and when this process is killed.
    """

    api: ClusterApi
    kubeconfig: Path
    start_seconds: float
    """Wall time from nothing to a control plane that takes pods."""

    def __init__(
        self,
        binaries: Binaries,
        *,
        stages: Sequence[Manifest],
        progress: Callable[[str], None] = lambda _: None,
        pace: Pace | None = None,
    ) -> None:
        """`stages`: kwok Stage objects that say how nodes and pods behave; with none, kwok is left out."""
        self._binaries, self._stages, self._progress = binaries, stages, progress
        self._pace = pace or Pace()
        self._processes: dict[str, Process] = {}
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> ControlPlane:
        began = time.monotonic()
        try:
            self._stack.enter_context(_terminated_as_exception())
            self._start()
        except BaseException:
            self._stack.close()
            raise
        self.start_seconds = time.monotonic() - began
        self._progress(f"control plane ready after {self.start_seconds:.1f} s")
        return self

    def __exit__(self, _type: object, error: BaseException | None, _traceback: object) -> None:
        try:
            # An API that went away looks like a fault of whoever asked it; the true reason is in the log of what died.
            if isinstance(error, ApiUnreachableError | ApiRefusedError):
                self.require_running()
        finally:
            self._stack.close()

    def require_running(self) -> None:
        """Raise RehearsalError, with the end of its log, when one of the programs has ended by itself."""
        for process in self._processes.values():
            process.require_running()

    def logs(self, name: str) -> str:
        """What a program has written so far: etcd, kube-apiserver, kube-controller-manager, kube-scheduler or kwok."""
        if name not in self._processes:
            raise ValueError(f"no program {name}; there are {', '.join(self._processes)}")
        return self._processes[name].log.read_text(encoding="utf-8", errors="replace")

    def restart_api_server(self, down_seconds: float = 0.0) -> None:
        """Kill the API server, leave it down so long on the wall, start it again on the same port and data; returns when ready."""
        self._processes[_API_SERVER].stop()
        time.sleep(down_seconds)
        self._run_api_server()
        self._wait_until_ready()

    # Starting

    def _start(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="vllm-fleet-rehearsal-"))
        self._stack.callback(shutil.rmtree, self._folder, ignore_errors=True)
        self._port = HeldPort()
        self._stack.callback(self._port.release)
        self._stack.callback(self._stop)
        self._run(_ETCD, programs.etcd(self._binaries.etcd))
        self._credentials = issue(self._folder, self._port.number)
        self._run_api_server()
        # While the server starts: everything that takes a while and does not need it.
        self.kubeconfig = self._credentials.kubeconfig
        scheduler_config = self._folder / "scheduler.json"
        scheduler_config.write_text(
            json.dumps(programs.scheduler_config(self.kubeconfig, self._pace)), encoding="utf-8"
        )
        kwok_config = self._folder / "kwok.yaml"
        kwok_config.write_text(programs.kwok_config(self._stages), encoding="utf-8")
        self.api = ClusterApi.from_kubeconfig(self.kubeconfig)
        self._stack.callback(self.api.close)
        self._wait_until_ready()
        self._run(
            _CONTROLLER_MANAGER,
            programs.controller_manager(self._binaries.controller_manager, self._credentials, self._pace),
        )
        self._run(_SCHEDULER, programs.scheduler(self._binaries.scheduler, scheduler_config))
        if self._stages:
            self._run(_KWOK, programs.kwok(self._binaries.kwok, self.kubeconfig, kwok_config))
        # No pod is admitted before its namespace has a service account, which the controllers make: they are at work.
        self._wait("controllers", lambda: self.api.get(_SERVICE_ACCOUNT, "default", "default") is not None)

    def _run_api_server(self) -> None:
        self._run(_API_SERVER, programs.api_server(self._binaries.api_server, self._credentials, self._port.number))

    def _run(self, name: str, command: Sequence[str | Path]) -> None:
        self._processes[name] = Process(
            name,
            command,
            folder=self._folder,
            log=self._folder / f"{name}.log",
            orphaned_folder=self._folder,
        )

    def _wait_until_ready(self) -> None:
        self._wait("API server", self.api.is_ready)

    def _wait(self, what: str, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + START_SECONDS
        while not condition():
            self.require_running()
            if time.monotonic() > deadline:
                log = self._folder / f"{_API_SERVER}.log"
                raise RehearsalError(
                    f"the {what} did not get ready within {START_SECONDS:.0f} s; the machine may be too busy. The API server's "
                    f"last words:\n{last_lines(log)}"
                )
            time.sleep(LOOK_SECONDS)

    def _stop(self) -> None:
        for process in self._processes.values():
            process.tell_to_stop()
        for process in self._processes.values():
            process.stop()


@contextlib.contextmanager
def _terminated_as_exception() -> Iterator[None]:
    """SIGTERM as SystemExit, so that it ends what was started; only where nobody else handles it."""
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGTERM) != signal.SIG_DFL:
        yield
        return

    def end(number: int, _frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
