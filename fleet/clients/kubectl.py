"""A cluster through the user's kubectl and its authentication."""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import queue
import re
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Final

from facts import strict_json
from fleet.clients import kubectl_errors
from fleet.clients.errors import LiveError

Manifest = dict[str, Any]
ANSWER_SECONDS: Final = 30.0
"""Timeout of one request. Assumed: a slower API server counts as unreachable."""
START_SECONDS: Final = 20.0
"""Timeout for a port forward to report its port. Assumed, including the exec plugin's credentials."""
SPARE_SECONDS: Final = 15.0
"""Extra time for credentials and name resolution, which have no timeout. Assumed."""
STOP_SECONDS: Final = 5.0
"""Seconds between SIGTERM and SIGKILL."""
_FORWARDING: Final = re.compile(r"Forwarding from 127\.0\.0\.1:(\d+) ->")


class Kubectl:
    """One namespace of one cluster. All methods raise LiveError with a `reason`."""

    def __init__(
        self,
        *,
        namespace: str,
        kubeconfig: Path | None = None,
        context: str | None = None,
        program: str = "kubectl",
    ) -> None:
        """Defaults: the user's kubeconfig (KUBECONFIG or ~/.kube/config) and its current context."""
        self.namespace = namespace
        self._base = [program]
        if kubeconfig is not None:
            self._base.append(f"--kubeconfig={kubeconfig}")
        if context is not None:
            self._base.append(f"--context={context}")
        self._base.append(f"--namespace={namespace}")

    # Objects

    def get(self, kind: str, name: str, *, seconds: float = ANSWER_SECONDS) -> Manifest:
        """One object. `kind` as for kubectl, e.g. `job` or `gateways.gateway.networking.k8s.io`."""
        return self._json("get", kind, name, what=f"reading {kind} {name}", seconds=seconds)

    def find(self, kind: str, name: str) -> Manifest | None:
        """One object, or None if it does not exist."""
        try:
            return self.get(kind, name)
        except LiveError as error:
            if error.reason == "not found":
                return None
            raise

    def list_all(
        self, kind: str, *, selector: str = "", fields: str = "", seconds: float = ANSWER_SECONDS
    ) -> list[Manifest]:
        """All objects of the namespace with these labels and fields, as for kubectl (`app=server`)."""
        arguments = ["get", kind]
        arguments += [f"--selector={selector}"] if selector else []
        arguments += [f"--field-selector={fields}"] if fields else []
        items: list[Manifest] = self._json(*arguments, what=f"listing {kind}", seconds=seconds).get("items", [])
        return items

    def create(self, manifest: Mapping[str, Any]) -> Manifest:
        """Create an object; returns it as stored, with its uid."""
        what = f"creating {manifest['kind']} {manifest['metadata'].get('name', '')}".rstrip()
        return self._json("create", "--filename=-", what=what, stdin=json.dumps(manifest))

    def patch(self, kind: str, name: str, patch: Mapping[str, Any]) -> None:
        """Change fields of an object, as a JSON merge patch."""
        arguments = ("patch", kind, name, "--type=merge", f"--patch={json.dumps(patch)}")
        self.run(*arguments, what=f"changing {kind} {name}")

    def delete(self, kind: str, name: str) -> None:
        """Delete an object without waiting; a missing object is not an error."""
        self.run("delete", kind, name, "--ignore-not-found", "--wait=false", what=f"deleting {kind} {name}")

    def delete_all(self, kind: str, *, selector: str) -> None:
        """Delete all objects with these labels without waiting; none is not an error."""
        arguments = ("delete", kind, f"--selector={selector}", "--ignore-not-found", "--wait=false")
        self.run(*arguments, what=f"deleting {kind} with {selector}")

    def logs(self, pod: str, container: str, *, lines: int = 20) -> str:
        """The last lines of a container's log."""
        return self.run("logs", pod, f"--container={container}", f"--tail={lines}", what=f"reading the log of {pod}")

    # Ports

    @contextlib.contextmanager
    def port_forward(self, target: str, port: int) -> Iterator[int]:
        """Forwards a local port to `port` of a pod or `service/NAME` during the block.

        The tunnel is bound to one pod; when that pod ends, connections fail and a new tunnel is needed.
        """
        what = f"forwarding a port to {target}"
        arguments = [*self._base, "port-forward", "--address=127.0.0.1", target, f":{port}"]
        process = self._start(arguments, stdin=subprocess.DEVNULL, what=what)
        streaming = _Streaming(process, what)
        try:
            yield _announced_port(process, streaming, what)
        finally:
            streaming.close()

    # The program

    def run(self, *arguments: str, what: str, stdin: str | None = None, seconds: float = ANSWER_SECONDS) -> str:
        """Run kubectl and return its output. `what`: description for the error."""
        done = self._call(arguments, stdin, seconds, what)
        if done.returncode != 0:
            raise kubectl_errors.live_error(what, done.stderr)
        return done.stdout

    def _json(self, *arguments: str, what: str, stdin: str | None = None, seconds: float = ANSWER_SECONDS) -> Manifest:
        """Run kubectl and parse its output as JSON."""
        text = self.run(*arguments, "--output=json", what=what, stdin=stdin, seconds=seconds)
        with contextlib.suppress(ValueError):
            found = strict_json.loads(text)
            if isinstance(found, dict):
                return found
        raise LiveError(f"{what}: kubectl did not print a JSON object; check `which kubectl`")

    def _call(
        self, arguments: Sequence[str], stdin: str | None, seconds: float, what: str
    ) -> subprocess.CompletedProcess[str]:
        arguments = [*self._base, f"--request-timeout={seconds:.0f}s", *arguments]
        piped = subprocess.DEVNULL if stdin is None else subprocess.PIPE
        with self._start(arguments, stdin=piped, what=what) as process:
            try:
                out, said = process.communicate(
                    None if stdin is None else stdin.encode(), timeout=seconds + SPARE_SECONDS
                )
            except subprocess.TimeoutExpired:
                raise LiveError(
                    f"{what}: no response from kubectl after {seconds + SPARE_SECONDS:.0f} s", reason="timeout"
                ) from None
            finally:
                _end(process)
        return subprocess.CompletedProcess(
            process.args, process.returncode, out.decode(errors="replace"), said.decode(errors="replace")
        )

    def _start(self, arguments: Sequence[str], *, stdin: int, what: str) -> subprocess.Popen[bytes]:
        try:
            process = subprocess.Popen(
                arguments,
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                # Outside the terminal's foreground group: this process handles Ctrl-C and ends its children.
                process_group=0,
            )
        except FileNotFoundError:
            raise LiveError(
                f"{what}: kubectl is not on the PATH; install it: gcloud components install kubectl",
                reason="missing program",
            ) from None
        except OSError as error:
            raise LiveError(f"{what}: kubectl cannot be started: {error.strerror}", reason="missing program") from None
        _running.add(process)
        return process


class _Streaming:
    """A kubectl process in the background."""

    def __init__(self, process: subprocess.Popen[bytes], what: str) -> None:
        self._process, self._what = process, what
        self._said: list[bytes] = []
        self._drain = threading.Thread(target=self._read_stderr, daemon=True)
        self._drain.start()

    def wait(self, seconds: float) -> None:
        """Until it ends by itself, this long at most."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)

    def problem(self) -> LiveError | None:
        """Its error, if it failed."""
        if self._process.poll() in (None, 0):
            return None
        self._drain.join(STOP_SECONDS)
        return kubectl_errors.live_error(self._what, b"".join(self._said).decode(errors="replace"))

    def close(self) -> None:
        """End it: terminate, then kill."""
        _end(self._process)
        self._drain.join(STOP_SECONDS)
        for pipe in (self._process.stdout, self._process.stderr):
            if pipe is not None:
                pipe.close()

    def _read_stderr(self) -> None:
        assert self._process.stderr is not None
        with contextlib.suppress(ValueError, OSError):
            for line in self._process.stderr:
                self._said = [*self._said[-20:], line]


def _announced_port(process: subprocess.Popen[bytes], streaming: _Streaming, what: str) -> int:
    assert process.stdout is not None
    lines: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()

    def read(pipe: IO[bytes]) -> None:
        # Read to the end: kubectl writes a line per connection, and a full pipe would block it.
        with contextlib.suppress(ValueError, OSError):
            for line in pipe:
                lines.put(line)
        lines.put(None)

    threading.Thread(target=read, args=(process.stdout,), daemon=True).start()
    end = time.monotonic() + START_SECONDS
    while True:
        try:
            line = lines.get(timeout=max(0.0, end - time.monotonic()))
        except queue.Empty:
            raise LiveError(f"{what}: no local port after {START_SECONDS:.0f} s", reason="timeout") from None
        if line is None:
            streaming.wait(STOP_SECONDS)
            raise streaming.problem() or LiveError(f"{what}: kubectl ended before it reported its port")
        if match := _FORWARDING.search(line.decode(errors="replace")):
            return int(match[1])


_running: Final[set[subprocess.Popen[bytes]]] = set()
"""Running child processes."""


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a process and its children: kubectl may be a script, and its authentication plugin is a child."""
    if process.poll() is None:
        for number in (signal.SIGTERM, signal.SIGKILL):
            _send(process, number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(STOP_SECONDS)
                break
    _running.discard(process)


def _end_all() -> None:
    """Ends remaining children at exit, after a second Ctrl-C."""
    for process in list(_running):
        if process.poll() is None:
            _send(process, signal.SIGKILL)


def _send(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


atexit.register(_end_all)
