"""Servers and clients of a batch as processes that can be killed, before one simulated bucket."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from types import TracebackType
from typing import Final, Self

from fleet import CODE
from lab.simulators.bucket import TOKEN_PATH, LocalBucket, is_state_of_a_batch, of_error
from lab.simulators.local_server import Answer, Request
from lab.simulators.model_server.listener import LOOPBACK
from lab.simulators.model_server.node import Evenly, Faults, Node, Pace
from tests.workloads.batch.server import READY, shared_socket
from tests.workloads.batch.stored import ID, MODEL, PREFIX
from workloads.batch.pods.process_batch import TERMINATED_CODE
from workloads.batch.pods.shards import tally_of_part

POLL_SECONDS: Final = 0.02
END_SECONDS: Final = 10.0
_CLIENT: Final = (
    "import os, runpy, threading\n"
    "def follow():\n"
    "    while os.read(0, 1):\n"
    "        pass\n"
    "    os._exit(9)\n"
    "threading.Thread(target=follow, daemon=True).start()\n"
    "runpy.run_module('workloads.batch.pods.process_batch', run_name='__main__', alter_sys=True)\n"
)
"""A client that also ends when its standard input does: with this process, however that ends."""


class FleetError(Exception):
    """A server did not start, a client failed, or the batch did not end in time."""


@dataclass(frozen=True, kw_only=True)
class Served:
    """What each server is."""

    pace: Pace
    faults: Faults = field(default_factory=Faults)
    max_num_seqs: int = 64
    speed: float = 1.0


class FailingBucket(LocalBucket):
    """A bucket that answers a share of all requests with 503: every other time it has done what was asked, and says nothing of it."""

    def __init__(self, share: float) -> None:
        super().__init__("batches", overwritable=is_state_of_a_batch)
        self._fails, self._forgets = Evenly(share), Evenly(0.5)

    def called(self, request: Request) -> Answer:
        """As the base class, or 503."""
        with self.lock:
            fails = request.path != TOKEN_PATH and self._fails()
            does = not fails or self._forgets()
        answer = super().called(request) if does else None
        return answer if answer is not None and not fails else of_error(503, "made to fail")


class Fleet:
    """A context manager: a bucket, and no process yet."""

    def __init__(
        self, served: Served, *, servers: int, speed: float, options: Sequence[str] = (), bucket_fails: float = 0.0
    ) -> None:
        """`speed`: of the clients' durations; `options`: further ones of each client; `bucket_fails`: share of its requests."""
        self._served, self._speed, self._options = served, speed, options
        self.bucket = FailingBucket(bucket_fails)
        # Kept bound, so that no other program gets a port while its server is away.
        self._sockets = [shared_socket(0) for _ in range(servers + 1)]
        self._shared, *self._ports = (bound.getsockname()[1] for bound in self._sockets)
        self.servers: dict[int, subprocess.Popen[bytes]] = {}
        self.clients: dict[int, subprocess.Popen[bytes]] = {}
        self.url = f"http://{LOOPBACK}:{self._shared}"
        """Of all servers."""
        self.ended: list[int] = []
        """Exit codes of clients that ended by themselves, in order."""

    def __enter__(self) -> Self:
        self.bucket.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in (*self.clients.values(), *self.servers.values()):
            _kill(process)
        for bound in self._sockets:
            bound.close()
        self.bucket.__exit__()

    # Servers

    def start_servers(self, *numbers: int) -> None:
        """Start servers and wait until they are ready. Raises FleetError."""
        options = {
            "node": asdict(
                Node(
                    model=MODEL,
                    ranks=1,
                    pace=self._served.pace,
                    max_num_seqs=self._served.max_num_seqs,
                    mean_answer_tokens=1_000,
                )
            ),
            "faults": asdict(self._served.faults),
            "speed": self._served.speed,
            "shared_port": self._shared,
        }
        for number in numbers:
            asked = json.dumps({**options, "port": self._ports[number]})
            command = [sys.executable, "-m", "tests.workloads.batch.server", asked]
            self.servers[number] = _started(command, stdout=subprocess.PIPE)
        for number in numbers:
            out = self.servers[number].stdout
            assert out is not None
            if out.readline().decode().strip() != READY:
                raise FleetError(f"server {number} did not start")
            out.close()

    def kill_server(self, number: int) -> None:
        """SIGKILL."""
        _kill(self.servers.pop(number))

    # Clients

    def start_clients(self, *numbers: int) -> None:
        """Start clients, as a Job starts its pods."""
        addresses = ",".join(f"{LOOPBACK}:{port}" for port in self._ports)
        for number in numbers:
            command = [sys.executable, "-c", _CLIENT]
            command += [f"--bucket={self.bucket.name}", f"--batch={ID}", f"--index={number}"]
            command += [f"--endpoint={self.url}", f"--server-pods={addresses}"]
            command += [f"--storage-url={self.bucket.url}", f"--metadata-url={self.bucket.url}"]
            command += [f"--speed={self._speed:g}", *self._options]
            self.clients[number] = _started(command, stdout=subprocess.DEVNULL, POD_UID=str(number))

    def kill_client(self, number: int) -> None:
        """SIGKILL, then another one of the same number, as the Job makes."""
        _kill(self.clients.pop(number))
        self.start_clients(number)

    def end_client(self, number: int) -> None:
        """SIGTERM, and another one in its place once it has ended."""
        self.clients[number].send_signal(signal.SIGTERM)

    def sleep_through_leases(self, number: int, seconds: float) -> None:
        """Stop a client until others have taken all that it had, and let it wake up. Raises FleetError after so many seconds."""
        client = self.clients[number]
        client.send_signal(signal.SIGSTOP)
        try:
            self.wait(lambda: not self._has_leases(number), seconds)
        finally:
            client.send_signal(signal.SIGCONT)

    def _has_leases(self, number: int) -> bool:
        with self.bucket.lock:
            leases = [
                stored.content for name, stored in self.bucket.objects.items() if name.startswith(f"{PREFIX}leases/")
            ]
        return any(json.loads(content)["holder"].startswith(f"{number}/") for content in leases)

    def look_after_clients(self) -> None:
        """Note clients that ended, and start those again whose end is no success. Raises FleetError for a defect of one."""
        for number, client in list(self.clients.items()):
            code = client.poll()
            if code is None:
                continue
            self.ended.append(code)
            _kill(self.clients.pop(number))
            if code == TERMINATED_CODE:
                self.start_clients(number)
            elif code:
                raise FleetError(f"client {number} ended with {code}")

    def wait(self, is_so: Callable[[], bool], seconds: float) -> None:
        """Wait for a state, and look after the clients meanwhile. Raises FleetError after so many seconds."""
        until = time.monotonic() + seconds
        while not is_so():
            if time.monotonic() > until:
                raise FleetError(f"not so within {seconds:g} s: {self.stored} documents have a line")
            self.look_after_clients()
            time.sleep(POLL_SECONDS)

    @property
    def stored(self) -> int:
        """Documents with a line in the bucket, about: those of two holders count twice."""
        counts: list[int] = json.loads(self.bucket.objects[f"{PREFIX}batch.json"].content)["counts"]
        with self.bucket.lock:
            names = [name.removeprefix(PREFIX) for name in self.bucket.objects]
        done = {int(name[8:13]) for name in names if name.startswith("results/")}
        parts = [name for name in names if name.startswith("parts/") and int(name[6:11]) not in done]
        return sum(counts[shard] for shard in done) + sum(tally_of_part(name).documents for name in parts)


def _started(command: Sequence[str], *, stdout: int, **environment: str) -> subprocess.Popen[bytes]:
    path = os.pathsep.join(part for part in (str(CODE), os.environ.get("PYTHONPATH", "")) if part)
    # Of a session of its own: Ctrl-C is for this process, whose end ends it.
    return subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=stdout,
        env={**os.environ, **environment, "PYTHONPATH": path},
        start_new_session=True,
    )


def _kill(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait(END_SECONDS)
    if process.stdin is not None:
        process.stdin.close()
