"""The client processes of one pod in one run: start, watch, end."""

from __future__ import annotations

import json
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

    def __init__(self, files: Mapping[int, ClientFiles]) -> None:
        self.files = files
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._prompts = 0

    def start(self, commands: Mapping[int, Sequence[str]], prompts_per_client: int) -> None:
        """Start them all."""
        self._prompts = prompts_per_client
        # vLLM's progress bar has the number of finished requests; every five seconds is enough for a log.
        environment = {**os.environ, "TQDM_MININTERVAL": "5", "PYTHONUNBUFFERED": "1"}
        for client, command in commands.items():
            with self.files[client].log.open("wb") as log:
                self._processes[client] = subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, env=environment
                )

    @property
    def exit_codes(self) -> dict[int, int]:
        """Of the clients that have ended; below 0: the signal."""
        # A copy: progress is written from another thread.
        codes = {client: process.poll() for client, process in list(self._processes.items())}
        return {client: code for client, code in codes.items() if code is not None}

    @property
    def ready(self) -> list[int]:
        """Clients that wait for the common start or have started."""
        return [client for client in list(self._processes) if self.files[client].ready.exists()]

    @property
    def alive(self) -> bool:
        """Whether none has ended."""
        return not self.exit_codes

    def wait_until_ready(self, until: float) -> bool:
        """Wait for all of them, until the moment `until` (epoch seconds). False: one has ended or is late."""
        while len(self.ready) < len(self._processes):
            if not self.alive or time.time() >= until:
                return False
            time.sleep(POLL_SECONDS)
        return self.alive

    def wait_until_done(self, until: float) -> bool:
        """Wait until all have ended, until the moment `until` (epoch seconds). False: some hang."""
        while len(self.exit_codes) < len(self._processes):
            if time.time() >= until:
                return False
            time.sleep(POLL_SECONDS)
        return True

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

    def last_words(self, client: int) -> str:
        """The end of a client's log, in one line."""
        tail = _tail(self.files[client].log).decode(errors="replace").replace("\r", "\n")
        return " | ".join([line.strip() for line in tail.splitlines() if line.strip()][-5:])[-1000:]

    def counts(self) -> dict[str, Any]:
        """How many are in which state, and how many requests their logs say are done (None: unknown)."""
        codes, ready = self.exit_codes, set(self.ready)
        failed = sum(1 for code in codes.values() if code != 0)
        going = ready - set(codes)
        released = bool(self.files) and next(iter(self.files.values())).go.exists()
        done = [self._requests_done(client, codes) for client in list(self._processes)] if released else []
        known = [number for number in done if number is not None]
        return {
            "clients": {
                "all": len(self._processes),
                "starting": len(self._processes) - len(codes) - len(going),
                "ready": 0 if released else len(going),
                "running": len(going) if released else 0,
                "done": len(codes) - failed,
                "failed": failed,
            },
            "requests": len(self._processes) * self._prompts,
            "requests_done": sum(known) if known or not released else None,
        }

    def _requests_done(self, client: int, codes: Mapping[int, int]) -> int | None:
        if codes.get(client) == 0:
            return self._prompts
        # The warm-up has a separate bar, with another number of requests or finished before the start.
        bars = _BAR.findall(_tail(self.files[client].log))
        return int(bars[-1][0]) if bars and int(bars[-1][1]) == self._prompts else None

    def summaries(self) -> dict[int, dict[str, Any]]:
        """Totals by client, of those that wrote them."""
        found = {}
        for client, files in self.files.items():
            if files.summary.exists():
                found[client] = json.loads(files.summary.read_text())
        return found

    def report(self) -> tuple[list[str], list[str]]:
        """Lines for the pod's log, and failures."""
        lines, failures = [], []
        summaries, codes = self.summaries(), self.exit_codes
        for client in self._processes:
            code, summary = codes.get(client), summaries.get(client)
            if code != 0 or summary is None:
                words = self.last_words(client)
                failures.append(f"client {client}: exit code {code}; its last words: {words or 'none'}")
                continue
            lines.append(f"client {client}: {summary['completed']} requests completed, {summary['failed']} failed")
            if summary["completed"] == 0:
                failures.append(f"client {client}: none of its requests succeeded")
        # Clients of one pod share a clock, so their times can be compared.
        sound = [summary for summary in summaries.values() if "first" in summary]
        if sound:
            seconds = max(one["last"] for one in sound) - min(one["first"] for one in sound)
            tokens_in, tokens_out = (sum(one[key] for one in sound) for key in ("tokens_in", "tokens_out"))
            if seconds > 0:
                lines.append(
                    f"this pod: {(tokens_in + tokens_out) / seconds:,.0f} total tok/s, "
                    f"{tokens_out / seconds:,.0f} output tok/s over {seconds:.1f} s"
                )
        return lines, failures


def _tail(file: Path) -> bytes:
    try:
        with file.open("rb") as log:
            log.seek(max(0, file.stat().st_size - TAIL_BYTES))
            return log.read()
    except OSError:
        return b""
