"""Spending guards: each guard pod's own program and service account, run against the rehearsal's API server.

A relay in front of the API server sets the `Date` header to simulated time, and a wrapper speeds up the process's clock. A drill may
shift the API server's clock.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from email.utils import formatdate
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from fleet.clients.scratch import scratch
from lab.cloud.agenda import Agenda
from lab.cloud.world import World
from lab.control_plane.api import Manifest
from lab.control_plane.mirror import Change
from lab.simulators.local_server import Answer, Request, served
from workloads.names import SPENDING_APP

_FASTER: Final = """
import sys, time
speed, code, monotonic, sleep = float(sys.argv[1]), sys.argv[2], time.monotonic, time.sleep
time.monotonic, time.sleep = lambda: monotonic() * speed, lambda seconds: sleep(seconds / speed)
sys.argv = ["guard", *sys.argv[3:]]
exec(compile(code, "guard", "exec"), {"__name__": "__main__"})
"""
"""Runs a program with a faster clock."""
_MOODS: Final[Mapping[str, Any]] = {"paused": "bad", "blind": "bad", "warned": "waiting", "resumed": "good"}


class SpendingGuards:
    """Runs a guard for each running guard pod. Construct it before the world is entered, then enter it inside."""

    def __init__(self, world: World, kubeconfig: Path) -> None:
        self._world = world
        cluster = json.loads(kubeconfig.read_text(encoding="utf-8"))["clusters"][0]["cluster"]
        self._host = urlsplit(cluster["server"]).netloc
        self._tls = ssl.create_default_context(cafile=cluster["certificate-authority"])
        self._began = time.time()
        self.clock_off_seconds = 0.0
        """Simulated seconds by which the API server's clock is ahead."""
        self.lines: list[dict[str, Any]] = []
        """Log lines of all guards, in order."""
        self._running: dict[str, subprocess.Popen[str]] = {}
        self._lock = threading.Lock()
        self._agenda = Agenda(world.clock, "spending-guards", workers=2)
        self._stack = contextlib.ExitStack()
        world.pods.listen(self._on_pod)

    def __enter__(self) -> SpendingGuards:
        self._folder = self._stack.enter_context(scratch("rehearsal"))
        self._url = f"http://127.0.0.1:{self._stack.enter_context(served(self._relay))}"
        return self

    def __exit__(self, *_: object) -> None:
        self._agenda.close()
        for uid in self.running():
            self._stop(uid)
        self._stack.close()

    def logged(self, step: str, since: int = 0) -> list[dict[str, Any]]:
        """Log lines of a step, from index `since` on."""
        return [line for line in self.lines[since:] if line["step"] == step]

    def running(self) -> frozenset[str]:
        """UIDs of pods whose guard runs."""
        with self._lock:
            return frozenset(self._running)

    def _relay(self, request: Request) -> Answer | None:
        """The API server's answer, with simulated time; None if it does not answer."""
        kept = {name: request.headers[name] for name in ("Authorization", "Content-Type") if request.headers[name]}
        try:
            with contextlib.closing(
                http.client.HTTPSConnection(self._host, context=self._tls, timeout=20)
            ) as connection:
                connection.request(request.method, request.url, request.content or None, kept)
                answer = connection.getresponse()
                status, content = answer.status, answer.read()
        except OSError:
            return None
        now = self._began + self._world.clock.now_seconds() + self.clock_off_seconds
        return Answer(status, content, {"Date": formatdate(now, usegmt=True)})

    def _on_pod(self, change: Change, pod: Manifest, _: Manifest | None) -> None:
        metadata = pod["metadata"]
        if (metadata.get("labels") or {}).get("app") != SPENDING_APP:
            return
        if change == "deleted" or metadata.get("deletionTimestamp"):
            self._agenda.soon(self._stop, metadata["uid"])
        elif pod["status"].get("phase") == "Running":  # Ready comes later, by its probe.
            self._agenda.soon(self._start, pod)

    def _start(self, pod: Manifest) -> None:
        metadata, namespace = pod["metadata"], pod["metadata"]["namespace"]
        with self._lock:
            if metadata["uid"] in self._running:
                return
            account = self._folder / metadata["uid"]
            account.mkdir()
            path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{pod['spec']['serviceAccountName']}/token"
            made = self._world.api.raw("POST", path, body={"spec": {"expirationSeconds": 86_400}})
            (account / "token").write_text(made["status"]["token"])
            words = pod["spec"]["containers"][0]["command"]
            given = words[words.index("-c") + 1 :]
            command = [sys.executable, "-c", _FASTER, str(self._world.clock.speed), *given]
            command += [f"--api={self._url}", f"--account={account}", f"--alive={account / 'turn'}"]
            process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
            self._running[metadata["uid"]] = process
        threading.Thread(target=self._read, args=(process, metadata["name"]), daemon=True).start()

    def _stop(self, uid: str) -> None:
        with self._lock:
            process = self._running.pop(uid, None)
        if process is not None:
            process.kill()
            process.wait()

    def _read(self, process: subprocess.Popen[str], pod: str) -> None:
        with process:  # Closes the pipe.
            for text in process.stdout or ():
                line = json.loads(text)
                if line["event"] != "spending":
                    continue  # what an hour costs, which is no step
                self.lines.append(line)
                text = f"spending {line['step']} at ${line['usd']:,.2f}: {line['message']}"
                self._world.timeline.note("pod", pod, text, mood=_MOODS.get(line["step"], "plain"))
