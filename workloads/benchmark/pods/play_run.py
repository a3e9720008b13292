"""One run in one pod: prepare the clients, start them with all others, wait for their end, store their files."""

from __future__ import annotations

import json
import logging
import os
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .barrier import POLL_SECONDS, Barrier
from .client_processes import Clients, wait_for_ports
from .collect_metrics import partial
from .progress import Progress
from .results_bucket import Bucket, BucketError
from .run_plan import ClientFiles, Plan, Run, client_command
from .server_metrics import ScrapeError, in_flight
from .trace_slices import DatasetError, Slices

METRICS_FILE = "server-metrics.jsonl.gz"
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
    """From a run's beginning until all clients of all pods are ready."""
    run_minutes: float
    """From the common start to the last answer."""
    store_minutes: float
    """For the files of a run."""
    idle_minutes: float
    """Until the servers are idle after a run."""
    margin_seconds: float
    """From the last pod's marker to the common start."""
    poll_seconds: float = POLL_SECONDS


@dataclass(frozen=True)
class Outcome:
    """Outcome of a run, the same in all pods."""

    failures: tuple[str, ...]
    went: bool
    """Whether the clients of all pods reached the common start."""


@dataclass
class Course:
    """pod-N.json of one run."""

    pod: int
    clients: list[int]
    steps: list[dict[str, Any]] = field(default_factory=list)

    def note(self, what: str) -> None:
        """One step, now."""
        self.steps.append({"at": round(time.time(), 3), "what": what})

    def write(self, folder: Path, exit_codes: dict[int, int]) -> None:
        """Write the file."""
        content = {
            "schema": 1,
            "pod": self.pod,
            "node": os.environ.get("NODE_NAME") or os.uname().nodename,
            "cores": cores(),
            "clients": self.clients,
            "exit_codes": {str(client): code for client, code in sorted(exit_codes.items())},
            "steps": self.steps,
        }
        (folder / f"pod-{self.pod}.json").write_text(json.dumps(content), encoding="utf-8")


def cores() -> float:
    """CPU limit of this container, in cores."""
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        if quota != "max":
            return round(int(quota) / int(period), 3)
    except (OSError, ValueError):
        pass
    return float(len(os.sched_getaffinity(0)))


@dataclass
class Pod:
    """The pod that runs these programs."""

    plan: Plan
    number: int
    bucket: Bucket
    endpoint: str
    tokenizer: str
    server_pods: list[tuple[str, int]]
    results: Path
    slices: Slices
    progress: Progress
    limits: Limits
    _clients: Clients | None = None
    _course: Course | None = None
    _collector: subprocess.Popen[bytes] | None = None

    @property
    def prefix(self) -> str:
        """Folder of the measurement in the bucket."""
        return f"runs/{self.plan.name}/"

    def barrier(self, name: str) -> Barrier:
        """A barrier of all pods."""
        return Barrier(
            self.bucket, f"{self.prefix}.barrier/{name}/", self.number, self.plan.pods, self.limits.poll_seconds
        )

    def play(self, run: Run) -> Outcome:
        """Run one run and store its files. Raises LateError when another pod is missing, and BucketError."""
        folder, scratch = self.results / run.folder, self.results / ".scratch"
        folder.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir()
        mine = list(self.plan.clients_of(run, self.number))
        files = {client: ClientFiles(folder, scratch, client) for client in mine}
        clients = self._clients = Clients(files)
        course = self._course = Course(self.number, mine)
        end = self.barrier(f"{run.folder}-end")
        begun = time.time()

        failures = self._make_ready(run, clients, course)
        go = None if failures else self._common_start(run, clients, course, failures, begun)
        self._tell(run, "running" if go else "failing", clients)
        if go is not None:
            self._run(run, clients, course, go, failures)
        elif ended := clients.end():
            course.note(f"clients {ended} ended before their start")
        lines, failed = clients.report() if go is not None else ([], [])
        failures += failed
        for line in [*lines, *failures]:
            LOG.info("%s: %s", run.folder, line)
        for failure in failures:
            course.note(failure)

        self._tell(run, "storing", clients)
        if go is None:
            # Pods that wait for this one must stop, and all must know at the end, also those that started.
            self.barrier(run.folder).arrive(failed=True)
        others = self._close(run, folder, clients, course, end, failed=bool(failures))
        self._clients = self._course = None
        shutil.rmtree(scratch, ignore_errors=True)
        return Outcome(tuple(failures or others), not self.barrier(run.folder).arrivals().failed)

    def _tell(self, run: Run, state: str, clients: Clients) -> None:
        self.progress.tell(
            clients.counts,
            state=state,
            point=run.point,
            repeat=run.repeat,
            run=run.index + 1,
            connections=run.connections,
        )

    def _make_ready(self, run: Run, clients: Clients, course: Course) -> list[str]:
        """Start the clients and wait until all are ready; returns the failures."""
        self._tell(run, "preparing", clients)
        LOG.info("%s: clients %s of %d are made ready", run.folder, _numbers(list(clients.files)), run.clients)
        try:
            for client, files in clients.files.items():
                self.slices.write(run, client, files.requests)
        except DatasetError as error:
            return [str(error)]
        course.note("clients started")
        commands = {
            client: client_command(self.plan, run, self.number, files, endpoint=self.endpoint, tokenizer=self.tokenizer)
            for client, files in clients.files.items()
        }
        clients.start(commands, self.plan.prompts_per_client)
        if clients.wait_until_ready(time.time() + 60 * self.limits.ready_minutes):
            waited = wait_for_ports(sum(self.plan.connections_of(run, client) for client in clients.files))
            if waited >= 1:
                course.note(f"ports were free after {waited:.0f} s")
            course.note("all clients ready")
            return []
        return self._before_start(clients)

    def _before_start(self, clients: Clients) -> list[str]:
        ended = clients.exit_codes
        if ended:
            return [
                f"client {client} ended before the start with exit code {code}; its last words: {clients.last_words(client)}"
                for client, code in ended.items()
            ]
        late = sorted(set(clients.files) - set(clients.ready))
        words = clients.last_words(late[0])
        return [
            f"clients {_numbers(late)} were not ready after {self.limits.ready_minutes:g} minutes; client {late[0]}: {words}"
        ]

    def _common_start(
        self, run: Run, clients: Clients, course: Course, failures: list[str], begun: float
    ) -> float | None:
        """Common start of all pods' clients in epoch seconds; None: no start."""
        self._tell(run, "at the barrier", clients)
        barrier = self.barrier(run.folder)
        barrier.arrive()
        here = barrier.wait(
            # Other pods may begin later, by the time they took to store the previous run.
            begun + 60 * (self.limits.ready_minutes + self.limits.store_minutes),
            go_on=lambda: clients.alive,
            end_on_failure=True,
        )
        if not clients.alive:
            failures += self._before_start(clients)
            return None
        if here.failed:
            failures.append(f"pods {sorted(here.failed)} could not make their clients ready")
            return None
        go = here.newest + self.limits.margin_seconds
        course.note(f"all pods ready, start at {go:.3f}")
        LOG.info("%s: start at %.3f", run.folder, go)
        return go

    def _run(self, run: Run, clients: Clients, course: Course, go: float, failures: list[str]) -> None:
        if self.number == 0:
            self._start_collector(self.results / run.folder)
        for files in list(clients.files.values())[:1]:
            part = files.go.with_suffix(".part")
            part.write_text(f"{go:.6f}\n")
            part.replace(files.go)
        if time.time() > go:
            course.note(f"the start was known {time.time() - go:.1f} s too late")
        if clients.wait_until_done(go + 60 * self.limits.run_minutes):
            course.note("all clients ended")
        else:
            ended = clients.end()
            failures.append(
                f"clients {_numbers(ended)} had not ended {self.limits.run_minutes:g} minutes after the start"
            )

    def _close(
        self, run: Run, folder: Path, clients: Clients, course: Course, end: Barrier, *, failed: bool
    ) -> list[str]:
        """Wait for the other pods at the end and store the files; returns failures of other pods."""
        limits = self.limits
        last = time.time() + 60 * (
            limits.ready_minutes + limits.run_minutes + limits.store_minutes + limits.idle_minutes
        )
        if self.number != 0:
            end.arrive(failed=failed)
            course.write(folder, clients.exit_codes)
            self.store(folder)
            # The first pod is last: it has seen the end of all pods and idle servers.
            everybody = end.wait(last, for_pods={0})
        else:
            everybody = end.wait(last, for_pods=range(1, self.plan.pods))
            self._end_collector(course)
            if run is not self.plan.runs[-1]:
                self._tell(run, "waiting for idle servers", clients)
                course.note(self._wait_until_idle())
            course.write(folder, clients.exit_codes)
            self.store(folder)
            end.arrive(failed=failed or bool(everybody.failed))
        elsewhere = sorted(everybody.failed - {self.number})
        return [f"failed on pods {elsewhere}: their logs and files say why"] if elsewhere else []

    def _wait_until_idle(self) -> str:
        until, seen = time.time() + 60 * self.limits.idle_minutes, "unknown"
        while True:
            try:
                requests = in_flight(self.server_pods)
                if requests == 0:
                    return "servers idle"
                seen = f"{requests:g} requests in flight"
            except ScrapeError as error:
                seen = str(error)
            if time.time() >= until:
                LOG.warning("the servers are not idle after %g minutes: %s", self.limits.idle_minutes, seen)
                return f"servers not idle after {self.limits.idle_minutes:g} minutes: {seen}"
            time.sleep(IDLE_POLL_SECONDS)

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

    def _end_collector(self, course: Course | None) -> None:
        collector, self._collector = self._collector, None
        if collector is None:
            return
        if collector.poll() is None:
            collector.send_signal(signal.SIGTERM)
        try:
            code = collector.wait(COLLECTOR_END_SECONDS)
        except subprocess.TimeoutExpired:
            collector.kill()
            code = collector.wait()
        if code != 0 and course is not None:
            course.note(f"the metrics collector ended with exit code {code}: {METRICS_FILE} is missing or not whole")

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
            bucket.put(f"{self.prefix}{file.parent.name}/{file.name}", file)
        # Hundreds of runs would fill the disk.
        file.unlink()

    def abandon(self, why: str, grace_seconds: float) -> None:
        """End the clients and store the existing files where possible."""
        if self._clients is not None:
            self._clients.end(grace_seconds)
        self._end_collector(self._course)
        for folder in sorted(self.results.glob("point-*-repeat-*")):
            try:
                if self._course is not None and self._clients is not None:
                    self._course.note(why)
                    self._course.write(folder, self._clients.exit_codes)
                self.store(folder, self.bucket.hasty())
            except (BucketError, OSError) as error:
                LOG.warning("files of %s stay in %s: %s", folder.name, folder, error)


def _numbers(numbers: list[int]) -> str:
    if not numbers:
        return "none"
    whole = numbers == list(range(numbers[0], numbers[-1] + 1))
    return f"{numbers[0]} to {numbers[-1]}" if whole and len(numbers) > 1 else ", ".join(map(str, numbers))
