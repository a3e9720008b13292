"""One run: make the clients ready, start them together, wait for their end, store their files."""

from __future__ import annotations

import json
import logging
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .client_processes import Clients, wait_for_ports
from .collect_metrics import partial
from .dataset_parts import Parts
from .progress import Progress
from .results_bucket import Bucket, BucketError
from .run_plan import ClientFiles, Plan, Run, client_command
from .server_metrics import ScrapeError, in_flight

METRICS_FILE = "server-metrics.jsonl.gz"
POD_FILE = "pod.json"
UPLOADS = 8
"""Files stored at the same time. Assumed: one connection to Cloud Storage carries some 100 MB/s, and the machine many of them."""
IDLE_POLL_SECONDS = 1.0
COLLECTOR_START_SECONDS = 5.0
"""Assumed: ten times what a program of the standard library takes to start; less than the margin before the start."""
COLLECTOR_POLL_SECONDS = 0.02
COLLECTOR_END_SECONDS = 15.0
"""More than two readings of a server may take."""
LOG = logging.getLogger("launch_clients")


@dataclass(frozen=True)
class Limits:
    """Time limits."""

    ready_minutes: float
    """From a run's beginning until all clients are ready."""
    run_minutes: float
    """From the start to the last answer."""
    idle_minutes: float
    """Until the servers are idle before a run."""
    margin_seconds: float
    """From the last client's being ready to the start."""


@dataclass
class Course:
    """pod.json of one run."""

    began: float = field(default_factory=time.time)
    notes: list[str] = field(default_factory=list)

    def note(self, what: str) -> None:
        """One remark, with the seconds since the run's beginning."""
        LOG.info(what)
        self.notes.append(f"{time.time() - self.began:.1f} s: {what}")

    def write(self, folder: Path, exit_codes: dict[int, int]) -> None:
        """Write the file."""
        content = {
            "schema": 1,
            "began": self.began,
            "ended": time.time(),
            "exit_codes": {str(client): code for client, code in sorted(exit_codes.items())},
            "notes": self.notes,
        }
        (folder / POD_FILE).write_text(json.dumps(content), encoding="utf-8")


@dataclass
class Pod:
    """The pod that runs these programs."""

    plan: Plan
    bucket: Bucket
    endpoint: str
    tokenizer: str
    server_pods: list[tuple[str, int]]
    results: Path
    parts: Parts
    progress: Progress
    limits: Limits
    _clients: Clients | None = None
    _course: Course | None = None
    _collector: subprocess.Popen[bytes] | None = None

    def play(self, run: Run) -> tuple[list[str], bool]:
        """Run one run and store its files; returns the failures, and whether the clients started. Raises BucketError."""
        folder, scratch = self.results / run.folder, self.results / ".scratch"
        folder.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir()
        files = [ClientFiles(folder, scratch, client) for client in range(run.clients)]
        clients = self._clients = Clients(files, self.plan.prompts_per_client)
        course = self._course = Course()
        failures = self._make_ready(run, clients, course)
        started = not failures
        if started:
            failures = self._load(run, clients, course, folder)
        clients.end()
        for failure in failures:
            course.note(failure)
        self._tell(run, "storing")
        course.write(folder, clients.exit_codes)
        self.store(folder)
        self._clients = self._course = None
        return failures, started

    def _tell(self, run: Run, state: str) -> None:
        self.progress.tell(
            self._clients.counts if self._clients is not None else dict,
            state=state,
            run=run.index + 1,
            repeat=run.repeat,
            connections=run.connections,
        )

    def _make_ready(self, run: Run, clients: Clients, course: Course) -> list[str]:
        """Start the clients and wait until they and the servers are ready; returns the failures."""
        self._tell(run, "preparing")
        course.note(f"{run.folder}: {run.clients} clients are made ready")
        for files in clients.files:
            self.parts.write(run, files.client, files.requests)
        clients.start(
            [
                client_command(self.plan, run, files, endpoint=self.endpoint, tokenizer=self.tokenizer)
                for files in clients.files
            ]
        )
        if late := clients.wait_until_ready(time.time() + 60 * self.limits.ready_minutes):
            return late
        self._tell(run, "waiting for idle servers")
        course.note(f"ports were free after {wait_for_ports(run.connections):.0f} s")
        return self._wait_until_idle()

    def _wait_until_idle(self) -> list[str]:
        """Other requests and the benchmark would slow each other down. Unreadable servers are the certificate's matter."""
        until = time.time() + 60 * self.limits.idle_minutes
        while True:
            try:
                requests = in_flight(self.server_pods)
            except ScrapeError as error:
                LOG.warning("the servers' metrics cannot be read: %s", error)
                requests = 0.0
            if requests == 0:
                return []
            if time.time() >= until:
                return [f"the servers have {requests:g} other requests in flight: stop that traffic"]
            time.sleep(IDLE_POLL_SECONDS)

    def _load(self, run: Run, clients: Clients, course: Course, folder: Path) -> list[str]:
        """Start all clients together and wait for their end; returns the failures."""
        self._start_collector(folder)
        start = time.time() + self.limits.margin_seconds
        clients.go(start)
        self._tell(run, "running")
        course.note(f"start at {start:.3f}")
        failures = clients.wait_until_done(start + 60 * self.limits.run_minutes)
        course.note("all clients ended")
        return failures + self._end_collector()

    def _start_collector(self, folder: Path) -> None:
        servers = ",".join(f"{host}:{port}" for host, port in self.server_pods)
        command = [sys.executable, "-m", f"{__package__}.collect_metrics", f"--server-pods={servers}"]
        file = folder / METRICS_FILE
        with (folder / "collector.log").open("wb") as log:
            self._collector = subprocess.Popen(
                [*command, f"--out={file}"], stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
            )
        # A signal before it listens would leave no file.
        until = time.time() + COLLECTOR_START_SECONDS
        while self._collector.poll() is None and not partial(file).exists() and time.time() < until:
            time.sleep(COLLECTOR_POLL_SECONDS)

    def _end_collector(self) -> list[str]:
        collector, self._collector = self._collector, None
        if collector is None:
            return []
        if collector.poll() is None:
            collector.send_signal(signal.SIGTERM)
        try:
            code = collector.wait(COLLECTOR_END_SECONDS)
        except subprocess.TimeoutExpired:
            collector.kill()
            code = collector.wait()
        return [] if code == 0 else [f"the collector of the servers' metrics ended with exit code {code}"]

    def store(self, folder: Path, bucket: Bucket | None = None) -> None:
        """Upload a run's files in parallel, small ones first, and delete them here. Raises BucketError."""
        pool = ThreadPoolExecutor(UPLOADS)
        try:
            files = sorted(folder.iterdir(), key=lambda one: (one.stat().st_size, one.name))
            for stored in [pool.submit(self._send, file, bucket or self.bucket) for file in files]:
                stored.result()
        finally:
            # After an error or a signal, wait only for uploads in progress.
            pool.shutdown(cancel_futures=True)
        folder.rmdir()

    def _send(self, file: Path, bucket: Bucket) -> None:
        if not file.name.endswith(".part"):
            bucket.put(f"runs/{self.plan.name}/{file.parent.name}/{file.name}", file)
        # Hundreds of runs would fill the disk.
        file.unlink()

    def abandon(self, why: str, grace_seconds: float) -> None:
        """End the clients and store the existing files where possible."""
        codes: dict[int, Any] = {}
        if self._clients is not None:
            self._clients.end(grace_seconds)
            codes = self._clients.exit_codes
        self._end_collector()
        for folder in sorted(self.results.glob("point-*-repeat-*")):
            try:
                if self._course is not None:
                    self._course.note(why)
                    self._course.write(folder, codes)
                self.store(folder, self.bucket.hasty())
            except (BucketError, OSError) as error:
                LOG.warning("files of %s stay in %s: %s", folder.name, folder, error)
