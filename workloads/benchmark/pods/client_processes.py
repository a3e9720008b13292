"""The client processes of one run: start, watch, end."""

from __future__ import annotations

import os
import re
import resource
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .run_plan import ClientFiles

SPARE_FILES = 256
"""Open files of a client besides its connections: libraries, logs, the tokenizer."""
SPARE_PORTS = 1000
"""Ports for other calls of this pod: the bucket, the servers' metrics. Assumed: some dozens at a time."""
TIME_WAIT_SECONDS = 60.0
"""For which a closed connection holds its port. Source: Linux, TCP_TIMEWAIT_LEN; tcp_tw_reuse spares loopback only."""
POLL_SECONDS = 0.1
TERM_SECONDS = 10.0
"""Between SIGTERM and SIGKILL. Assumed: a client stores nothing that takes longer."""
TAIL_BYTES = 4096
_BAR = re.compile(rb"\b(\d+)/(\d+) \[")


def allow_open_files(connections: int) -> None:
    """Raise the soft limit of open files. Exits when the hard limit is too low: requests would fail."""
    needed = connections + SPARE_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < needed:
        sys.exit(f"{connections} connections a client need {needed} open files; this pod may have {hard} at most")
    if soft != resource.RLIM_INFINITY and soft < needed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))


def wait_for_ports(connections: int, seconds: float = TIME_WAIT_SECONDS, proc: Path = Path("/proc")) -> float:
    """Wait until this pod has a port for each connection; returns the seconds it took, at most `seconds`.

    A connection that a client closed holds its port for a minute, and the run before this one closed as many as this one
    opens, all of them to the one address of the Service: a pod of 15,000 connections has no port for the second half.
    """
    begun = time.monotonic()
    while (waited := time.monotonic() - begun) < seconds:
        free, closing = _ports(proc)
        if closing == 0 or free >= connections + SPARE_PORTS:
            break
        time.sleep(POLL_SECONDS)
    return waited


def _ports(proc: Path) -> tuple[int, int]:
    """Ports that are not held by closed connections, and how many are."""
    try:
        low, high = (proc / "sys/net/ipv4/ip_local_port_range").read_text().split()
        closing = re.search(r"^TCP:.* tw (\d+)", (proc / "net/sockstat").read_text(), re.MULTILINE)
        held = int(closing[1]) if closing else 0
        return int(high) - int(low) + 1 - held, held
    except (OSError, ValueError):
        return 0, 0


class Clients:
    """Processes by client number."""

    def __init__(self, files: Sequence[ClientFiles], prompts_per_client: int) -> None:
        self.files, self._prompts = files, prompts_per_client
        self._processes: dict[int, subprocess.Popen[bytes]] = {}

    def start(self, commands: Sequence[Sequence[str]]) -> None:
        """Start them all."""
        # vLLM's progress bar has the number of finished requests; every five seconds is enough for a log.
        environment = {**os.environ, "TQDM_MININTERVAL": "5", "PYTHONUNBUFFERED": "1"}
        for files, command in zip(self.files, commands, strict=True):
            with files.log.open("wb") as log:
                self._processes[files.client] = subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, env=environment
                )

    @property
    def exit_codes(self) -> dict[int, int]:
        """Of the clients that have ended; below 0: the signal."""
        # A copy: progress is written from another thread.
        codes = {client: process.poll() for client, process in list(self._processes.items())}
        return {client: code for client, code in codes.items() if code is not None}

    @property
    def ready(self) -> int:
        """How many wait for the common start or have started."""
        return sum(files.ready.exists() for files in self.files)

    def wait_until_ready(self, until: float) -> list[str]:
        """Wait for all of them, until the moment `until` (epoch seconds); returns why they are not."""
        while self.ready < len(self.files):
            if codes := self.exit_codes:
                return [f"{self._ended(client, code)} before the start" for client, code in codes.items()]
            if time.time() >= until:
                late = [files.client for files in self.files if not files.ready.exists()]
                return [f"{len(late)} clients were not ready in time; client {late[0]}: {self._last_words(late[0])}"]
            time.sleep(POLL_SECONDS)
        return []

    def go(self, moment: float) -> None:
        """Start all at that moment (epoch seconds)."""
        part = self.files[0].go.with_suffix(".part")
        part.write_text(f"{moment:.6f}\n")
        part.replace(self.files[0].go)

    def wait_until_done(self, until: float) -> list[str]:
        """Wait until all have ended, until the moment `until` (epoch seconds); returns the failures."""
        while len(self.exit_codes) < len(self._processes):
            if time.time() >= until:
                return [f"clients {self.end()} had not ended in time"]
            time.sleep(POLL_SECONDS)
        return [self._ended(client, code) for client, code in self.exit_codes.items() if code != 0]

    def end(self, grace_seconds: float = TERM_SECONDS) -> list[int]:
        """End running clients by SIGTERM, then SIGKILL; returns their numbers."""
        running = [client for client in self._processes if client not in self.exit_codes]
        for client in running:
            self._processes[client].terminate()
        until = time.time() + grace_seconds
        for client in running:
            try:
                self._processes[client].wait(max(0.0, until - time.time()))
            except subprocess.TimeoutExpired:
                self._processes[client].kill()
                self._processes[client].wait()
        return running

    def _ended(self, client: int, code: int) -> str:
        return f"client {client} ended with exit code {code} ({self._last_words(client)})"

    def _last_words(self, client: int) -> str:
        """The end of a client's log, in one line."""
        tail = _tail(self.files[client].log).decode(errors="replace").replace("\r", "\n")
        return " | ".join([line.strip() for line in tail.splitlines() if line.strip()][-5:])[-1000:] or "no last words"

    def counts(self) -> dict[str, Any]:
        """How many are in which state, and how many requests their logs say are done."""
        codes = self.exit_codes
        return {
            "clients": len(self.files),
            "ready": self.ready,
            "ended": len(codes),
            "requests": len(self.files) * self._prompts,
            "requests_done": sum(self._requests_done(files, codes) for files in self.files) if self._released else 0,
        }

    @property
    def _released(self) -> bool:
        return self.files[0].go.exists()

    def _requests_done(self, files: ClientFiles, codes: Mapping[int, int]) -> int:
        if codes.get(files.client) == 0:
            return self._prompts
        # The warm-up has a separate bar, with another number of requests or finished before the start.
        bars = _BAR.findall(_tail(files.log))
        return int(bars[-1][0]) if bars and int(bars[-1][1]) == self._prompts else 0


def _tail(file: Path) -> bytes:
    try:
        with file.open("rb") as log:
            log.seek(max(0, file.stat().st_size - TAIL_BYTES))
            return log.read()
    except OSError:
        return b""
