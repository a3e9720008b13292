"""What a control plane of one's own and a borrowed cluster have in common: programs that run in a temporary folder, and their end."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Self

from live.stopping import stopped_by_exception
from rehearsal.api import ApiRefusedError, ApiUnreachableError, ClusterApi
from rehearsal.control_plane.process import Process

Progress = Callable[[str], None]


class RunningCluster(ABC):
    """A cluster that a rehearsal may use. A context manager: entering starts what is needed, leaving ends all of it.

    The programs it started end on success, on an exception, on Ctrl-C, SIGTERM and SIGHUP, and when this process is killed.
    """

    api: ClusterApi
    kubeconfig: Path
    """For kubectl and the like, as long as this runs."""
    start_seconds: float
    """Wall time that entering took."""
    can_restart_api_server: bool

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._processes: dict[str, Process] = {}
        self._stack = contextlib.ExitStack()
        self._folder: Path

    def __enter__(self) -> Self:
        began = time.monotonic()
        try:
            self._stack.enter_context(stopped_by_exception())
            self._folder = Path(tempfile.mkdtemp(prefix="vllm-fleet-rehearsal-"))
            self._stack.callback(shutil.rmtree, self._folder, ignore_errors=True)
            self._stack.callback(self._stop_programs)
            self._start()
        except BaseException:
            self._stack.close()
            raise
        self.start_seconds = time.monotonic() - began
        return self

    def __exit__(self, _type: object, error: BaseException | None, _traceback: object) -> None:
        try:
            # An API that went away looks like a fault of whoever asked it; the true reason is in the log of what died.
            if isinstance(error, ApiUnreachableError | ApiRefusedError):
                self.require_running()
        finally:
            self._stack.close()

    @abstractmethod
    def _start(self) -> None:
        """Start everything; what must be undone goes on the stack."""

    @abstractmethod
    def restart_api_server(self, down_seconds: float = 0.0) -> None:
        """Kill the API server, leave it down so long on the wall, start it again with its data; returns when it is ready.

        Raises RehearsalError where the API server is not ours.
        """

    def require_running(self) -> None:
        """Raise RehearsalError, with the end of its log, when one of the programs has ended by itself."""
        for process in self._processes.values():
            process.require_running()

    def logs(self, name: str) -> str:
        """What a program has written so far: etcd, kube-apiserver, kube-controller-manager, kube-scheduler or kwok."""
        if name not in self._processes:
            raise ValueError(f"no program {name} runs; there are {', '.join(self._processes)}")
        return self._processes[name].log.read_text(encoding="utf-8", errors="replace")

    def _run(self, name: str, command: Sequence[str | Path], environment: Mapping[str, str] | None = None) -> None:
        self._processes[name] = Process(
            name,
            command,
            folder=self._folder,
            log=self._folder / f"{name}.log",
            orphaned_folder=self._folder,
            environment=environment,
        )

    def _stop_programs(self) -> None:
        for process in self._processes.values():
            process.tell_to_stop()
        for process in self._processes.values():
            process.stop()
