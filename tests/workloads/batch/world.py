"""Servers, a bucket and the pods of a batch on this machine: pods are processes of the Job's own program with its own arguments."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Final, Self

from fleet import CODE
from settings.derived.batch_pods import BatchPods
from tests.support.simulators.bucket import TOKEN_PATH, LocalBucket, is_state_of_a_batch, of_error
from tests.support.simulators.local_server import Answer, Request
from tests.support.simulators.model_server.node import Evenly
from tests.workloads.batch.server import READY
from workloads.batch.job import PROGRAM, Work, job_manifest
from workloads.batch.pods.process_shard import line_number

ID: Final = "b0123456789ab"
PREFIX: Final = f"batches/{ID}/"
URL: Final = "/v1/chat/completions"
INDEX: Final = "$(JOB_COMPLETION_INDEX)"


class FailingBucket(LocalBucket):
    """A bucket that answers a share of all requests with 503: every other time it has done what was asked, and says nothing of it."""

    def __init__(self, share: float = 0.0) -> None:
        super().__init__("batches", overwritable=is_state_of_a_batch)
        self._fails, self._forgets = Evenly(share), Evenly(0.5)
        self.is_broken = False
        """Whether it fails every request."""
        self.asked = 0
        """Requests so far."""

    def called(self, request: Request) -> Answer:
        """As the base class, or 503."""
        with self.lock:
            self.asked += 1
            fails = self.is_broken or (request.path != TOKEN_PATH and self._fails())
            does = not fails or (self._forgets() and not self.is_broken)
        answer = super().called(request) if does else None
        return answer if answer is not None and not fails else of_error(503, "made to fail")


class World:
    """A context manager: `servers` servers on one port, and a bucket with the batch."""

    def __init__(
        self,
        prompts: Sequence[str],
        *,
        of_shard: int,
        servers: int = 1,
        speed: float = 20.0,
        bucket_fails: float = 0.0,
        **served: Any,
    ) -> None:
        """`speed`: pods' durations are divided by it; `served`: options of each server."""
        self.prompts, self.speed, self._served, self._count = prompts, speed, served, servers
        self.shards = -(-len(prompts) // of_shard)
        self.bucket = FailingBucket(bucket_fails)
        # Kept bound, so that no other program gets the port while its servers are away.
        self._bound = socket.socket()
        self._bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        self._bound.bind(("127.0.0.1", 0))
        self.servers: dict[int, subprocess.Popen[bytes]] = {}
        self.pods: list[subprocess.Popen[bytes]] = []
        for number, begin in enumerate(range(0, len(prompts), of_shard)):
            lines = (
                {"n": n, "custom_id": f"d{n}", "body": {"messages": [{"role": "user", "content": prompt}]}}
                for n, prompt in enumerate(prompts[begin : begin + of_shard], begin + 1)
            )
            content = "".join(json.dumps(line) + "\n" for line in lines)
            self.bucket.put(f"{PREFIX}shards/{number:05d}.jsonl", content.encode())

    def __enter__(self) -> Self:
        self.bucket.__enter__()
        for number in range(self._count):
            self.start_server(number)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in (*self.pods, *self.servers.values()):
            end(process)
        self._bound.close()
        self.bucket.__exit__()

    @property
    def endpoint(self) -> str:
        """URL of the servers."""
        return f"http://127.0.0.1:{self._bound.getsockname()[1]}"

    def start_server(self, number: int) -> None:
        """Start a server and wait until it is ready."""
        options = {"port": self._bound.getsockname()[1], **self._served}
        made = self.servers[number] = started(["-m", "tests.workloads.batch.server", json.dumps(options)])
        assert made.stdout is not None
        assert made.stdout.readline() == READY

    def kill_server(self, number: int) -> None:
        """SIGKILL."""
        end(self.servers.pop(number))

    def job(self, *, seconds: float = 3600.0, in_flight: int = 20, servers: int = 1, **more: Any) -> dict[str, Any]:
        """The batch's Job over the shards without a part."""
        done = {int(name[-11:-6]) for name in self.bucket.objects if name.startswith(f"{PREFIX}parts/")}
        now = time.time()
        work = Work(
            batch=ID,
            shards=[number for number in range(self.shards + 1) if number not in done],
            last=self.shards,
            url=URL,
            request_seconds=600.0,
            until=now + seconds,
        )
        return job_manifest(
            work,
            servers=servers,
            pods=BatchPods(4, in_flight),
            now=now,
            namespace="default",
            key_store=None,
            endpoint=self.endpoint,
            bucket=self.bucket.name,
            image="python",
            config_map="programs",
            labels={},
            **more,
        )

    def pod(
        self,
        index: int,
        job: Mapping[str, Any] | None = None,
        failures: int = 0,
        *,
        located: bool = True,
        **environment: str,
    ) -> subprocess.Popen[bytes]:
        """Start the program of one index, as a kubelet does. `located`: with the addresses of this world's bucket, and its speed."""
        (container,) = (job or self.job())["spec"]["template"]["spec"]["containers"]
        words = [one.replace(INDEX, str(index)) for one in container["args"]]
        if located:
            words += [f"--storage-url={self.bucket.url}", f"--metadata-url={self.bucket.url}"]
            words += [f"--speed={self.speed:g}"]
        made = started(["-m", PROGRAM, *words], INDEX_FAILURES=str(failures), **environment)
        self.pods.append(made)
        return made

    def lines(self) -> list[dict[str, Any]]:
        """Every result line, in the order of the input. Raises ValueError unless each document has exactly one."""
        with self.bucket.lock:
            parts = [one.content for name, one in self.bucket.objects.items() if name.startswith(f"{PREFIX}parts/")]
        found = sorted((line for part in parts for line in part.splitlines()), key=line_number)
        read = [json.loads(line) for line in found]
        if [one["custom_id"] for one in read] != [f"d{n}" for n in range(1, len(self.prompts) + 1)]:
            count = Counter(one["custom_id"] for one in read)
            twice = [name for name, times in count.items() if times > 1]
            raise ValueError(f"{len(read)} lines of {len(self.prompts)} documents; twice: {twice[:10]}")
        return read

    def errors(self) -> dict[int, str]:
        """Codes of the lines with an error, by the document's number."""
        return {n: line["error"]["code"] for n, line in enumerate(self.lines(), 1) if line["error"]}

    def has(self, folder: str) -> list[str]:
        """Names of the batch's objects in a folder."""
        with self.bucket.lock:
            return sorted(name for name in self.bucket.objects if name.startswith(f"{PREFIX}{folder}/"))


def started(words: Sequence[str], **environment: str) -> subprocess.Popen[bytes]:
    """A Python process of this repository, of a session of its own."""
    path = os.pathsep.join(part for part in (str(CODE), os.environ.get("PYTHONPATH", "")) if part)
    return subprocess.Popen(
        [sys.executable, "-B", *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, **environment, "PYTHONPATH": path},
        start_new_session=True,
    )


def end(process: subprocess.Popen[bytes]) -> None:
    """SIGKILL."""
    process.kill()
    process.wait(10)
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()


def said(process: subprocess.Popen[bytes]) -> list[dict[str, Any]]:
    """Log lines of a pod that ended."""
    assert process.stdout is not None
    return [json.loads(line) for line in process.stdout.read().splitlines()]
