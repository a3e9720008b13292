"""Several servers as separate processes, each like a pod with its own port, plus a common port for all.

Connections to the common port go to the servers in turn, whole and once: a thread here accepts them and hands the open
connection on, so no byte of an answer passes through this process. With SO_REUSEPORT the kernel would choose by a hash, and
of 64 connections to two servers 40 and more would land on one every seventeenth time.

A server ends when its control connection does. So they end with a `with`, with an exception, and when this process is
killed: nothing is left behind.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from types import TracebackType
from typing import Any, Final

from fleet import CODE
from lab.simulators.model_server.listener import BACKLOG, LOOPBACK
from lab.simulators.model_server.node import Faults, Node

START_SECONDS: Final = 20.0
"""Timeout of a server's start. Measured: half a second on a free core."""
ANSWER_SECONDS: Final = 10.0
END_SECONDS: Final = 5.0
CONNECTION: Final = b"c"
"""Control message: a client connection is passed with this byte."""
SNAPSHOT: Final = b"s"
"""Control message: report the counts."""


class ServerProcessError(Exception):
    """A server did not start or no longer answers; the message quotes its output."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerProcess:
    """Configuration of one server process."""

    node: Node
    faults: Faults = field(default_factory=Faults)
    host: str = LOOPBACK
    """Loopback address; the port is chosen."""
    port: int = 0
    cores: tuple[int, ...] = ()
    """CPU affinity; empty: any CPU."""
    speed: float = 1.0
    """Simulated seconds per wall second."""


class ServerProcesses:
    """A context manager. `url` is the common address, `urls` those of the servers."""

    def __init__(self, servers: Sequence[ServerProcess]) -> None:
        if not servers:
            raise ValueError("at least one server is needed")
        self._asked = servers
        self._children: list[_Child] = []
        self._common: socket.socket | None = None
        self._thread: threading.Thread | None = None
        self.url = ""
        self.urls: tuple[str, ...] = ()

    def __enter__(self) -> ServerProcesses:
        """Raises ServerProcessError if a server does not start."""
        try:
            # All at once; each is waited for afterwards.
            for server in self._asked:
                self._children.append(_Child(server))
            self.urls = tuple(child.read()["url"] for child in self._children)
            self._common = socket.create_server((LOOPBACK, 0), backlog=BACKLOG)
            self.url = f"http://{LOOPBACK}:{self._common.getsockname()[1]}"
            self._thread = threading.Thread(target=self._hand_on, args=(self._common,), daemon=True)
            self._thread.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop all servers. Idempotent."""
        common, self._common = self._common, None
        if common is not None:
            # Closing alone does not wake up the thread that accepts.
            with contextlib.suppress(OSError):
                common.shutdown(socket.SHUT_RDWR)
            common.close()
        if self._thread is not None:
            self._thread.join(END_SECONDS)
        for child in self._children:
            child.close()
        self._children = []

    def snapshots(self) -> tuple[Mapping[str, Any], ...]:
        """Counts of every server: `accepted`, `chunks_sent`, `cpu_seconds`, and by engine `generation_tokens`,
        `prompt_tokens`, `finished`, `steps`, `late_steps`. Raises ServerProcessError when one no longer answers.
        """
        for child in self._children:
            child.ask(SNAPSHOT)
        return tuple(child.read() for child in self._children)

    @property
    def pids(self) -> tuple[int, ...]:
        """Process ids, in the order of `urls`."""
        return tuple(child.process.pid for child in self._children)

    def _hand_on(self, common: socket.socket) -> None:
        number = 0
        while True:
            try:
                connection, _ = common.accept()
            except OSError:
                return
            with connection:
                child = self._children[number % len(self._children)]
                number += 1
                with contextlib.suppress(OSError):
                    child.hand_over(connection)


class _Child:
    """A server's process and its control connection."""

    def __init__(self, server: ServerProcess) -> None:
        self._control, theirs = socket.socketpair()
        self._control.settimeout(START_SECONDS)
        self._lock = threading.Lock()
        self._unread = b""
        options = {
            "node": asdict(server.node),
            "faults": asdict(server.faults),
            "host": server.host,
            "port": server.port,
            "cores": list(server.cores),
            "speed": server.speed,
        }
        with theirs:
            self.process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "lab.simulators.model_server.process",
                    str(theirs.fileno()),
                    json.dumps(options),
                ],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                env={**os.environ, "PYTHONPATH": f"{CODE}{os.pathsep}{os.environ.get('PYTHONPATH', '')}".rstrip(":")},
                start_new_session=True,  # Ctrl-C is for the parent; the child ends with its control connection.
            )

    def ask(self, what: bytes) -> None:
        with self._lock, contextlib.suppress(OSError):
            self._control.sendall(what)

    def hand_over(self, connection: socket.socket) -> None:
        with self._lock:
            socket.send_fds(self._control, [CONNECTION], [connection.fileno()])

    def read(self) -> dict[str, Any]:
        """The server's next line of JSON."""
        while b"\n" not in self._unread:
            try:
                part = self._control.recv(65536)
            except TimeoutError:
                raise ServerProcessError("a server process does not answer") from None
            except OSError:
                part = b""
            if not part:
                raise ServerProcessError(f"a server process ended: {self._last_words()}")
            self._unread += part
        self._control.settimeout(ANSWER_SECONDS)
        line, self._unread = self._unread.split(b"\n", 1)
        told: dict[str, Any] = json.loads(line)
        return told

    def close(self) -> None:
        self._control.close()
        try:
            self.process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        if self.process.stderr is not None:
            self.process.stderr.close()

    def _last_words(self) -> str:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(END_SECONDS)
        if self.process.poll() is None or self.process.stderr is None:
            return "without a word"
        said = self.process.stderr.read().decode(errors="replace").strip().splitlines()
        return " | ".join(said[-3:]) or f"exit code {self.process.returncode}"
