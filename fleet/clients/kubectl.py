"""A cluster through the kubectl program: what a user has, with their own authentication, and would debug with."""

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

from fleet.clients import kubectl_errors
from fleet.clients.errors import LiveError
from settings import strict_json

Manifest = dict[str, Any]
ANSWER_SECONDS: Final = 30.0
"""For one request. Assumed: an API server that needs longer is as good as gone."""
START_SECONDS: Final = 20.0
"""Until a port forward says its port. Assumed, credentials of the exec plugin included."""
SPARE_SECONDS: Final = 15.0
"""Beyond a request's own timeout: for credentials and name resolution, which have none. Assumed."""
STOP_SECONDS: Final = 5.0
"""Between asking a process to end and ending it."""
_FORWARDING: Final = re.compile(r"Forwarding from 127\.0\.0\.1:(\d+) ->")


class Kubectl:
    """One namespace of one cluster. All methods raise LiveError, whose `reason` tells the causes apart."""

    def __init__(
        self,
        *,
        namespace: str,
        kubeconfig: Path | None = None,
        context: str | None = None,
        program: str = "kubectl",
    ) -> None:
        """Without `kubeconfig` the user's own (KUBECONFIG or ~/.kube/config), without `context` its current one."""
        self.namespace = namespace
        self._base = [program]
        if kubeconfig is not None:
            self._base.append(f"--kubeconfig={kubeconfig}")
        if context is not None:
            self._base.append(f"--context={context}")
        self._base.append(f"--namespace={namespace}")

    # Objects

    def get(self, kind: str, name: str, *, seconds: float = ANSWER_SECONDS) -> Manifest:
        """One object. `kind` as kubectl takes it, e.g. `job` or `gateways.gateway.networking.k8s.io`."""
        return self._json("get", kind, name, what=f"reading {kind} {name}", seconds=seconds)

    def find(self, kind: str, name: str) -> Manifest | None:
        """One object, or None where there is none."""
        try:
            return self.get(kind, name)
        except LiveError as error:
            if error.reason == "not found":
                return None
            raise

    def list_all(
        self, kind: str, *, selector: str = "", fields: str = "", seconds: float = ANSWER_SECONDS
    ) -> list[Manifest]:
        """Every object of the namespace with these labels and fields, both as kubectl takes them (`app=server`)."""
        arguments = ["get", kind]
        arguments += [f"--selector={selector}"] if selector else []
        arguments += [f"--field-selector={fields}"] if fields else []
        items: list[Manifest] = self._json(*arguments, what=f"listing {kind}", seconds=seconds).get("items", [])
        return items

    def create(self, manifest: Mapping[str, Any]) -> Manifest:
        """Make an object; it comes back as the server keeps it, with its uid."""
        what = f"creating {manifest['kind']} {manifest['metadata'].get('name', '')}".rstrip()
        return self._json("create", "--filename=-", what=what, stdin=json.dumps(manifest))

    def delete(self, kind: str, name: str) -> None:
        """Remove an object, without waiting until it is gone; one that is not there is no error."""
        self.run("delete", kind, name, "--ignore-not-found", "--wait=false", what=f"deleting {kind} {name}")

    def delete_all(self, kind: str, *, selector: str) -> None:
        """Remove every object with these labels, without waiting until they are gone; none is no error."""
        arguments = ("delete", kind, f"--selector={selector}", "--ignore-not-found", "--wait=false")
        self.run(*arguments, what=f"deleting {kind} with {selector}")

    def logs(self, pod: str, container: str, *, lines: int = 20) -> str:
        """The last lines that a container wrote."""
        return self.run("logs", pod, f"--container={container}", f"--tail={lines}", what=f"reading the log of {pod}")

    # Processes and ports

    @contextlib.contextmanager
    def exec_streaming(self, pod: str, container: str, command: Sequence[str], to: IO[bytes]) -> Iterator[Streaming]:
        """A command that runs in a container while the block does, its output going to a file.

        The command's stdin is open as long as the block lasts: a command that must end with it watches for its end.
        """
        base = [*self._base, "exec", "--stdin", pod, f"--container={container}", "--", *command]
        process = self._start(base, stdin=subprocess.PIPE, stdout=to, what=f"running {command[0]} in {pod}")
        streaming = Streaming(process, f"running {command[0]} in {pod}")
        try:
            yield streaming
        finally:
            streaming.close()

    @contextlib.contextmanager
    def port_forward(self, target: str, port: int) -> Iterator[int]:
        """A port of this machine's loopback that leads to `port` of a pod or `service/NAME`, while the block lasts.

        The tunnel belongs to one pod; when that pod goes, connections fail and a new tunnel is needed.
        """
        what = f"forwarding a port to {target}"
        arguments = [*self._base, "port-forward", "--address=127.0.0.1", target, f":{port}"]
        process = self._start(arguments, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, what=what)
        streaming = Streaming(process, what)
        try:
            yield _announced_port(process, streaming, what)
        finally:
            streaming.close()

    # The program

    def run(self, *arguments: str, what: str, stdin: str | None = None, seconds: float = ANSWER_SECONDS) -> str:
        """What kubectl printed. `what` is what this is, in words, for the error."""
        done = self._call(arguments, stdin, seconds, what)
        if done.returncode != 0:
            raise kubectl_errors.live_error(what, done.stderr)
        return done.stdout

    def _json(self, *arguments: str, what: str, stdin: str | None = None, seconds: float = ANSWER_SECONDS) -> Manifest:
        """The object that kubectl printed."""
        text = self.run(*arguments, "--output=json", what=what, stdin=stdin, seconds=seconds)
        with contextlib.suppress(ValueError):
            found = strict_json.loads(text)
            if isinstance(found, dict):
                return found
        raise LiveError(f"{what}: kubectl printed something that is not a JSON object; is it kubectl? `which kubectl`")

    def _call(
        self, arguments: Sequence[str], stdin: str | None, seconds: float, what: str
    ) -> subprocess.CompletedProcess[str]:
        arguments = [*self._base, f"--request-timeout={seconds:.0f}s", *arguments]
        piped = subprocess.DEVNULL if stdin is None else subprocess.PIPE
        with self._start(arguments, stdin=piped, stdout=subprocess.PIPE, what=what) as process:
            try:
                out, said = process.communicate(
                    None if stdin is None else stdin.encode(), timeout=seconds + SPARE_SECONDS
                )
            except subprocess.TimeoutExpired:
                raise LiveError(
                    f"{what}: kubectl had no answer after {seconds + SPARE_SECONDS:.0f} s", reason="timeout"
                ) from None
            finally:
                _end(process)
        return subprocess.CompletedProcess(
            process.args, process.returncode, out.decode(errors="replace"), said.decode(errors="replace")
        )

    def _start(
        self, arguments: Sequence[str], *, stdin: int, stdout: int | IO[bytes], what: str
    ) -> subprocess.Popen[bytes]:
        try:
            process = subprocess.Popen(
                arguments,
                stdin=stdin,
                stdout=stdout,
                stderr=subprocess.PIPE,
                # Not in the terminal's foreground group: Ctrl-C is for us to answer, and we end what we started.
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


class Streaming:
    """A kubectl that runs beside us."""

    def __init__(self, process: subprocess.Popen[bytes], what: str) -> None:
        self._process, self._what = process, what
        self._said: list[bytes] = []
        self._drain = threading.Thread(target=self._read_stderr, daemon=True)
        self._drain.start()

    @property
    def running(self) -> bool:
        """Whether it still runs."""
        return self._process.poll() is None

    def wait(self, seconds: float) -> bool:
        """Whether it has ended by itself within this time."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)
        return not self.running

    def problem(self) -> LiveError | None:
        """Why it ended, if it ended badly."""
        if self._process.poll() in (None, 0):
            return None
        self._drain.join(STOP_SECONDS)
        return kubectl_errors.live_error(self._what, b"".join(self._said).decode(errors="replace"))

    def close(self) -> None:
        """End it: its stdin first, then the process, with force where it does not go."""
        if self._process.stdin is not None:
            with contextlib.suppress(OSError):
                self._process.stdin.close()
            self.wait(STOP_SECONDS)
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


def _announced_port(process: subprocess.Popen[bytes], streaming: Streaming, what: str) -> int:
    assert process.stdout is not None
    lines: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()

    def read(pipe: IO[bytes]) -> None:
        # To its end: kubectl writes a line for every connection, and would stop at a full pipe.
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
            raise LiveError(f"{what}: no port after {START_SECONDS:.0f} s", reason="timeout") from None
        if line is None:
            streaming.wait(STOP_SECONDS)
            raise streaming.problem() or LiveError(f"{what}: kubectl ended before it named its port")
        if match := _FORWARDING.search(line.decode(errors="replace")):
            return int(match[1])


_running: Final[set[subprocess.Popen[bytes]]] = set()
"""What was started and not ended yet."""


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a process and whatever it started: kubectl may be a script, and its authentication plugin is a child."""
    if process.poll() is None:
        for number in (signal.SIGTERM, signal.SIGKILL):
            _send(process, number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(STOP_SECONDS)
                break
    _running.discard(process)


def _end_all() -> None:
    """At the program's end: whatever an impatient user's second Ctrl-C kept from being ended in peace."""
    for process in list(_running):
        if process.poll() is None:
            _send(process, signal.SIGKILL)


def _send(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


atexit.register(_end_all)
